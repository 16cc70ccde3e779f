// XlaOpKernel, without the headers of XLA's compiler, client, evaluator and devices that TensorFlow includes there: kernels use
// nothing of them, and they take most of the time of compiling all kernels. Their include guards are the same in TensorFlow
// 2.16 to 2.21, but for those that name two.
#ifndef TFJAC_CUSTOM_OPS_COMMON_XLA_OP_KERNEL_H_
#define TFJAC_CUSTOM_OPS_COMMON_XLA_OP_KERNEL_H_

#define TENSORFLOW_COMPILER_TF2XLA_XLA_COMPILER_H_
#define XLA_CLIENT_CLIENT_H_
#define XLA_CLIENT_VALUE_INFERENCE_H_  // before TensorFlow 2.19
#define XLA_HLO_BUILDER_VALUE_INFERENCE_H_
#define XLA_SERVICE_COMPUTATION_PLACER_H_

namespace tensorflow {
class XlaCompiler;
}
namespace xla {
class Client;
class DeviceAssignment;
enum ValueInferenceMode { kValue, kUpperBound, kLowerBound };
// The last member of XlaOpKernelContext, which only TensorFlow makes.
class ValueInference {};
}  // namespace xla

#include "tensorflow/compiler/tf2xla/xla_op_kernel.h"
#include "tensorflow/compiler/tf2xla/xla_op_registry.h"

#endif  // TFJAC_CUSTOM_OPS_COMMON_XLA_OP_KERNEL_H_
