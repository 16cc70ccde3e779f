#include "custom_ops/common/xla/call.h"

#include <pthread.h>

#include <atomic>
#include <new>
#include <string>

namespace tfjac {
namespace {

constexpr std::align_val_t kAlignment{64};

// Counts down to zero, and waits until it has. By pthread: std::condition_variable needs the libstdc++ of g++ 12.
class Countdown {
 public:
  explicit Countdown(int64_t count) : left_(count) {}
  Countdown(const Countdown&) = delete;
  ~Countdown() {
    pthread_cond_destroy(&zero_);
    pthread_mutex_destroy(&mutex_);
  }

  void Step() {
    pthread_mutex_lock(&mutex_);
    if (--left_ == 0) pthread_cond_broadcast(&zero_);
    pthread_mutex_unlock(&mutex_);
  }
  void Wait() {
    pthread_mutex_lock(&mutex_);
    while (left_ > 0) pthread_cond_wait(&zero_, &mutex_);
    pthread_mutex_unlock(&mutex_);
  }

 private:
  pthread_mutex_t mutex_ = PTHREAD_MUTEX_INITIALIZER;
  pthread_cond_t zero_ = PTHREAD_COND_INITIALIZER;
  int64_t left_;
};

// The workers of one CallRuntime::Run. Threads of the pool take workers from it, and so does the caller, until none is left;
// so it is done even where the pool never gets to its tasks, as when the caller occupies its only thread.
class Team {
 public:
  Team(int64_t workers, void (*body)(void*, int64_t), void* state)
      : workers_(workers), body_(body), state_(state), undone_(workers) {}

  void Work() {
    int64_t worker;
    while ((worker = next_.fetch_add(1)) < workers_) {
      body_(state_, worker);
      undone_.Step();
    }
  }
  void Wait() { undone_.Wait(); }

 private:
  const int64_t workers_;
  void (*const body_)(void*, int64_t);
  void* const state_;
  std::atomic<int64_t> next_{0};
  Countdown undone_;
};

}  // namespace

CallRuntime::CallRuntime(xla::ffi::ThreadPool pool) : pool_(pool) {
  const int64_t threads = pool.num_threads();
  runtime_ = Runtime{this, threads > 0 ? threads : 1, &CallRuntime::Run, &CallRuntime::Allocate};
}

void CallRuntime::Run(void* self, int64_t workers, void (*body)(void*, int64_t), void* state) {
  // Shared with tasks that may run after this function has returned, and find nothing left to do.
  const std::shared_ptr<Team> team(new Team(workers, body, state));
  for (int64_t helper = 1; helper < workers; ++helper) {
    static_cast<CallRuntime*>(self)->pool_.Schedule([team] { team->Work(); });
  }
  team->Work();
  team->Wait();
}

void CallRuntime::Free::operator()(void* memory) const { ::operator delete(memory, kAlignment); }

void* CallRuntime::Allocate(void* self, int64_t bytes) {
  void* const memory = ::operator new(bytes > 0 ? bytes : 1, kAlignment, std::nothrow);
  if (memory != nullptr) static_cast<CallRuntime*>(self)->scratch_.emplace_back(memory);
  return memory;
}

template <typename T>
void ReadCallFactors(xla::ffi::RemainingArgs operands, int64_t count, std::string_view layouts, OpFactors<T>* factors,
                     int64_t blocks) {
  factors->storage.resize(count);
  const auto sizes = [&](int64_t index) { return operands.get<xla::ffi::AnyBuffer>(index)->dimensions(); };
  const int64_t per_block = count / blocks;
  int64_t p = 0;
  for (int64_t k = 0; k < count; ++k) {
    if (k % per_block == 0) p = 0;
    Factor<T>& f = factors->storage[k];
    f.a = CallOperand<T>(operands, k);
    f.d = CallOperand<T>(operands, count + k);
    f.t = sizes(k)[1];
    f.g = sizes(k)[2];
    f.i = sizes(k)[3];
    f.o = sizes(count + k)[4];
    PlaceColumns(layouts.empty() ? "gio" : std::string(layouts.substr(3 * k, 3)).c_str(), &f, &p);
  }
  for (int64_t first = 0; first < count; first += per_block) {
    const auto d = sizes(count + first);
    factors->block_views.push_back(Factors<T>{d[0], d[1], p, per_block, &factors->storage[first]});
  }
  factors->view = factors->block_views[0];
}

template void ReadCallFactors(xla::ffi::RemainingArgs, int64_t, std::string_view, OpFactors<float>*, int64_t);
template void ReadCallFactors(xla::ffi::RemainingArgs, int64_t, std::string_view, OpFactors<double>*, int64_t);

xla::ffi::Error ErrorOf(const Outcome& outcome) {
  return xla::ffi::Error(static_cast<XLA_FFI_Error_Code>(outcome.code), outcome.message);
}

}  // namespace tfjac
