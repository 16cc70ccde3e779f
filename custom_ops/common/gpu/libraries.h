// cuBLAS and cuSOLVER, opened when first needed: libtfjac_cuda.so is not linked to them and loads without them.
//
// Inside a process that has them already (TensorFlow, PyTorch, CuPy) that copy is used, whatever its version; else they
// are looked for under their usual names: in the folders that tfjac_cuda_search_in was given, then where the system
// looks. The environment variables TFJAC_CUBLAS and TFJAC_CUSOLVER name other files. Only functions whose interface has
// been the same from CUDA 11 to 13 are called.
#ifndef TFJAC_CUSTOM_OPS_COMMON_GPU_LIBRARIES_H_
#define TFJAC_CUSTOM_OPS_COMMON_GPU_LIBRARIES_H_

#include <cstdint>

#include "custom_ops/common/gpu/block_sizes.h"

namespace tfjac {

// Whether a product of `operations` floating-point operations is to go through memory to cuBLAS, rather than to be made tile
// by tile: from `worth` on. The same for the same product whenever it is asked: workspaces are cut by it.
bool UseCublas(double operations, double worth = kWorthLibrary);

// All matrices row by row, in device memory; `add`: to what is there. Sizes and leading dimensions below 2^31. Products are
// computed in the precision of T, unless tfjac_cuda_use_tf32 says otherwise.

// out[rows, columns] = leftᵀ right for left [depth, rows], right [depth, columns].
template <typename T>
int LibraryProduct(void* stream, int64_t rows, int64_t columns, int64_t depth, const T* left, int64_t ld_left,
                   const T* right, int64_t ld_right, bool add, T* out, int64_t ld);

// out[rows, columns] = left rightᵀ for left [rows, depth], right [columns, depth].
template <typename T>
int LibraryProductOfRows(void* stream, int64_t rows, int64_t columns, int64_t depth, const T* left, int64_t ld_left,
                         const T* right, int64_t ld_right, bool add, T* out, int64_t ld);

// The lower triangle of out[size, size] = panelᵀ panel for panel [depth, size]; what is above the diagonal may be written.
template <typename T>
int LibrarySquare(void* stream, int64_t size, int64_t depth, const T* panel, int64_t ld_panel, bool add, T* out,
                  int64_t ld);

// out[k, rows, columns] = left[k]ᵀ right[k] for `count` matrices left [depth, rows], right [depth, columns], all dense.
template <typename T>
int LibraryProducts(void* stream, int64_t count, int64_t rows, int64_t columns, int64_t depth, const T* left,
                    const T* right, T* out);

// Numbers of device memory that LibraryCholesky wants as `buffer`, in bytes.
template <typename T>
int CholeskyBuffer(void* stream, int64_t size, int64_t* bytes);

// Solve matrix x = rhs in place of rhs, of a matrix [size, size] of which the upper triangle is read and overwritten by
// its factor: row by row that is the triangle which cuSOLVER factorises three times as fast (p = 3,000 on an NVIDIA H200,
// measured on 2026-11-27: 1.02 ms against 3.05 in float32, 1.34 against 3.73 in float64). failed[0] becomes nonzero if
// there is none (then x is arbitrary); failed[1] is scratch.
template <typename T>
int LibraryCholesky(void* stream, int64_t size, T* matrix, T* rhs, void* buffer, int64_t bytes, int* failed);

// The same for `count` systems at once, matrices[k] and rhs[k] being arrays in device memory of where these are. failed[k]
// becomes nonzero if the matrix k has no factor; failed[count] is scratch.
template <typename T>
int LibraryCholeskys(void* stream, int64_t count, int64_t size, T** matrices, T** rhs, int* failed);

}  // namespace tfjac

#endif  // TFJAC_CUSTOM_OPS_COMMON_GPU_LIBRARIES_H_
