#include "custom_ops/common/op/support.h"

#include "tensorflow/core/platform/threadpool.h"

namespace tfjac {
namespace {

using tensorflow::OpInputList;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;
using tensorflow::thread::ThreadPool;

// One worker after the other. TensorFlow 2.20 has a function for it, and deprecates the constructor.
template <typename Params>
auto OneByOne(int) -> decltype(Params::Fixed(1)) {
  return Params::Fixed(1);
}
template <typename Params>
Params OneByOne(long) {
  return Params(ThreadPool::SchedulingStrategy::kFixedBlockSize, /*cost_per_unit=*/std::nullopt, /*block_size=*/1);
}

}  // namespace

template <typename T>
absl::Status ReadFactors(OpKernelContext* context, const std::vector<std::string>& layouts, OpFactors<T>* factors,
                         int64_t blocks) {
  OpInputList a, d;
  TF_RETURN_IF_ERROR(context->input_list("a", &a));
  TF_RETURN_IF_ERROR(context->input_list("d", &d));
  TF_RETURN_IF_ERROR(CheckBlockCount(a.size(), blocks));
  factors->storage.resize(a.size());
  const int64_t count = a.size() / blocks;  // factors in each block
  int64_t p = 0;
  for (int64_t k = 0; k < a.size(); ++k) {
    const int64_t first = k - k % count;  // of its block
    int64_t end = p = k == first ? 0 : p;
    TF_RETURN_IF_ERROR(CheckFactor(k, a[k].shape(), d[k].shape(), d[first].shape(), &end));
    TF_RETURN_IF_ERROR(
        CheckSameColumns(k, a[k].shape(), d[k].shape(), k % count, a[k % count].shape(), d[k % count].shape()));
    Factor<T>& f = factors->storage[k];
    f.a = a[k].template flat<T>().data();
    f.d = d[k].template flat<T>().data();
    f.t = a[k].dim_size(1);
    f.g = a[k].dim_size(2);
    f.i = a[k].dim_size(3);
    f.o = d[k].dim_size(4);
    PlaceColumns(layouts.empty() ? "gio" : layouts[k % count].c_str(), &f, &p);
  }
  for (int64_t first = 0; first < a.size(); first += count) {
    factors->block_views.push_back(
        Factors<T>{d[first].dim_size(0), d[first].dim_size(1), p, count, &factors->storage[first]});
  }
  factors->view = factors->block_views[0];
  return absl::OkStatus();
}

template absl::Status ReadFactors(OpKernelContext*, const std::vector<std::string>&, OpFactors<float>*, int64_t);
template absl::Status ReadFactors(OpKernelContext*, const std::vector<std::string>&, OpFactors<double>*, int64_t);

OpRuntime::OpRuntime(OpKernelContext* context) : context_(context) {
  const int64_t threads = context->device()->tensorflow_cpu_worker_threads()->num_threads;
  runtime_ = Runtime{this, threads, &OpRuntime::Run, &OpRuntime::Allocate};
}

void OpRuntime::Run(void* self, int64_t workers, void (*body)(void*, int64_t), void* state) {
  ThreadPool* const pool = static_cast<OpRuntime*>(self)->context_->device()->tensorflow_cpu_worker_threads()->workers;
  pool->ParallelFor(workers, OneByOne<ThreadPool::SchedulingParams>(0), [body, state](int64_t begin, int64_t end) {
    for (int64_t worker = begin; worker < end; ++worker) body(state, worker);
  });
}

void* OpRuntime::Allocate(void* self, int64_t bytes) {
  OpRuntime* const me = static_cast<OpRuntime*>(self);
  Tensor memory;
  if (!me->context_->allocate_temp(tensorflow::DT_INT8, tensorflow::TensorShape({bytes > 0 ? bytes : 1}), &memory)
           .ok()) {
    return nullptr;
  }
  me->scratch_.push_back(memory);
  return memory.flat<int8_t>().data();
}

absl::Status StatusOf(const Outcome& outcome) {
  return absl::Status(static_cast<absl::StatusCode>(outcome.code), outcome.message);
}

}  // namespace tfjac
