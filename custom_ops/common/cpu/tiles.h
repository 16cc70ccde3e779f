// Dense products of tiles: the engine below the ops on the CPU. Compiled per instruction set on top of Eigen.
//
// All matrices are row-major with a leading dimension; C never overlaps A or B. One call runs on one thread and its order
// of summation depends on the sizes alone. No call allocates from the heap for tiles up to kTile x kTile x kDepth.
#ifndef TFJAC_CUSTOM_OPS_COMMON_CPU_TILES_H_
#define TFJAC_CUSTOM_OPS_COMMON_CPU_TILES_H_

#include <cstdint>

#include "custom_ops/common/cpu/isa.h"

namespace tfjac {

constexpr int64_t kTile = 256;   // rows and columns of a tile of a result
constexpr int64_t kDepth = 256;  // length of the sums taken at a time

TFJAC_PER_ISA(
    // C[rows, columns] += A[depth, rows]ᵀ B[depth, columns]
    template <typename T> void AddTransposedProduct(int64_t rows, int64_t columns, int64_t depth, const T* a,
                                                    int64_t lda, const T* b, int64_t ldb, T* c, int64_t ldc);

    // C[size, size] += A[depth, size]ᵀ A[depth, size], lower triangle only
    template <typename T>
    void AddTransposedSquare(int64_t size, int64_t depth, const T* a, int64_t lda, T* c, int64_t ldc);

    // C[rows, columns] += scale A[rows, depth] B[columns, depth]ᵀ
    template <typename T> void AddProduct(int64_t rows, int64_t columns, int64_t depth, T scale, const T* a,
                                          int64_t lda, const T* b, int64_t ldb, T* c, int64_t ldc);

    // C[size, size] += scale A[size, depth] A[size, depth]ᵀ, lower triangle only
    template <typename T>
    void AddSquare(int64_t size, int64_t depth, T scale, const T* a, int64_t lda, T* c, int64_t ldc);

    // Replace the lower triangle of A[size, size] by its Cholesky factor L; false where A is not positive definite.
    template <typename T> bool FactorTile(int64_t size, T* a, int64_t lda);

    // Replace B[rows, size] by B L⁻ᵀ, L the lower triangle of l.
    template <typename T> void SolveTile(int64_t rows, int64_t size, const T* l, int64_t ldl, T* b, int64_t ldb);)

}  // namespace tfjac

#endif  // TFJAC_CUSTOM_OPS_COMMON_CPU_TILES_H_
