// Times the CPU kernels in both forms of custom_ops/common/forms.h, and in the one that is chosen, over a grid of sizes: one
// line of JSON for each case. In one thread, by the time that the processor spends, which other programs hardly disturb.
#include <time.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

#include "custom_ops/jacobian_gram/jacobian_gram.h"
#include "custom_ops/jacobian_kernel/jacobian_kernel.h"
#include "custom_ops/jacobian_row_norms/jacobian_row_norms.h"

namespace tfjac {
namespace {

constexpr Form kForms[] = {Form::kCheaper, Form::kRows, Form::kPairs};
constexpr int kRounds = 6, kMostRounds = 30;
constexpr double kEnough = 3e-3;  // seconds of all forms together, after which it is kRounds

// One thread, and scratch memory that is kept until it is cleared.
class Alone {
 public:
  ~Alone() { Clear(); }

  Runtime Taking(Form form) { return Runtime{this, 1, &Run, &Allocate, form}; }
  void Clear() {
    for (void* piece : pieces_) std::free(piece);
    pieces_.clear();
  }

 private:
  static void Run(void*, int64_t workers, void (*body)(void*, int64_t), void* state) {
    for (int64_t worker = 0; worker < workers; ++worker) body(state, worker);
  }
  static void* Allocate(void* self, int64_t bytes) {
    void* const piece = std::aligned_alloc(64, (bytes / 64 + 1) * 64);
    static_cast<Alone*>(self)->pieces_.push_back(piece);
    return piece;
  }

  std::vector<void*> pieces_;
};

double ProcessorSeconds() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// The factors of some layers in a row: weights [i, o] with `t` positions each, and biases, which share d.
template <typename T>
class Layers {
 public:
  Layers(int64_t n, int64_t m, int64_t t, const std::vector<int64_t>& widths) {
    const T* const ones = Fill(n * t, [] { return T(1); });
    std::mt19937 random(0);
    std::normal_distribution<double> normal;
    const auto draw = [&] { return static_cast<T>(normal(random)); };
    int64_t p = 0;
    for (size_t k = 0; k + 1 < widths.size(); ++k) {
      const int64_t i = widths[k], o = widths[k + 1];
      const T* const d = Fill(n * m * t * o, draw);
      for (const Factor<T>& f :
           {Factor<T>{Fill(n * t * i, draw), d, t, 1, i, o, 0, 0, 0, 0}, Factor<T>{ones, d, t, 1, 1, o, 0, 0, 0, 0}}) {
        table_.push_back(f);
        if (!PlaceColumns("gio", &table_.back(), &p)) std::abort();
      }
    }
    factors_ = Factors<T>{n, m, p, static_cast<int64_t>(table_.size()), table_.data()};
  }
  Layers(const Layers&) = delete;

  const Factors<T>& factors() const { return factors_; }

 private:
  template <typename Draw>
  const T* Fill(int64_t count, const Draw& draw) {
    data_.emplace_back(count);
    std::generate(data_.back().begin(), data_.back().end(), draw);
    return data_.back().data();
  }

  std::vector<std::vector<T>> data_;
  std::vector<Factor<T>> table_;
  Factors<T> factors_;
};

// The least time of `run(runtime)` in each form; forms take turns.
template <typename Compute>
void Time(const char* op, const char* dtype, int64_t n, int64_t m, int64_t t, const std::vector<int64_t>& widths,
          const Compute& run) {
  Alone alone;
  double least[3] = {1e30, 1e30, 1e30};
  double total = 0;
  for (int round = 0; round < kRounds || (round < kMostRounds && total < kEnough); ++round) {
    for (int turn = 0; turn < 3; ++turn) {
      const int form = (round + turn) % 3;
      const Runtime runtime = alone.Taking(kForms[form]);
      const double start = ProcessorSeconds();
      if (!run(runtime)) std::abort();
      const double taken = ProcessorSeconds() - start;
      least[form] = std::min(least[form], taken);
      total += taken;
      alone.Clear();
    }
  }
  std::printf("{\"op\": \"%s\", \"dtype\": \"%s\", \"n\": %ld, \"m\": %ld, \"t\": %ld, \"widths\": [", op, dtype,
              static_cast<long>(n), static_cast<long>(m), static_cast<long>(t));
  for (size_t k = 0; k < widths.size(); ++k) std::printf("%s%ld", k ? ", " : "", static_cast<long>(widths[k]));
  std::printf("], \"chosen\": %.4g, \"rows\": %.4g, \"pairs\": %.4g}\n", least[0], least[1], least[2]);
  std::fflush(stdout);
}

// Examples for about this many multiply-adds, each worth `cost` of them.
int64_t Examples(double work, double cost) {
  return std::max<int64_t>(8, std::min<int64_t>(4096, static_cast<int64_t>(work / cost)));
}

template <typename T>
void TimeAll(const char* dtype) {
  const std::vector<std::vector<int64_t>> networks = {{1, 20, 1}, {8, 20, 20, 1}, {4, 64, 1}, {64, 4, 1}, {16, 16},
                                                      {48, 48},   {128, 16},      {16, 128},  {8, 8},     {96, 96},
                                                      {3, 32, 3}, {32, 32, 2},    {300, 10},  {10, 100},  {30, 60, 10}};
  for (const std::vector<int64_t>& widths : networks) {
    for (int64_t m : {1, 2, 5, 10}) {
      for (int64_t t : {1, 2, 5, 20, 64}) {
        double p = 0, ghost = 0;
        for (size_t k = 0; k + 1 < widths.size(); ++k) {
          p += static_cast<double>(widths[k] + 1) * widths[k + 1];
          ghost += static_cast<double>(t * t) * (widths[k] + 1 + m * widths[k + 1]);
        }
        const double formed = static_cast<double>(m * t) * p;
        if (t == 1 && p <= 5000) {
          const int64_t n = Examples(3e7, static_cast<double>(m) * p * p / 2);
          const Layers<T> layers(n, m, t, widths);
          std::vector<T> gram(layers.factors().p * layers.factors().p), gradient(layers.factors().p);
          const std::vector<T> residual(n * m, T(1));
          Time("jacobian_gram", dtype, n, m, t, widths, [&](const Runtime& runtime) {
            return TFJAC_ISA::JacobianGram(runtime, layers.factors(), residual.data(), gram.data(), gradient.data());
          });
        }
        if (m * t <= 64) {
          const int64_t n = std::min<int64_t>(384 / m, Examples(1e4, std::sqrt(formed + ghost)));
          const Layers<T> layers(n, m, t, widths);
          std::vector<T> kernel(n * m * n * m);
          Time("jacobian_kernel", dtype, n, m, t, widths, [&](const Runtime& runtime) {
            return TFJAC_ISA::JacobianKernel(runtime, Blocks<T>{1, &layers.factors()}, kernel.data());
          });
        }
        if (t > 1) {
          const int64_t n = Examples(4e6, std::min(formed, ghost));
          const Layers<T> layers(n, m, t, widths);
          std::vector<T> norms(n * m);
          Time("jacobian_row_norms", dtype, n, m, t, widths, [&](const Runtime& runtime) {
            return TFJAC_ISA::JacobianRowNorms(runtime, layers.factors(), norms.data());
          });
        }
      }
    }
  }
}

}  // namespace
}  // namespace tfjac

int main() {
  tfjac::TimeAll<float>("float32");
  tfjac::TimeAll<double>("float64");
}
