// Asynchronous copies to shared memory, on the host: each is done when its thread waits, so that a missing wait shows.
#ifndef TFJAC_TESTS_GPU_EMULATION_CUDA_PIPELINE_H_
#define TFJAC_TESTS_GPU_EMULATION_CUDA_PIPELINE_H_

#include <cuda_runtime.h>

#include <vector>

namespace emulation {

struct Copy {
  void* to;
  const void* from;
  size_t bytes;
};

inline std::vector<Copy>& CopiesOfThread() {
  static std::vector<Copy> copies[1024];
  return copies[threadIdx.x];
}

}  // namespace emulation

inline void __pipeline_memcpy_async(void* to, const void* from, size_t bytes) {
  emulation::CopiesOfThread().push_back({to, from, bytes});
}
inline void __pipeline_commit() {}
inline void __pipeline_wait_prior(size_t) {
  for (const emulation::Copy& copy : emulation::CopiesOfThread()) std::memcpy(copy.to, copy.from, copy.bytes);
  emulation::CopiesOfThread().clear();
}

#endif  // TFJAC_TESTS_GPU_EMULATION_CUDA_PIPELINE_H_
