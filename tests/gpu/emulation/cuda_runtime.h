// CUDA on the host, enough of it to run the kernels of custom_ops/ where there is no GPU. Found before the real header
// of this name when the *_gpu.cu.cc files are compiled by a C++ compiler with this folder first among the include
// paths.
//
// Every thread of a block is a fiber, a function with a stack of its own. Blocks run one after the other; the fibers of
// a block run one after the other as well, each until it reaches a barrier or its end. A missing barrier therefore
// shows: the threads that run first read what the others have not yet written. Since that depends on who runs first,
// tests run each kernel twice, the threads in rising and in falling order. A barrier that not all threads of the block
// (or, for a shuffle, the warp) reach fails the launch, as it would hang on a GPU.
#ifndef TFJAC_TESTS_GPU_EMULATION_CUDA_RUNTIME_H_
#define TFJAC_TESTS_GPU_EMULATION_CUDA_RUNTIME_H_

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>

#define __host__
#define __device__
#define __global__
#define __grid_constant__
#define __launch_bounds__(...)
#define __shared__ static  // one block at a time, on one thread

struct dim3 {
  unsigned x, y, z;
  dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
};

using cudaStream_t = void*;
enum cudaError_t { cudaSuccess = 0, cudaErrorInvalidConfiguration = 9, cudaErrorLaunchFailure = 719 };
enum cudaDataType { CUDA_R_32F = 0, CUDA_R_64F = 1 };
struct cudaLaunchConfig_t {
  dim3 gridDim, blockDim;
  size_t dynamicSmemBytes = 0;
  cudaStream_t stream = nullptr;
};

namespace emulation {

void WaitForBlock();
void WaitForWarp();
void* SlotOfThread(unsigned thread);  // eight bytes that threads of a warp exchange numbers in
cudaError_t RunGrid(dim3 grid, dim3 block, const std::function<void()>& kernel);

}  // namespace emulation

extern dim3 threadIdx, blockIdx, blockDim, gridDim;  // of the fiber that is running

inline void __syncthreads() { emulation::WaitForBlock(); }

template <typename T>
T __shfl_xor_sync(unsigned, T value, int lanes) {
  static_assert(sizeof(T) <= 8, "as on a GPU");
  std::memcpy(emulation::SlotOfThread(threadIdx.x), &value, sizeof(T));
  emulation::WaitForWarp();
  std::memcpy(&value, emulation::SlotOfThread(threadIdx.x ^ static_cast<unsigned>(lanes)), sizeof(T));
  emulation::WaitForWarp();
  return value;
}

inline int atomicOr(int* address, int value) {
  const int before = *address;
  *address |= value;
  return before;
}

using std::sqrt;

template <typename... Parameters, typename... Arguments>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t* config, void (*kernel)(Parameters...),
                               const Arguments&... arguments) {
  return emulation::RunGrid(config->gridDim, config->blockDim, [&] { kernel(arguments...); });
}

inline cudaError_t cudaGetLastError() { return cudaSuccess; }
inline cudaError_t cudaGetDevice(int* device) { return *device = 0, cudaSuccess; }
inline cudaError_t cudaGetDeviceCount(int* count) { return *count = 1, cudaSuccess; }
inline cudaError_t cudaRuntimeGetVersion(int* version) { return *version = 0, cudaSuccess; }
inline cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t) {
  if (bytes > 0) std::memset(to, value, bytes);
  return cudaSuccess;
}
inline const char* cudaGetErrorName(cudaError_t) { return "emulated"; }
inline const char* cudaGetErrorString(cudaError_t error) {
  return error == cudaErrorLaunchFailure ? "threads disagree about a barrier" : "invalid configuration";
}

#endif  // TFJAC_TESTS_GPU_EMULATION_CUDA_RUNTIME_H_
