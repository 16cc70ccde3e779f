#include "custom_ops/schur_complement/schur_complement.h"

#include <atomic>
#include <cmath>
#include <cstring>
#include <type_traits>

#include "custom_ops/common/cpu/symmetric.h"
#include "custom_ops/common/cpu/vectors.h"

namespace tfjac::TFJAC_ISA {
namespace {

constexpr int64_t kGroups = 64;  // of a task
constexpr int64_t kRows = 64;    // of a task, at most

template <typename T>
constexpr int64_t kLanes = 32 / static_cast<int64_t>(sizeof(T));  // of a vector register

// Numbers side by side in a register.
template <typename T>
struct Lanes {
  typedef T Vector __attribute__((vector_size(32)));
  Vector vector;

  static Lanes Load(const T* x) {
    Lanes loaded;
    std::memcpy(&loaded.vector, x, sizeof(Vector));
    return loaded;
  }
  void Add(T scale, const T* x) { vector += scale * Load(x).vector; }
  void Store(T* x) const { std::memcpy(x, &vector, sizeof(Vector)); }
};

// Everything of an example is at its place in `order`.
template <typename T>
struct Work {
  int64_t* first;    // [groups + 2], where the examples of each group begin; those without a group come first
  int64_t* order;    // [n], the examples, group by group
  bool* dense;       // [n], whether the columns of an example follow one another
  int32_t* columns;  // [n, k]
  int64_t stride;    // k, up to a whole number of lanes
  T* rows;           // [n, m + o, stride]: its values, then W L⁻ᵀ, transposed, with M = L Lᵀ; and zeros
  T* half;           // [n, k]: its part of W M⁻¹ v
  int64_t ld;        // of the rows of A, which zeros may be added behind
  T* sum;            // [p, ld]: A
};

template <typename T>
bool Allocate(const Runtime& runtime, const SparseExamples<T>& e, Work<T>* work) {
  bool enough = true;
  const auto get = [&](auto** memory, int64_t count) {
    *memory = static_cast<std::remove_reference_t<decltype(*memory)>>(
        runtime.allocate(runtime.self, (count + 1) * sizeof(**memory)));
    enough = enough && *memory != nullptr;
  };
  work->stride = Ceiling(e.k, kLanes<T>) * kLanes<T>;
  work->ld = e.p + work->stride;
  get(&work->first, e.groups + 2);
  get(&work->order, e.n);
  get(&work->dense, e.n);
  get(&work->columns, e.n * e.k);
  get(&work->rows, e.n * (e.m + e.o) * work->stride);
  get(&work->half, e.n * e.k);
  get(&work->sum, e.p * work->ld);
  return enough;
}

template <typename T>
bool InRange(const SparseExamples<T>& e) {
  bool right = true;
  for (int64_t i = 0; i < e.n * e.k; ++i) right &= e.columns[i] >= 0 && e.columns[i] < e.p;
  for (int64_t i = 0; i < e.n; ++i) right &= e.group[i] < e.groups;
  return right;
}

// Sort the examples by group, in their own order within each.
template <typename T>
void Sort(const SparseExamples<T>& e, const Work<T>& work) {
  int64_t* const first = work.first;
  const auto place = [&](int64_t i) { return e.group[i] < 0 ? int64_t{0} : int64_t{e.group[i]} + 1; };
  std::memset(first, 0, (e.groups + 2) * sizeof(int64_t));
  for (int64_t i = 0; i < e.n; ++i) ++first[place(i)];
  int64_t begin = 0;
  for (int64_t j = 0; j < e.groups + 2; ++j) {
    const int64_t count = first[j];
    first[j] = begin;
    begin += count;
  }
  for (int64_t i = 0; i < e.n; ++i) work.order[first[place(i)]++] = i;
  for (int64_t j = e.groups + 1; j > 0; --j) first[j] = first[j - 1];
  first[0] = 0;
}

// Cholesky's factor of M, with the inverses of its diagonal on it; false where there is none.
template <typename T>
bool Factorise(const T* matrix, int64_t o, T* l) {
  for (int64_t row = 0; row < o; ++row) {
    for (int64_t column = 0; column <= row; ++column) {
      T value = matrix[row * o + column];
      for (int64_t i = 0; i < column; ++i) value -= l[row * o + i] * l[column * o + i];
      if (column < row) {
        l[row * o + column] = value * l[column * o + column];
      } else if (value > T(0) && value - value == T(0)) {
        l[row * o + row] = T(1) / std::sqrt(value);
      } else {
        return false;
      }
    }
  }
  return true;
}

// Multiply o vectors of a length, one after the other, by the inverse of L.
template <typename T>
void Substitute(const T* l, int64_t o, int64_t length, T* vectors) {
  for (int64_t row = 0; row < o; ++row) {
    T* const here = vectors + row * length;
    for (int64_t i = 0; i < row; ++i) Axpy(-l[row * o + i], vectors + i * length, here, length);
    for (int64_t i = 0; i < length; ++i) here[i] *= l[row * o + row];
  }
}

// Lay out what there is of the example at a place, `rows` as far as they are its values.
template <typename T>
void Load(const SparseExamples<T>& e, int64_t at, const Work<T>& work) {
  const int64_t i = work.order[at], k = e.k;
  work.dense[at] = true;
  if (k == 0) return;
  T* const rows = work.rows + at * (e.m + e.o) * work.stride;
  std::memset(rows, 0, (e.m + e.o) * work.stride * sizeof(T));
  for (int64_t r = 0; r < e.m; ++r) std::memcpy(rows + r * work.stride, e.values + (i * e.m + r) * k, k * sizeof(T));
  int32_t* const columns = work.columns + at * k;
  std::memcpy(columns, e.columns + i * k, k * sizeof(int32_t));
  bool dense = true;
  for (int64_t c = 1; c < k; ++c) dense &= columns[c] == columns[0] + c;
  work.dense[at] = dense;
}

// Fill the other `rows`, and `half`, for the examples of a group. `l` has room for o·(o + 1) numbers.
template <typename T>
bool Whiten(const SparseExamples<T>& e, int64_t group, const Work<T>& work, T* l) {
  const int64_t k = e.k, o = e.o, stride = work.stride, begin = work.first[group + 1], end = work.first[group + 2];
  if (begin == end) return true;  // nothing reads its M
  if (!Factorise(e.matrix + group * o * o, o, l)) return false;
  T* const y = l + o * o;
  std::memcpy(y, e.vector + group * o, o * sizeof(T));
  Substitute(l, o, 1, y);
  bool finite = AllFinite(y, o);
  for (int64_t at = begin; at < end; ++at) {
    const T *const values = work.rows + at * (e.m + o) * stride, *const block = e.block + work.order[at] * e.m * o;
    T *const w = work.rows + (at * (e.m + o) + e.m) * stride, *const half = work.half + at * k;
    for (int64_t row = 0; row < e.m; ++row) {
      for (int64_t j = 0; j < o; ++j) Axpy(block[row * o + j], values + row * stride, w + j * stride, stride);
    }
    Substitute(l, o, stride, w);
    finite = finite && AllFinite(w, o * stride);
    std::memset(half, 0, k * sizeof(T));
    for (int64_t j = 0; j < o; ++j) Axpy(y[j], w + j * stride, half, k);
  }
  return finite;
}

// row[columns[x]] += scale sum_j left[j·stride] vectors[j·stride + x]: a row of a product of blocks.
template <typename T>
void AddScattered(T scale, const T* left, const T* vectors, int64_t count, int64_t stride, const int32_t* columns,
                  int64_t k, T* row) {
  for (int64_t x = 0; x < k; ++x) {
    T sum = 0;
    for (int64_t j = 0; j < count; ++j) sum += left[j * stride] * vectors[j * stride + x];
    row[columns[x]] += scale * sum;
  }
}

// The same where columns follow one another: row[x] += ..., and zeros are added up to a whole number of lanes.
template <typename T>
void AddDense(T scale, const T* left, const T* vectors, int64_t count, int64_t stride, T* row) {
  for (int64_t x = 0; x < stride; x += kLanes<T>) {
    Lanes<T> sum = Lanes<T>::Load(row + x);
    for (int64_t j = 0; j < count; ++j) sum.Add(scale * left[j * stride], vectors + j * stride + x);
    sum.Store(row + x);
  }
}

// Add to the rows [begin, end) of A, with complement = A + Aᵀ: an example's own products, halved, and those with the
// examples of its group that come before it.
template <typename T>
void AddRows(const SparseExamples<T>& e, const Work<T>& work, int64_t begin, int64_t end) {
  const int64_t o = e.o, stride = work.stride, size = (e.m + o) * stride;
  for (int64_t group = -1; group < e.groups; ++group) {
    const int64_t first = work.first[group + 1], last = work.first[group + 2];
    for (int64_t at = first; at < last; ++at) {
      const int32_t* const columns = work.columns + at * e.k;
      if (work.dense[at] && (columns[0] >= end || columns[0] + e.k <= begin)) continue;
      const T *const values = work.rows + at * size, *const own = values + e.m * stride;
      for (int64_t c = 0; c < e.k; ++c) {
        if (columns[c] < begin || columns[c] >= end) continue;
        T* const row = work.sum + columns[c] * work.ld;
        const auto add = [&](T scale, const T* left, const T* right, int64_t count, int64_t other) {
          const int32_t* const where = work.columns + other * e.k;
          if (work.dense[other]) {
            AddDense(scale, left + c, right, count, stride, row + where[0]);
          } else {
            AddScattered(scale, left + c, right, count, stride, where, e.k, row);
          }
        };
        add(T(0.5), values, values, e.m, at);
        if (group < 0) continue;
        add(T(-0.5), own, own, o, at);
        for (int64_t other = first; other < at; ++other)
          add(T(-1), own, work.rows + other * size + e.m * stride, o, other);
      }
    }
  }
}

// complement = A + Aᵀ, tile by tile; whether all of it is finite.
template <typename T>
bool Symmetrise(const Runtime& runtime, const Work<T>& work, int64_t p, T* complement) {
  const int64_t tiles = Ceiling(p, kRows), ld = work.ld;
  const T* const a = work.sum;
  std::atomic<bool> finite{true};
  ForEach(runtime, Workers(runtime, tiles, static_cast<double>(kRows * p)), tiles, [&](int64_t tile, int64_t) {
    bool here = true;
    for (int64_t left = 0; left <= tile; ++left) {
      for (int64_t r = tile * kRows; r < Smaller(p, (tile + 1) * kRows); ++r) {
        for (int64_t c = left * kRows; c < Smaller(r + 1, (left + 1) * kRows); ++c) {
          const T value = a[r * ld + c] + a[c * ld + r];
          here &= value - value == T(0);
          complement[r * p + c] = value;
          complement[c * p + r] = value;
        }
      }
    }
    if (!here) finite = false;
  });
  return finite;
}

// Fill both results; false where a number of them has left the range.
template <typename T>
bool Eliminate(const Runtime& runtime, const SparseExamples<T>& e, const Work<T>& work, T* complement, T* projected) {
  double pairs = 0;
  for (int64_t j = 0; j < e.groups; ++j) {
    const double count = static_cast<double>(work.first[j + 2] - work.first[j + 1]);
    pairs += count * count / 2;
  }
  const double cost = (e.n * e.m + pairs * e.o) * e.k * e.k;
  const int64_t workers = Workers(runtime, Ceiling(e.p, 8), cost / Ceiling(e.p, 8));
  const int64_t rows = workers > 1 ? Smaller(kRows, Ceiling(e.p, 4 * workers)) : e.p, ranges = Ceiling(e.p, rows);
  std::memset(work.sum, 0, e.p * work.ld * sizeof(T));
  ForEach(runtime, workers, ranges,
          [&](int64_t range, int64_t) { AddRows(e, work, range * rows, Smaller(e.p, (range + 1) * rows)); });
  std::memset(projected, 0, e.p * sizeof(T));
  for (int64_t at = work.first[1]; at < e.n; ++at) {
    for (int64_t c = at * e.k; c < (at + 1) * e.k; ++c) projected[work.columns[c]] += work.half[c];
  }
  return Symmetrise(runtime, work, e.p, complement) && AllFinite(projected, e.p);
}

}  // namespace

template <typename T>
SchurStatus SchurComplement(const Runtime& runtime, const SparseExamples<T>& e, T* complement, T* projected,
                            bool* success) {
  Work<T> work;
  const int64_t room = e.o * (e.o + 1);  // of a worker
  T* const spare = static_cast<T*>(runtime.allocate(runtime.self, (runtime.threads * room + 1) * sizeof(T)));
  if (spare == nullptr || !Allocate(runtime, e, &work)) return SchurStatus::kNoMemory;
  if (!InRange(e)) return SchurStatus::kOutOfRange;
  Sort(e, work);

  std::atomic<bool> right{AllFinite(e.values, e.n * e.m * e.k)};
  for (int64_t at = 0; at < work.first[1]; ++at) Load(e, at, work);
  const double each = static_cast<double>(e.n) / (e.groups + 1) * e.m * e.k * e.o + e.o * e.o * e.o;
  const int64_t tasks = Ceiling(e.groups, kGroups);
  ForEach(runtime, Workers(runtime, tasks, 2 * kGroups * each), tasks, [&](int64_t task, int64_t worker) {
    for (int64_t group = task * kGroups; group < Smaller(e.groups, (task + 1) * kGroups); ++group) {
      for (int64_t at = work.first[group + 1]; at < work.first[group + 2]; ++at) Load(e, at, work);
      if (!Whiten(e, group, work, spare + worker * room)) right = false;
    }
  });
  *success = right && (e.p == 0 || Eliminate(runtime, e, work, complement, projected));
  if (!*success && e.p > 0) {
    std::memset(complement, 0, e.p * e.p * sizeof(T));
    std::memset(projected, 0, e.p * sizeof(T));
  }
  return SchurStatus::kDone;
}

#define INSTANTIATE(T) template SchurStatus SchurComplement(const Runtime&, const SparseExamples<T>&, T*, T*, bool*);
INSTANTIATE(float)
INSTANTIATE(double)
#undef INSTANTIATE

}  // namespace tfjac::TFJAC_ISA
