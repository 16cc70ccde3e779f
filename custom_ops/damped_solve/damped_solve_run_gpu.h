// DampedSolve on a stream, be it of TensorFlow's op or of XLA's call. Compiled by g++, without a CUDA header.
#ifndef TFJAC_CUSTOM_OPS_DAMPED_SOLVE_DAMPED_SOLVE_RUN_GPU_H_
#define TFJAC_CUSTOM_OPS_DAMPED_SOLVE_DAMPED_SOLVE_RUN_GPU_H_

#include "custom_ops/common/gpu/stream.h"
#include "custom_ops/damped_solve/damped_solve_gpu.h"

namespace tfjac {

template <typename T>
Outcome RunDampedSolve(GpuStream& stream, const DampedSystems<T>& systems, T* solution, bool* success) {
  return stream.Run(
      "DampedSolve", [&](void* on, int64_t* bytes) { return DampedSolveWorkspace(on, systems, bytes); },
      [&](void* on, void* workspace) { return LaunchDampedSolve(on, systems, solution, success, workspace); });
}

}  // namespace tfjac

#endif  // TFJAC_CUSTOM_OPS_DAMPED_SOLVE_DAMPED_SOLVE_RUN_GPU_H_
