// What a CPU kernel may ask of its surroundings: threads, scratch memory, and what to do. Free of TensorFlow, so that the kernels run
// under the sanitizers without it. OpRuntime (op/support.h) makes one from an OpKernelContext, CallRuntime (xla/call.h)
// from XLA's pool of threads.
#ifndef TFJAC_CUSTOM_OPS_COMMON_RUNTIME_H_
#define TFJAC_CUSTOM_OPS_COMMON_RUNTIME_H_

#include <atomic>
#include <cstdint>

#include "custom_ops/common/forms.h"

namespace tfjac {

struct Runtime {
  void* self;
  int64_t threads;
  // Call body(state, worker) for 0 <= worker < workers, on any threads, and return when all calls have.
  void (*run)(void* self, int64_t workers, void (*body)(void* state, int64_t worker), void* state);
  // Memory aligned to 64 bytes that lives until the op is done; nullptr where there is none left.
  void* (*allocate)(void* self, int64_t bytes);
  // Whatever is said here is computed in this form, where it can be: to measure what the other one costs.
  Form form = Form::kCheaper;
};

// Work, in floating-point operations, below which a second thread costs more than it brings.
constexpr double kWorthAThread = 1e5;

// Number of workers for `tasks` tasks of about `cost` floating-point operations each.
static inline int64_t Workers(const Runtime& runtime, int64_t tasks, double cost) {
  const double worth = static_cast<double>(tasks) * cost / kWorthAThread;
  int64_t workers = runtime.threads;
  if (static_cast<double>(workers) > worth) workers = static_cast<int64_t>(worth);
  if (workers > tasks) workers = tasks;
  return workers < 1 ? 1 : workers;
}

// Call task(index, worker) for 0 <= index < tasks. Workers take the next index when they are done with one, so tasks may
// differ in size. Which worker runs a task changes from run to run: results must not depend on it.
template <typename Task>
static inline void ForEach(const Runtime& runtime, int64_t workers, int64_t tasks, const Task& task) {
  if (workers <= 1 || tasks <= 1) {
    for (int64_t index = 0; index < tasks; ++index) task(index, int64_t{0});
    return;
  }
  struct State {
    const Task* task;
    int64_t tasks;
    std::atomic<int64_t> next;
  } state{&task, tasks, {0}};
  const auto body = [](void* pointer, int64_t worker) {
    State* const s = static_cast<State*>(pointer);
    int64_t index;
    while ((index = s->next.fetch_add(1, std::memory_order_relaxed)) < s->tasks) (*s->task)(index, worker);
  };
  runtime.run(runtime.self, workers, body, &state);
}

}  // namespace tfjac

#endif  // TFJAC_CUSTOM_OPS_COMMON_RUNTIME_H_
