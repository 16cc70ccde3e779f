// The index arithmetic that kernels on the CPU and the GPU share, for test_arithmetic.py.
#include "custom_ops/common/factors.h"
#include "custom_ops/common/gpu/division.h"
#include "custom_ops/common/gpu/factor_table.h"
#include "custom_ops/common/gpu/product.h"
#include "custom_ops/common/gpu/sources.h"

#define EXPORT extern "C" __attribute__((visibility("default")))

EXPORT uint32_t test_divide(uint32_t dividend, int64_t divisor) {
  return tfjac::Divide(dividend, tfjac::DividerBy(divisor));
}

EXPORT int64_t test_triangle_row(int64_t index) { return tfjac::TriangleRow(index); }

// The number of the pair (x, y), and back: 0 where the way back leads elsewhere.
EXPORT int test_pair(int64_t rows, int64_t columns, int triangular, int64_t x, int64_t y, int64_t* index) {
  const tfjac::PairGrid pairs{rows, columns, triangular != 0};
  *index = pairs.IndexOf(x, y);
  const int64_t row = pairs.RowAt(*index), column = *index - pairs.IndexOf(row, 0);
  const bool mirrored = triangular != 0 && y > x;
  return *index >= 0 && *index < pairs.count() && row == (mirrored ? y : x) && column == (mirrored ? x : y);
}

// Whether every column of a factor is found again from the place that it belongs to.
EXPORT int test_places(const char* layout, int64_t g, int64_t i, int64_t o) {
  tfjac::Factor<float> f{nullptr, nullptr, 1, g, i, o, 0, 0, 0, 0};
  int64_t p = 5;
  if (!tfjac::PlaceColumns(layout, &f, &p) || p != 5 + g * i * o) return 0;
  for (int64_t offset = 0; offset < g * i * o; ++offset) {
    const tfjac::Place place = tfjac::PlaceOf(f, offset);
    if (place.g >= g || place.i >= i || place.o >= o) return 0;
    if (tfjac::ColumnOf(f, place.g, place.i, place.o) != 5 + offset) return 0;
  }
  return 1;
}

// Tiles, segments, rows of a segment and numbers of scratch memory of a product.
EXPORT void test_product_shape(int64_t rows, int64_t columns, int64_t depth, int triangular, int64_t* out) {
  const tfjac::ProductShape shape{rows, columns, depth, triangular != 0};
  out[0] = shape.tiles();
  out[1] = shape.segments();
  out[2] = shape.segment_length();
  out[3] = shape.scratch();
}
