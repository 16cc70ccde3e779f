// Launching kernels and cutting up workspaces. For files compiled by nvcc.
#ifndef TFJAC_CUSTOM_OPS_COMMON_GPU_LAUNCH_H_
#define TFJAC_CUSTOM_OPS_COMMON_GPU_LAUNCH_H_

#include <cuda_runtime.h>

#include "custom_ops/common/factors.h"
#include "custom_ops/common/gpu/api.h"
#include "custom_ops/common/gpu/block_sizes.h"

// Return from a launcher with the error code of a step that failed.
#define TFJAC_RETURN_IF_ERROR(...)                          \
  do {                                                      \
    const int error_code = static_cast<int>((__VA_ARGS__)); \
    if (error_code != 0) return error_code;                 \
  } while (false)

namespace tfjac {

TFJAC_HOST_DEVICE static constexpr int64_t CeilingOf(int64_t x, int64_t step) { return (x + step - 1) / step; }
TFJAC_HOST_DEVICE static constexpr int64_t SmallerOf(int64_t x, int64_t y) { return x < y ? x : y; }
TFJAC_HOST_DEVICE static constexpr int64_t LargerOf(int64_t x, int64_t y) { return x > y ? x : y; }

// The tasks of a block: kernels are launched for a number of tasks, with as many blocks as a grid may have.
//     for (int64_t task = FirstTask(); task < tasks; task += TaskStep())
__device__ static inline int64_t FirstTask() { return blockIdx.x; }
__device__ static inline int64_t TaskStep() { return gridDim.x; }

// Launch `kernel` with a block for each task. No task, no launch.
template <typename... Parameters, typename... Arguments>
int Launch(void* stream, int64_t tasks, void (*kernel)(Parameters...), const Arguments&... arguments) {
  if (tasks <= 0) return 0;
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(static_cast<unsigned>(SmallerOf(tasks, kMaxBlocks)));
  config.blockDim = dim3(kThreads);
  config.stream = static_cast<cudaStream_t>(stream);
  const cudaError_t error = cudaLaunchKernelEx(&config, kernel, arguments...);
  if (error != cudaSuccess) (void)cudaGetLastError();  // reported here, not again by the next call
  return static_cast<int>(error);
}

// Rows that a thread walks down where `across` blocks stand side by side: fewer where there are too few blocks otherwise.
static inline int RowsPerThread(int64_t across, int64_t rows) {
  int depth = kMostRowsPerThread;
  while (depth > kRowsAtOnce && across * CeilingOf(rows, depth) < 2 * kEnoughBlocks) depth /= 2;
  return depth;
}

// Pieces of a workspace, each aligned as the workspace is. Without memory it counts what would be needed.
class Arena {
 public:
  explicit Arena(void* memory) : memory_(static_cast<char*>(memory)) {}

  template <typename T>
  T* Take(int64_t count) {
    char* const piece = memory_ == nullptr ? nullptr : memory_ + used_;
    used_ += CeilingOf(count * static_cast<int64_t>(sizeof(T)), kWorkspaceAlignment) * kWorkspaceAlignment;
    return reinterpret_cast<T*>(piece);
  }
  int64_t used() const { return used_; }

 private:
  char* memory_;
  int64_t used_ = 0;
};

}  // namespace tfjac

#endif  // TFJAC_CUSTOM_OPS_COMMON_GPU_LAUNCH_H_
