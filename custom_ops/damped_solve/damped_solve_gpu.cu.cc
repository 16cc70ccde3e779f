#include "custom_ops/damped_solve/damped_solve_gpu.h"

#include "custom_ops/common/gpu/launch.h"
#include "custom_ops/common/gpu/libraries.h"
#include "custom_ops/common/gpu/product.h"

namespace tfjac {
namespace {

template <typename T>
__device__ bool IsFinite(T x) {
  return x - x == T(0);
}

// The lower triangle of a damped matrix and, as row p below it, the right-hand side: factorising A = L Lᵀ leaves L⁻¹
// rhs there.
template <typename T>
using SmallMatrix = T[kSmallSystem + 1][kSmallSystem + 1];

// Load damped system j; false, in all threads, where something is not finite.
template <typename T>
__device__ bool LoadSmall(const DampedSystems<T>& systems, int64_t j, SmallMatrix<T>& work, int* failed) {
  const int p = static_cast<int>(systems.p);
  const T *const matrix = systems.MatrixOf(j), *const scaling = systems.ScalingOf(j), *const rhs = systems.RhsOf(j);
  const T damping = systems.damping[j];
  for (int k = static_cast<int>(threadIdx.x); k < (p + 1) * p; k += kThreads) {
    const int row = k / p, column = k % p;
    if (row < p && column > row) continue;
    T value = row < p ? matrix[k] : rhs[column];
    if (row == column) value += damping * scaling[row];
    work[row][column] = value;
    if (!IsFinite(value)) atomicOr(failed, 1);
  }
  __syncthreads();
  return *failed == 0;
}

// Right-looking Cholesky factorisation, column by column; false, in all threads, where the matrix is not positive
// definite.
template <typename T>
__device__ bool FactoriseSmall(int p, SmallMatrix<T>& work) {
  for (int j = 0; j < p; ++j) {
    const T pivot = work[j][j];
    if (!(pivot > T(0)) || !IsFinite(pivot)) return false;
    const T root = sqrt(pivot);
    __syncthreads();  // all threads have read the pivot
    for (int row = j + static_cast<int>(threadIdx.x); row <= p; row += kThreads) {
      work[row][j] = row == j ? root : work[row][j] / root;
    }
    __syncthreads();
    const int rest = p - j;  // rows below the pivot, right-hand side included
    for (int k = static_cast<int>(threadIdx.x); k < rest * rest; k += kThreads) {
      const int row = j + 1 + k / rest, column = j + 1 + k % rest;
      if (column <= row && column < p) work[row][column] -= work[row][j] * work[column][j];
    }
    __syncthreads();
  }
  return true;
}

// Solve Lᵀ x = y in place of y, the last row.
template <typename T>
__device__ void SubstituteSmall(int p, SmallMatrix<T>& work) {
  for (int row = p - 1; row >= 0; --row) {
    if (threadIdx.x == 0) work[p][row] /= work[row][row];
    __syncthreads();
    for (int column = static_cast<int>(threadIdx.x); column < row; column += kThreads) {
      work[p][column] -= work[p][row] * work[row][column];
    }
    __syncthreads();
  }
}

// A block per value of the damping.
template <typename T>
__global__ void __launch_bounds__(kThreads) SolveSmallKernel(DampedSystems<T> systems, T* solution, bool* success) {
  __shared__ SmallMatrix<T> work;
  __shared__ int failed;
  const int p = static_cast<int>(systems.p);
  for (int64_t j = FirstTask(); j < systems.k; j += TaskStep()) {
    __syncthreads();
    if (threadIdx.x == 0) failed = 0;
    __syncthreads();
    const bool factorised = LoadSmall(systems, j, work, &failed) && FactoriseSmall(p, work);
    if (factorised) SubstituteSmall(p, work);
    for (int k = static_cast<int>(threadIdx.x); factorised && k < p; k += kThreads) {
      if (!IsFinite(work[p][k])) atomicOr(&failed, 1);
    }
    __syncthreads();
    const bool good = factorised && failed == 0;
    for (int k = static_cast<int>(threadIdx.x); k < p; k += kThreads) solution[j * p + k] = good ? work[p][k] : T(0);
    if (threadIdx.x == 0) success[j] = good;
  }
}

// Where `count` systems are worked on, [count] each: their matrices, where these and the solutions are, and what went wrong, a
// number that is not finite or the status of cuSOLVER, which has one more for itself.
template <typename T>
struct Batch {
  int64_t count;
  T* work;
  T **matrices, **solutions;
  int *not_finite, *failed;
};

// A tile on or below the diagonal of a damped matrix [p, p], from (row, column) on, to its mirror image in `work`; whether all
// of it is finite. `tile` has been used by all threads, and may be again after a barrier.
template <typename T>
__device__ bool DampTile(const DampedSystems<T>& systems, int64_t j, int64_t row, int64_t column, MirrorTile<T>& tile,
                         T* work) {
  constexpr int kStep = kThreads / kMirrorSide;
  const int line = static_cast<int>(threadIdx.x) / kMirrorSide, place = static_cast<int>(threadIdx.x) % kMirrorSide;
  const int64_t p = systems.p, c = column + place;
  const T* const matrix = systems.MatrixOf(j);
  bool finite = true;
#pragma unroll
  for (int u = line; u < kMirrorSide; u += kStep) {
    const int64_t r = row + u;
    if (r >= p || c > r) continue;
    T value = matrix[r * p + c];
    if (c == r) value += systems.damping[j] * systems.ScalingOf(j)[r];
    finite = finite && IsFinite(value);
    tile[u][place] = value;
  }
  __syncthreads();
#pragma unroll
  for (int u = line; u < kMirrorSide; u += kStep) {
    const int64_t r = row + place, to = column + u;
    if (r < p && to <= r) work[to * p + r] = tile[place][u];
  }
  return finite;
}

// Write the lower triangles of the damped systems [first, first + count) to `work`, mirrored: the upper triangle row by row is
// the lower one column by column, which cuSOLVER factorises fastest. Copy the right-hand sides to `solution`. A block per
// tile; those on the diagonal copy the right-hand side.
template <typename T>
__global__ void __launch_bounds__(kThreads)
    DampKernel(DampedSystems<T> systems, int64_t first, Batch<T> batch, T* solution) {
  __shared__ MirrorTile<T> tile;
  const int64_t p = systems.p, tiles = TriangleSize(CeilingOf(p, kMirrorSide));
  for (int64_t task = FirstTask(); task < batch.count * tiles; task += TaskStep()) {
    const int64_t k = task / tiles, index = task % tiles, j = first + k, tile_row = TriangleRow(index);
    const int64_t row = tile_row * kMirrorSide, column = (index - TriangleIndex(tile_row, 0)) * kMirrorSide;
    T* const work = batch.work + k * p * p;
    __syncthreads();  // the tile before has been used
    if (!DampTile(systems, j, row, column, tile, work)) atomicOr(&batch.not_finite[k], 1);
    if (row != column) continue;
    for (int64_t r = row + threadIdx.x; r < SmallerOf(row + kMirrorSide, p); r += kThreads) {
      const T value = systems.RhsOf(j)[r];
      solution[k * p + r] = value;
      if (!IsFinite(value)) atomicOr(&batch.not_finite[k], 1);
    }
    if (row > 0 || threadIdx.x > 0) continue;
    batch.matrices[k] = work;
    batch.solutions[k] = solution + k * p;
  }
}

// Set the flags of the systems, and the solutions of those that failed to zero. A block per system.
template <typename T>
__global__ void __launch_bounds__(kThreads) JudgeKernel(int64_t p, Batch<T> batch, T* solution, bool* success) {
  __shared__ int failed;
  for (int64_t k = FirstTask(); k < batch.count; k += TaskStep()) {
    __syncthreads();
    if (threadIdx.x == 0) failed = batch.not_finite[k] | batch.failed[k];
    __syncthreads();
    for (int64_t j = threadIdx.x; j < p; j += kThreads) {
      if (!IsFinite(solution[k * p + j])) atomicOr(&failed, 1);
    }
    __syncthreads();
    for (int64_t j = threadIdx.x; failed != 0 && j < p; j += kThreads) solution[k * p + j] = T(0);
    if (threadIdx.x == 0) success[k] = failed == 0;
  }
}

// Systems of more than kSmallSystem unknowns. Made without memory it tells how large the workspace must be.
template <typename T>
class LargeSystems {
 public:
  LargeSystems(const DampedSystems<T>& systems, void* workspace) : systems_(systems), arena_(workspace) {
    const int64_t p = systems.p;
    const int64_t affordable = LargerOf(1, kPanelBytes / (p * p * static_cast<int64_t>(sizeof(T))));
    batch_.count = p <= kBatchedSystem ? SmallerOf(systems.k, affordable) : 1;
    batch_.work = arena_.Take<T>(batch_.count * p * p);
    batch_.matrices = arena_.Take<T*>(batch_.count);
    batch_.solutions = arena_.Take<T*>(batch_.count);
    batch_.not_finite = arena_.Take<int>(2 * batch_.count + 1);  // and `failed` behind it
  }

