// The row of J that a factor with one position of use has: the outer product of its a and d, the axes in the order of the layout. For files
// compiled per instruction set.
#ifndef TFJAC_CUSTOM_OPS_COMMON_CPU_OUTER_PRODUCT_H_
#define TFJAC_CUSTOM_OPS_COMMON_CPU_OUTER_PRODUCT_H_

#include <cstdint>

#include "custom_ops/common/factors.h"

namespace tfjac::TFJAC_ISA {

// The axes g, i, o of a factor as three nested loops, the slowest first, and how far a step along each moves in a and d.
struct Nest {
  struct Axis {
    int64_t size, stride, in_a, in_d;
  } axes[3];
};

template <typename T>
static inline Nest NestOf(const Factor<T>& f) {
  Nest nest{{{f.g, f.stride_g, f.i, f.o}, {f.i, f.stride_i, 1, 0}, {f.o, f.stride_o, 0, 1}}};
  // Sorted by stride; of two axes that share one, at least one has size 1, and the longer shall be the inner loop.
  for (int step = 0; step < 3; ++step) {
    const int k = step % 2;
    Nest::Axis &x = nest.axes[k], &y = nest.axes[k + 1];
    if (x.stride < y.stride || (x.stride == y.stride && x.size > y.size)) {
      const Nest::Axis axis = x;
      x = y;
      y = axis;
    }
  }
  return nest;
}

// Numbers that come in the order of their addresses, written straight to memory. (StreamWriter is the other such writer.)
template <typename T>
class DirectWriter {
 public:
  static constexpr int64_t kRoom = 1 << 20;
  explicit DirectWriter(T* to) : to_(to) {}
  T* Next(int64_t count) {
    T* const room = to_;
    to_ += count;
    return room;
  }

 private:
  T* to_;
};

// Write scale * x[0 .. count).
template <typename T, typename Writer>
static inline void WriteScaled(T scale, const T* x, int64_t count, Writer* writer) {
  while (count > 0) {
    const int64_t step = count < Writer::kRoom ? count : Writer::kRoom;
    T* __restrict const to = writer->Next(step);
    for (int64_t k = 0; k < step; ++k) to[k] = scale * x[k];
    x += step, count -= step;
  }
}

// Write the columns [begin, end) of a factor's row, counted within the factor; a and d are its rows of length g·i and g·o.
template <typename T, typename Writer>
static inline void WriteOuterProduct(const Nest& nest, const T* a, const T* d, int64_t begin, int64_t end,
                                     Writer* writer) {
  const Nest::Axis &slow = nest.axes[0], &middle = nest.axes[1], &fast = nest.axes[2];
  if (begin >= end) return;
  int64_t x = 0, y = 0, z = 0;
  if (begin > 0) {
    const int64_t line = begin / fast.size;
    x = line / middle.size, y = line % middle.size, z = begin % fast.size;
  }
  while (begin < end) {
    const int64_t left = fast.size - z;
    const int64_t count = left < end - begin ? left : end - begin;
    const T* const p = a + x * slow.in_a + y * middle.in_a + z * fast.in_a;
    const T* const q = d + x * slow.in_d + y * middle.in_d + z * fast.in_d;
    if (fast.in_a == 0) {
      WriteScaled(*p, q, count, writer);
    } else if (fast.in_d == 0) {
      WriteScaled(*q, p, count, writer);
    } else {  // the groups run fastest
      for (int64_t k = 0; k < count; ++k) *writer->Next(1) = p[k * fast.in_a] * q[k * fast.in_d];
    }
    begin += count, z = 0;
    if (++y == middle.size) y = 0, ++x;
  }
}

}  // namespace tfjac::TFJAC_ISA

#endif  // TFJAC_CUSTOM_OPS_COMMON_CPU_OUTER_PRODUCT_H_
