// How a computation went, free of TensorFlow and of XLA: StatusOf (op/support.h) makes TensorFlow's status from it,
// ErrorOf (xla/call.h) the error of XLA's call.
#ifndef TFJAC_CUSTOM_OPS_COMMON_OUTCOME_H_
#define TFJAC_CUSTOM_OPS_COMMON_OUTCOME_H_

#include <string>

namespace tfjac {

struct Outcome {
  // As TensorFlow and XLA number them.
  enum Code { kDone = 0, kInvalidArgument = 3, kResourceExhausted = 8, kFailedPrecondition = 9, kInternal = 13 };

  bool done() const { return code == kDone; }

  Code code = kDone;
  std::string message;
};

// For an op whose kernel returned false: it got no scratch memory.
inline Outcome OutOfScratch(const char* op) {
  return {Outcome::kResourceExhausted, std::string(op) + ": no memory left for its scratch space."};
}

}  // namespace tfjac

#endif  // TFJAC_CUSTOM_OPS_COMMON_OUTCOME_H_
