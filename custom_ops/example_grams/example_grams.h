// ExampleGrams: JᵀJ and Jᵀr of each example by itself, from dense Jacobians.
//
// jacobian is J [n, m, p] and residual is r [n, m]; gram is [n, p, p], both triangles, and gradient is [n, p]. The results
// share no memory with the inputs. Each example is computed by one task in a fixed order: the same bits for any number of
// threads.
#ifndef TFJAC_CUSTOM_OPS_EXAMPLE_GRAMS_H_
#define TFJAC_CUSTOM_OPS_EXAMPLE_GRAMS_H_

#include "custom_ops/common/cpu/isa.h"
#include "custom_ops/common/runtime.h"

namespace tfjac {

template <typename T>
struct ExampleBlocks {
  int64_t n, m, p;
  const T* jacobian;
  const T* residual;
};

TFJAC_PER_ISA(template <typename T>
              void ExampleGrams(const Runtime& runtime, const ExampleBlocks<T>& blocks, T* gram, T* gradient);)

}  // namespace tfjac

#endif  // TFJAC_CUSTOM_OPS_EXAMPLE_GRAMS_H_
