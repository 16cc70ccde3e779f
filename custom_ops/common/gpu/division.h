// Division by a number that is known before the loop, as a multiplication and a shift (Granlund & Montgomery 1994,
// "Division by invariant integers using multiplication", theorem 4.2). Used by the CUDA kernels; exercised by the CPU's
// tests.
#ifndef TFJAC_CUSTOM_OPS_COMMON_GPU_DIVISION_H_
#define TFJAC_CUSTOM_OPS_COMMON_GPU_DIVISION_H_

#include <cstdint>

#include "custom_ops/common/factors.h"

namespace tfjac {

// Exact for dividends in [0, 2^31) and divisors in [1, 2^31).
struct Divider {
  uint32_t divisor;
  uint32_t shift;
  uint64_t multiplier;
};

static inline Divider DividerBy(int64_t divisor) {
  uint32_t bits = 0;
  while ((int64_t{1} << bits) < divisor) ++bits;
  const uint64_t power = uint64_t{1} << (31 + bits);
  const uint64_t d = static_cast<uint64_t>(divisor);
  return Divider{static_cast<uint32_t>(divisor), 31 + bits, (power + d - 1) / d};
}

TFJAC_HOST_DEVICE static inline uint32_t Divide(uint32_t dividend, const Divider& by) {
  return static_cast<uint32_t>((dividend * by.multiplier) >> by.shift);
}

}  // namespace tfjac

#endif  // TFJAC_CUSTOM_OPS_COMMON_GPU_DIVISION_H_
