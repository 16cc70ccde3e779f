// Loops over vectors that compilers vectorise without being allowed to reorder sums: several running sums side by side, in
// an order that depends on the length alone. For files compiled per instruction set.
#ifndef TFJAC_CUSTOM_OPS_COMMON_CPU_VECTORS_H_
#define TFJAC_CUSTOM_OPS_COMMON_CPU_VECTORS_H_

#include <cstdint>

namespace tfjac::TFJAC_ISA {

// sum_k x[k] y[k]
template <typename T>
static inline T Dot(const T* x, const T* y, int64_t count) {
  constexpr int64_t kWide = 64, kNarrow = 4;
  T sum = 0;
  int64_t k = 0;
  if (count >= kWide) {
    T wide[kWide] = {};
    for (; k + kWide <= count; k += kWide) {
      for (int64_t w = 0; w < kWide; ++w) wide[w] += x[k + w] * y[k + w];
    }
    for (int64_t half = kWide / 2; half > 0; half /= 2) {
      for (int64_t w = 0; w < half; ++w) wide[w] += wide[w + half];
    }
    sum = wide[0];
  }
  T narrow[kNarrow] = {};
  for (; k + kNarrow <= count; k += kNarrow) {
    for (int64_t w = 0; w < kNarrow; ++w) narrow[w] += x[k + w] * y[k + w];
  }
  for (; k < count; ++k) sum += x[k] * y[k];
  return sum + ((narrow[0] + narrow[2]) + (narrow[1] + narrow[3]));
}

// y[k] += scale x[k]
template <typename T>
static inline void Axpy(T scale, const T* __restrict x, T* __restrict y, int64_t count) {
  for (int64_t k = 0; k < count; ++k) y[k] += scale * x[k];
}

template <typename T>
static inline bool AllFinite(const T* x, int64_t count) {
  int bad = 0;
  for (int64_t k = 0; k < count; ++k) bad |= !(x[k] - x[k] == 0);  // infinity - infinity is no number
  return bad == 0;
}

}  // namespace tfjac::TFJAC_ISA

#endif  // TFJAC_CUSTOM_OPS_COMMON_CPU_VECTORS_H_
