// What every launcher of libtfjac_cuda.so has in common. A plain C interface: no CUDA header, no TensorFlow header.
//
// A launcher tfjac_cuda_<op>_<f32|f64> takes a cudaStream_t as void*, sizes, device pointers and a workspace in device
// memory, aligned to kWorkspaceAlignment, whose size its companion tfjac_cuda_<op>_workspace_<f32|f64> gives for the
// same sizes. It enqueues work on the stream, does not wait for it, checks every launch, and returns 0 or an error code
// for tfjac_cuda_error_message.
// Results do not depend on what the workspace or the results held before. Results are the same bits in every run on the
// same GPU.
#ifndef TFJAC_CUSTOM_OPS_COMMON_GPU_API_H_
#define TFJAC_CUSTOM_OPS_COMMON_GPU_API_H_

#include <cstdint>

#define TFJAC_API extern "C" __attribute__((visibility("default")))

namespace tfjac {

constexpr int64_t kWorkspaceAlignment = 256;  // bytes, as cudaMalloc's: cuSOLVER gets a part of the workspace

// Error codes: those of the CUDA runtime as they are, the others shifted.
constexpr int kCublasError = 10000;    // + cublasStatus_t
constexpr int kCusolverError = 20000;  // + cusolverStatus_t
constexpr int kNoCublas = 30001;
constexpr int kNoCusolver = 30002;

// Which products go through memory to cuBLAS.
enum LibraryUse { kNeverLibrary = 0, kLibraryWhereFaster = 1, kAlwaysLibrary = 2 };

}  // namespace tfjac

// A sentence for an error code. The text lives until the thread's next call.
TFJAC_API const char* tfjac_cuda_error_message(int code);

// Choose whether products that need not exist in memory do so, for cuBLAS to multiply, or are made tile by tile: a
// LibraryUse, for the whole process; kLibraryWhereFaster to begin with. Products of what is in memory go to cuBLAS always.
TFJAC_API void tfjac_cuda_use_library(int use);

// Whether cuBLAS may round float32 to TF32 (10 bits) in products, for the whole process; not, to begin with.
TFJAC_API void tfjac_cuda_use_tf32(int use);

// Look for cuBLAS and cuSOLVER in this folder as well, after those given before. Before the first launch.
TFJAC_API void tfjac_cuda_search_in(const char* folder);

// 0 where the driver is there and can run this library's CUDA runtime; else an error code. Makes no context on a device.
TFJAC_API int tfjac_cuda_driver_status();

// Version of the CUDA runtime linked into the library, as in 13000.
TFJAC_API int tfjac_cuda_runtime_version();

#endif  // TFJAC_CUSTOM_OPS_COMMON_GPU_API_H_
