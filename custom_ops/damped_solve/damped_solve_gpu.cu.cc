#include "custom_ops/damped_solve/damped_solve_gpu.h"

#include "custom_ops/common/gpu/launch.h"
#include "custom_ops/common/gpu/libraries.h"

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

// What has gone wrong with the system at hand: a number that is not finite; the statuses of the two steps of cuSOLVER.
struct Failure {
  int not_finite, factor[2];
};

// Copy the lower triangle of one damped system to `work` and the right-hand side to `solution`. A block per row.
template <typename T>
__global__ void __launch_bounds__(kThreads)
    DampKernel(DampedSystems<T> systems, int64_t j, T* work, T* solution, Failure* failure) {
  const T *const matrix = systems.MatrixOf(j), *const scaling = systems.ScalingOf(j), *const rhs = systems.RhsOf(j);
  for (int64_t row = FirstTask(); row < systems.p; row += TaskStep()) {
    for (int64_t column = threadIdx.x; column <= row; column += kThreads) {
      T value = matrix[row * systems.p + column];
      if (column == row) value += systems.damping[j] * scaling[row];
      work[row * systems.p + column] = value;
      if (!IsFinite(value)) atomicOr(&failure->not_finite, 1);
    }
    if (threadIdx.x == 0) {
      solution[row] = rhs[row];
      if (!IsFinite(rhs[row])) atomicOr(&failure->not_finite, 1);
    }
  }
}

// Set the flag of one system, and its solution to zero where it failed. One block.
template <typename T>
__global__ void __launch_bounds__(kThreads) JudgeKernel(int64_t p, const Failure* failure, T* solution, bool* success) {
  __shared__ int failed;
  if (threadIdx.x == 0) failed = failure->not_finite | failure->factor[0];
  __syncthreads();
  for (int64_t k = threadIdx.x; k < p; k += kThreads) {
    if (!IsFinite(solution[k])) atomicOr(&failed, 1);
  }
  __syncthreads();
  for (int64_t k = threadIdx.x; failed != 0 && k < p; k += kThreads) solution[k] = T(0);
  if (threadIdx.x == 0) *success = failed == 0;
}

template <typename T>
struct Space {
  T* work;
  Failure* failure;
  char* buffer;
  int64_t buffer_bytes = 0;

  int Take(void* stream, int64_t p, Arena* arena) {
    TFJAC_RETURN_IF_ERROR(CholeskyBuffer<T>(stream, p, &buffer_bytes));
    work = arena->Take<T>(p * p);
    failure = arena->Take<Failure>(1);
    buffer = arena->Take<char>(buffer_bytes);
    return 0;
  }
};

template <typename T>
int DampedSolve(void* stream, const DampedSystems<T>& systems, T* solution, bool* success, void* workspace) {
  if (systems.p <= kSmallSystem) return Launch(stream, systems.k, SolveSmallKernel<T>, systems, solution, success);
  Arena arena(workspace);
  Space<T> space;
  TFJAC_RETURN_IF_ERROR(space.Take(stream, systems.p, &arena));
  for (int64_t j = 0; j < systems.k; ++j, solution += systems.p, ++success) {
    TFJAC_RETURN_IF_ERROR(
        cudaMemsetAsync(space.failure, 0, sizeof(Failure), static_cast<cudaStream_t>(stream)));
    TFJAC_RETURN_IF_ERROR(Launch(stream, systems.p, DampKernel<T>, systems, j, space.work, solution, space.failure));
    TFJAC_RETURN_IF_ERROR(LibraryCholesky(stream, systems.p, space.work, solution, space.buffer, space.buffer_bytes,
                                          space.failure->factor));
    TFJAC_RETURN_IF_ERROR(Launch(stream, 1, JudgeKernel<T>, systems.p, static_cast<const Failure*>(space.failure),
                                 solution, success));
  }
  return 0;
}

template <typename T>
int Workspace(void* stream, const DampedSystems<T>& systems, int64_t* bytes) {
  *bytes = 0;
  if (systems.p <= kSmallSystem) return 0;
  Arena arena(nullptr);
  Space<T> space;
  TFJAC_RETURN_IF_ERROR(space.Take(stream, systems.p, &arena));
  *bytes = arena.used();
  return 0;
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
