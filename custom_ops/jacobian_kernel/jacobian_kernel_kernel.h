// The OpKernel of JacobianKernel up to the point where the device matters.
#ifndef TFJAC_CUSTOM_OPS_JACOBIAN_KERNEL_KERNEL_H_
#define TFJAC_CUSTOM_OPS_JACOBIAN_KERNEL_KERNEL_H_

#include "custom_ops/common/op/support.h"

namespace tfjac {

template <typename T>
class JacobianKernelOp : public tensorflow::OpKernel {
 public:
  explicit JacobianKernelOp(tensorflow::OpKernelConstruction* context) : OpKernel(context) {
    OP_REQUIRES_OK(context, context->GetAttr("blocks", &blocks_));
  }

  void Compute(tensorflow::OpKernelContext* context) override {
    OpFactors<T> factors;
    OP_REQUIRES_OK(context, ReadFactors(context, {}, &factors, blocks_));
    std::vector<std::pair<int64_t, int64_t>> sizes;
    for (const Factors<T>& block : factors.block_views) sizes.emplace_back(block.n, block.m);
    OP_REQUIRES_VALUE(const tensorflow::TensorShape shape, context, KernelShape(sizes));
    tensorflow::Tensor* kernel = nullptr;
    OP_REQUIRES_OK(context, context->allocate_output(0, shape, &kernel));
    if (kernel->NumElements() > 0) Run(context, factors.blocks(), kernel->template flat<T>().data());
  }

 protected:
  // Compute the kernel; never called for an empty result. p may be 0: then the kernel is zero.
  virtual void Run(tensorflow::OpKernelContext* context, const Blocks<T>& blocks, T* kernel) = 0;

 private:
  int64_t blocks_ = 1;
};

}  // namespace tfjac

#endif  // TFJAC_CUSTOM_OPS_JACOBIAN_KERNEL_KERNEL_H_
