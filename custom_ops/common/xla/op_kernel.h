// XlaOpKernel, without the headers of XLA's compiler and client that TensorFlow includes there: kernels use nothing of them, and
// they take three quarters of the time of compiling all kernels. Their include guards are the same in TensorFlow 2.16 to 2.21.
#ifndef TFJAC_CUSTOM_OPS_COMMON_XLA_OP_KERNEL_H_
#define TFJAC_CUSTOM_OPS_COMMON_XLA_OP_KERNEL_H_

#define TENSORFLOW_COMPILER_TF2XLA_XLA_COMPILER_H_
#define XLA_CLIENT_CLIENT_H_

namespace tensorflow {
class XlaCompiler;
}
namespace xla {
class Client;
}

#include "tensorflow/compiler/tf2xla/xla_op_kernel.h"
#include "tensorflow/compiler/tf2xla/xla_op_registry.h"

#endif  // TFJAC_CUSTOM_OPS_COMMON_XLA_OP_KERNEL_H_
