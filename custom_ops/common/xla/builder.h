// The headers of XLA that build a program, wherever this TensorFlow has them, and whether it has those of typed calls.
#ifndef TFJAC_CUSTOM_OPS_COMMON_XLA_BUILDER_H_
#define TFJAC_CUSTOM_OPS_COMMON_XLA_BUILDER_H_

#if __has_include("xla/hlo/builder/xla_builder.h")
#include "xla/hlo/builder/lib/arithmetic.h"
#include "xla/hlo/builder/lib/constants.h"
#include "xla/hlo/builder/lib/matrix.h"
#include "xla/hlo/builder/xla_builder.h"
#else  // before TensorFlow 2.19
#include "xla/client/lib/arithmetic.h"
#include "xla/client/lib/constants.h"
#include "xla/client/lib/matrix.h"
#include "xla/client/xla_builder.h"
#endif

// Before TensorFlow 2.20 its package lacks the header: programs then compute with plain HLO, and call no kernel.
#if __has_include("xla/ffi/api/ffi.h")
#define TFJAC_HAS_XLA_CALLS 1
#else
#define TFJAC_HAS_XLA_CALLS 0
#endif

#endif  // TFJAC_CUSTOM_OPS_COMMON_XLA_BUILDER_H_
