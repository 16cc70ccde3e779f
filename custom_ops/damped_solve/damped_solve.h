// DampedSolve: (A + damping_j diag(scaling)) x_j = rhs for k values of damping, by Cholesky factorisation.
//
// matrix is A [p, p], of which only the lower triangle is read; rhs and scaling are [p]; damping is [k]; solution is [k, p]
// and success is [k]. Or each damping has a system of its own: matrix is [k, p, p], rhs and scaling are [k, p]. Where a
// damped matrix is not positive definite, or a number going in or coming out is not finite, success[j] is false and
// solution[j] zero. The results share no memory with the inputs. One copy of A is made, whatever k is.
//
// Every number is computed by one task in a fixed order: the same bits for any number of threads.
#ifndef TFJAC_CUSTOM_OPS_DAMPED_SOLVE_H_
#define TFJAC_CUSTOM_OPS_DAMPED_SOLVE_H_

#include "custom_ops/common/cpu/isa.h"
#include "custom_ops/common/factors.h"
#include "custom_ops/common/runtime.h"

namespace tfjac {

template <typename T>
struct DampedSystems {
  int64_t p, k;
  const T* matrix;
  const T* rhs;
  const T* scaling;
  const T* damping;
  int64_t own = 0;  // 1 where each damping has a system of its own, 0 where all share one

  TFJAC_HOST_DEVICE const T* MatrixOf(int64_t j) const { return matrix + own * j * p * p; }
  TFJAC_HOST_DEVICE const T* RhsOf(int64_t j) const { return rhs + own * j * p; }
  TFJAC_HOST_DEVICE const T* ScalingOf(int64_t j) const { return scaling + own * j * p; }
};

TFJAC_PER_ISA(
    // False where there is no memory for the scratch space.
    template <typename T>
    bool DampedSolve(const Runtime& runtime, const DampedSystems<T>& systems, T* solution, bool* success);)

}  // namespace tfjac

#endif  // TFJAC_CUSTOM_OPS_DAMPED_SOLVE_H_
