// What the OpKernels share: reading and checking factors, threads and scratch memory from an OpKernelContext.
#ifndef TFJAC_CUSTOM_OPS_COMMON_OP_SUPPORT_H_
#define TFJAC_CUSTOM_OPS_COMMON_OP_SUPPORT_H_

#define EIGEN_USE_THREADS

#include <string>
#include <vector>

#include "custom_ops/common/op/checks.h"
#include "custom_ops/common/op_factors.h"
#include "custom_ops/common/outcome.h"
#include "custom_ops/common/runtime.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace tfjac {

// Read the inputs "a" and "d" of an op and check every shape. Pointers are left as they are, so this serves kernels for
// any device. `layouts` has one entry per factor, or none for an op whose result does not depend on them. The inputs are
// as many for each of the `blocks`, one block after the other.
template <typename T>
absl::Status ReadFactors(tensorflow::OpKernelContext* context, const std::vector<std::string>& layouts,
                         OpFactors<T>* factors, int64_t blocks = 1);

// TensorFlow's intra-op thread pool and allocator, for the duration of one Compute.
class OpRuntime {
 public:
  explicit OpRuntime(tensorflow::OpKernelContext* context);
  const Runtime& runtime() const { return runtime_; }

 private:
  static void Run(void* self, int64_t workers, void (*body)(void*, int64_t), void* state);
  static void* Allocate(void* self, int64_t bytes);

  tensorflow::OpKernelContext* const context_;
  std::vector<tensorflow::Tensor> scratch_;
  Runtime runtime_;
};

// TensorFlow's status for an outcome.
absl::Status StatusOf(const Outcome& outcome);

}  // namespace tfjac

#define TFJAC_REGISTER_CPU(op, Kernel)                                                                        \
  REGISTER_KERNEL_BUILDER(Name(op).Device(tensorflow::DEVICE_CPU).TypeConstraint<float>("T"), Kernel<float>); \
  REGISTER_KERNEL_BUILDER(Name(op).Device(tensorflow::DEVICE_CPU).TypeConstraint<double>("T"), Kernel<double>)

#endif  // TFJAC_CUSTOM_OPS_COMMON_OP_SUPPORT_H_