  int Bytes(void* stream, int64_t* bytes) {
    TFJAC_RETURN_IF_ERROR(TakeBuffer(stream));
    *bytes = arena_.used();
    return 0;
  }

  int Solve(void* stream, T* solution, bool* success) {
    TFJAC_RETURN_IF_ERROR(TakeBuffer(stream));
    const int64_t p = systems_.p;
    for (int64_t first = 0; first < systems_.k;
         first += batch_.count, solution += batch_.count * p, success += batch_.count) {
      Batch<T> some = batch_;
      some.count = SmallerOf(batch_.count, systems_.k - first);
      some.failed = some.not_finite + some.count;
      TFJAC_RETURN_IF_ERROR(
          cudaMemsetAsync(some.not_finite, 0, (2 * some.count + 1) * sizeof(int), static_cast<cudaStream_t>(stream)));
      const int64_t tiles = TriangleSize(CeilingOf(p, kMirrorSide));
      TFJAC_RETURN_IF_ERROR(Launch(stream, some.count * tiles, DampKernel<T>, systems_, first, some, solution));
      if (batch_.count > 1) {
        TFJAC_RETURN_IF_ERROR(LibraryCholeskys(stream, some.count, p, some.matrices, some.solutions, some.failed));
      } else {
        TFJAC_RETURN_IF_ERROR(LibraryCholesky(stream, p, some.work, solution, buffer_, buffer_bytes_, some.failed));
      }
      TFJAC_RETURN_IF_ERROR(Launch(stream, some.count, JudgeKernel<T>, p, some, solution, success));
    }
    return 0;
  }

