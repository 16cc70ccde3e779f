#include "custom_ops/column_colours/column_colours.h"

#include <algorithm>
#include <new>
#include <numeric>
#include <queue>
#include <tuple>
#include <vector>

namespace tfjac {
namespace {

// For each of a number of items a set of colours, as bits. Sets grow together, by doubling.
class ColourSets {
 public:
  explicit ColourSets(int64_t count) : count_(count), bits_(count) {}

  bool Has(int64_t item, int32_t colour) const {
    return colour / 64 < words_ && (bits_[item * words_ + colour / 64] >> (colour % 64) & 1) != 0;
  }

  void Add(int64_t item, int32_t colour) {
    while (colour / 64 >= words_) Widen();
    bits_[item * words_ + colour / 64] |= uint64_t{1} << (colour % 64);
  }

  // The first colour that none of these sets has.
  int32_t FirstFree(const int64_t* begin, const int64_t* end) const {
    for (int64_t word = 0; word < words_; ++word) {
      uint64_t taken = 0;
      for (const int64_t* item = begin; item != end; ++item) taken |= bits_[*item * words_ + word];
      if (~taken != 0) return static_cast<int32_t>(word * 64 + __builtin_ctzll(~taken));
    }
    return static_cast<int32_t>(words_ * 64);
  }

 private:
  void Widen() {
    std::vector<uint64_t> wider(count_ * words_ * 2);
    for (int64_t item = 0; item < count_; ++item) {
      std::copy_n(bits_.begin() + item * words_, words_, wider.begin() + item * words_ * 2);
    }
    bits_.swap(wider);
    words_ *= 2;
  }

  int64_t count_, words_ = 1;
  std::vector<uint64_t> bits_;
};

struct Matrix {
  int64_t rows, columns;
  const int64_t *starts_of_rows, *columns_of, *starts_of_columns, *rows_of;

  int64_t Entries(int64_t column) const { return starts_of_columns[column + 1] - starts_of_columns[column]; }
};

void InOrder(const Matrix& matrix, int32_t* colours) {
  ColourSets used(matrix.rows);
  for (int64_t column = 0; column < matrix.columns; ++column) {
    const int64_t* const begin = matrix.rows_of + matrix.starts_of_columns[column];
    const int64_t* const end = matrix.rows_of + matrix.starts_of_columns[column + 1];
    colours[column] = used.FirstFree(begin, end);
    for (const int64_t* row = begin; row != end; ++row) used.Add(*row, colours[column]);
  }
}

void MostConstrainedFirst(const Matrix& matrix, int32_t* colours) {
  using Entry = std::tuple<int32_t, int64_t, int64_t>;  // saturation, entries, −column: the largest comes first
  std::fill_n(colours, matrix.columns, -1);
  std::vector<int32_t> saturation(matrix.columns);
  ColourSets taken(matrix.columns);  // by neighbours
  std::priority_queue<Entry> saturated;
  const auto colour_one = [&](int64_t column) {
    const int32_t colour = colours[column] = taken.FirstFree(&column, &column + 1);
    for (int64_t k = matrix.starts_of_columns[column]; k < matrix.starts_of_columns[column + 1]; ++k) {
      const int64_t row = matrix.rows_of[k];
      for (int64_t j = matrix.starts_of_rows[row]; j < matrix.starts_of_rows[row + 1]; ++j) {
        const int64_t neighbour = matrix.columns_of[j];
        if (colours[neighbour] >= 0 || taken.Has(neighbour, colour)) continue;
        taken.Add(neighbour, colour);
        saturated.emplace(++saturation[neighbour], matrix.Entries(neighbour), -neighbour);
      }
    }
  };
  std::vector<int64_t> seeds(matrix.columns);  // for where no column has a neighbour with a colour
  std::iota(seeds.begin(), seeds.end(), 0);
  std::stable_sort(seeds.begin(), seeds.end(),
                   [&](int64_t one, int64_t other) { return matrix.Entries(one) > matrix.Entries(other); });
  for (const int64_t seed : seeds) {
    if (colours[seed] < 0) colour_one(seed);
    while (!saturated.empty()) {
      const auto [colours_around, entries, minus_column] = saturated.top();
      saturated.pop();
      const bool up_to_date = colours[-minus_column] < 0 && colours_around == saturation[-minus_column];
      if (up_to_date) colour_one(-minus_column);
    }
  }
}

}  // namespace
}  // namespace tfjac

bool tfjac_column_colours(int64_t rows, int64_t columns, const int64_t* starts_of_rows, const int64_t* columns_of,
                          const int64_t* starts_of_columns, const int64_t* rows_of, bool most_constrained_first,
                          int32_t* colours) try {
  const tfjac::Matrix matrix{rows, columns, starts_of_rows, columns_of, starts_of_columns, rows_of};
  (most_constrained_first ? tfjac::MostConstrainedFirst : tfjac::InOrder)(matrix, colours);
  return true;
} catch (const std::bad_alloc&) {
  return false;
}
