// DampedSolve on the GPU: the contract of damped_solve.h for device pointers. See common/gpu/api.h for what launchers
// share.
//
// Systems of up to kSmallSystem unknowns are solved by one block each, in shared memory, all values of the damping in
// one launch; larger ones by cuSOLVER: many at once up to kBatchedSystem unknowns, then one after the other.
#ifndef TFJAC_CUSTOM_OPS_DAMPED_SOLVE_DAMPED_SOLVE_GPU_H_
#define TFJAC_CUSTOM_OPS_DAMPED_SOLVE_DAMPED_SOLVE_GPU_H_

#include "custom_ops/common/gpu/api.h"
#include "custom_ops/damped_solve/damped_solve.h"

// Bytes of workspace.
TFJAC_API int tfjac_cuda_damped_solve_workspace_f32(void* stream, const tfjac::DampedSystems<float>* systems,
                                                    int64_t* bytes);
TFJAC_API int tfjac_cuda_damped_solve_workspace_f64(void* stream, const tfjac::DampedSystems<double>* systems,
                                                    int64_t* bytes);

// solution: [k, p]; success: [k].
TFJAC_API int tfjac_cuda_damped_solve_f32(void* stream, const tfjac::DampedSystems<float>* systems, float* solution,
                                          bool* success, void* workspace);
TFJAC_API int tfjac_cuda_damped_solve_f64(void* stream, const tfjac::DampedSystems<double>* systems, double* solution,
                                          bool* success, void* workspace);

namespace tfjac {

inline int DampedSolveWorkspace(void* stream, const DampedSystems<float>& systems, int64_t* bytes) {
  return tfjac_cuda_damped_solve_workspace_f32(stream, &systems, bytes);
}
inline int DampedSolveWorkspace(void* stream, const DampedSystems<double>& systems, int64_t* bytes) {
  return tfjac_cuda_damped_solve_workspace_f64(stream, &systems, bytes);
}
inline int LaunchDampedSolve(void* stream, const DampedSystems<float>& systems, float* solution, bool* success,
                             void* workspace) {
  return tfjac_cuda_damped_solve_f32(stream, &systems, solution, success, workspace);
}
inline int LaunchDampedSolve(void* stream, const DampedSystems<double>& systems, double* solution, bool* success,
                             void* workspace) {
  return tfjac_cuda_damped_solve_f64(stream, &systems, solution, success, workspace);
}

}  // namespace tfjac

#endif  // TFJAC_CUSTOM_OPS_DAMPED_SOLVE_DAMPED_SOLVE_GPU_H_