 private:
  int TakeBuffer(void* stream) {
    if (batch_.count > 1) return 0;
    TFJAC_RETURN_IF_ERROR(CholeskyBuffer<T>(stream, systems_.p, &buffer_bytes_));
    buffer_ = arena_.Take<char>(buffer_bytes_);
    return 0;
  }

  const DampedSystems<T>& systems_;
  Arena arena_;
  Batch<T> batch_{};
  char* buffer_ = nullptr;
  int64_t buffer_bytes_ = 0;
};

template <typename T>
int DampedSolve(void* stream, const DampedSystems<T>& systems, T* solution, bool* success, void* workspace) {
  if (systems.p <= kSmallSystem) return Launch(stream, systems.k, SolveSmallKernel<T>, systems, solution, success);
  return LargeSystems<T>(systems, workspace).Solve(stream, solution, success);
}

template <typename T>
int Workspace(void* stream, const DampedSystems<T>& systems, int64_t* bytes) {
  *bytes = 0;
  return systems.p <= kSmallSystem ? 0 : LargeSystems<T>(systems, nullptr).Bytes(stream, bytes);
}

}  // namespace
}  // namespace tfjac

int tfjac_cuda_damped_solve_workspace_f32(void* stream, const tfjac::DampedSystems<float>* systems, int64_t* bytes) {
  return tfjac::Workspace(stream, *systems, bytes);
}
int tfjac_cuda_damped_solve_workspace_f64(void* stream, const tfjac::DampedSystems<double>* systems, int64_t* bytes) {
  return tfjac::Workspace(stream, *systems, bytes);
}
int tfjac_cuda_damped_solve_f32(void* stream, const tfjac::DampedSystems<float>* systems, float* solution,
                                bool* success, void* workspace) {
  return tfjac::DampedSolve(stream, *systems, solution, success, workspace);
}
int tfjac_cuda_damped_solve_f64(void* stream, const tfjac::DampedSystems<double>* systems, double* solution,
                                bool* success, void* workspace) {
  return tfjac::DampedSolve(stream, *systems, solution, success, workspace);
}
