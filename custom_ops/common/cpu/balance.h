// Factors whose a and d are of very different size: their products, the entries of J, may be of any size, and yet products of
// a with a overflow and those of d with d vanish. Multiplying a[n,t,g,:] and dividing d[n,:,t,g,:] by a power of two changes
// no bit of J. For files compiled per instruction set.
#ifndef TFJAC_CUSTOM_OPS_COMMON_CPU_BALANCE_H_
#define TFJAC_CUSTOM_OPS_COMMON_CPU_BALANCE_H_

#include <atomic>
#include <cstdint>
#include <cstring>

#include "custom_ops/common/factors.h"
#include "custom_ops/common/runtime.h"

namespace tfjac::TFJAC_ISA {

// Of IEEE 754 numbers: integers of their size, bits of the mantissa, the biased exponent of infinity.
template <typename T>
struct Format;
template <>
struct Format<float> {
  using Bits = uint32_t;
  static constexpr int64_t kMantissa = 23, kSpecial = 255;
};
template <>
struct Format<double> {
  using Bits = uint64_t;
  static constexpr int64_t kMantissa = 52, kSpecial = 2047;
};

// The biased exponent of the largest of some numbers, or of `least` if that is larger.
template <typename T>
static inline int64_t LargestExponent(const T* x, int64_t count, int64_t least = 0) {
  using Bits = typename Format<T>::Bits;
  Bits largest = 0;
  for (int64_t k = 0; k < count; ++k) {
    Bits bits;
    std::memcpy(&bits, x + k, sizeof(T));
    bits &= ~Bits(0) >> 1;  // without the sign
    largest = bits > largest ? bits : largest;
  }
  const int64_t exponent = static_cast<int64_t>(largest >> Format<T>::kMantissa);
  return exponent > least ? exponent : least;
}

// By which power of two a is to be multiplied and d divided, that both are of one size; 0 where one is zero or not finite.
template <typename T>
static inline int64_t ShiftOf(int64_t exponent_of_a, int64_t exponent_of_d) {
  constexpr int64_t kSpecial = Format<T>::kSpecial;
  const bool known = exponent_of_a > 0 && exponent_of_a < kSpecial && exponent_of_d > 0 && exponent_of_d < kSpecial;
  return known ? (exponent_of_d - exponent_of_a) / 2 : 0;
}

template <typename T>
static inline T PowerOfTwo(int64_t exponent) {
  using Bits = typename Format<T>::Bits;
  const Bits bits = static_cast<Bits>(exponent + Format<T>::kSpecial / 2) << Format<T>::kMantissa;
  T power;
  std::memcpy(&power, &bits, sizeof(T));
  return power;
}

// The shift of the vectors a[n,t,g,:] and d[n,:,t,g,:] of a factor.
template <typename T>
static inline int64_t ShiftAt(const Factor<T>& f, int64_t m_size, int64_t n, int64_t t, int64_t g) {
  int64_t of_d = 0;
  for (int64_t m = 0; m < m_size; ++m) of_d = LargestExponent(RowOfD(f, m_size, n, m, t, g), f.o, of_d);
  return ShiftOf<T>(LargestExponent(RowOfA(f, n, t, g), f.i), of_d);
}

// Copy the factor to `a` and `d`, balanced.
template <typename T>
static inline void CopyBalanced(const Runtime& runtime, const Factors<T>& factors, const Factor<T>& f, T* a, T* d) {
  const double cost = static_cast<double>(f.t * f.g * (f.i + factors.m * f.o));
  ForEach(runtime, Workers(runtime, factors.n, cost), factors.n, [&](int64_t n, int64_t) {
    for (int64_t position = 0; position < f.t * f.g; ++position) {
      const int64_t t = position / f.g, g = position % f.g, shift = ShiftAt(f, factors.m, n, t, g);
      const T up = PowerOfTwo<T>(shift), down = PowerOfTwo<T>(-shift);
      const T* const from_a = RowOfA(f, n, t, g);
      for (int64_t i = 0; i < f.i; ++i) a[from_a - f.a + i] = up * from_a[i];
      for (int64_t m = 0; m < factors.m; ++m) {
        const T* const from_d = RowOfD(f, factors.m, n, m, t, g);
        for (int64_t o = 0; o < f.o; ++o) d[from_d - f.d + o] = down * from_d[o];
      }
    }
  });
}

// Replace the factors k for which wanted(k) holds, and which need it, by balanced copies in scratch memory; the table of
// factors is copied, too, then. False where there is no memory.
template <typename T, typename Wanted>
static inline bool Balance(const Runtime& runtime, const Wanted& wanted, Factors<T>* factors) {
  constexpr int64_t kTolerated =
      Format<T>::kSpecial / 12;  // a shift by less leaves all products in range where J's are
  Factor<T>* copies = nullptr;
  for (int64_t k = 0; k < factors->count; ++k) {
    const Factor<T>& f = factors->factor[k];
    if (!wanted(k)) continue;
    std::atomic<bool> needed{false};
    const double cost = static_cast<double>(f.t * f.g * (f.i + factors->m * f.o));
    ForEach(runtime, Workers(runtime, factors->n, cost), factors->n, [&](int64_t n, int64_t) {
      for (int64_t position = 0; position < f.t * f.g; ++position) {
        const int64_t shift = ShiftAt(f, factors->m, n, position / f.g, position % f.g);
        if (shift > kTolerated || shift < -kTolerated) needed.store(true, std::memory_order_relaxed);
      }
    });
    if (!needed.load()) continue;
    if (copies == nullptr) {
      copies = static_cast<Factor<T>*>(runtime.allocate(runtime.self, factors->count * sizeof(Factor<T>)));
      if (copies == nullptr) return false;
      for (int64_t other = 0; other < factors->count; ++other) copies[other] = factors->factor[other];
    }
    const int64_t positions = factors->n * f.t * f.g;
    T* const a = static_cast<T*>(runtime.allocate(runtime.self, positions * f.i * sizeof(T)));
    T* const d = static_cast<T*>(runtime.allocate(runtime.self, positions * factors->m * f.o * sizeof(T)));
    if (a == nullptr || d == nullptr) return false;
    CopyBalanced(runtime, *factors, f, a, d);
    copies[k].a = a;
    copies[k].d = d;
  }
  if (copies != nullptr) factors->factor = copies;
  return true;
}

// sum_k (scale x[k])²
template <typename T>
static inline T ScaledSquare(T scale, const T* x, int64_t count) {
  T sum = 0;
  for (int64_t k = 0; k < count; ++k) sum += (scale * x[k]) * (scale * x[k]);
  return sum;
}

// ‖a‖² ‖d‖², for vectors one of which leaves the range when it is squared.
template <typename T>
static inline T BalancedNorm(const T* a, int64_t i, const T* d, int64_t o) {
  const int64_t shift = ShiftOf<T>(LargestExponent(a, i), LargestExponent(d, o));
  return ScaledSquare(PowerOfTwo<T>(shift), a, i) * ScaledSquare(PowerOfTwo<T>(-shift), d, o);
}

// Whether a squared norm is far from both ends of the range; not if it is zero.
template <typename T>
static inline bool FarFromTheEnds(T square) {
  return square > PowerOfTwo<T>(-Format<T>::kSpecial / 3) && square < PowerOfTwo<T>(Format<T>::kSpecial / 3);
}

}  // namespace tfjac::TFJAC_ISA

#endif  // TFJAC_CUSTOM_OPS_COMMON_CPU_BALANCE_H_
