#include "custom_ops/common/op/support.h"

#include "absl/strings/str_cat.h"
#include "tensorflow/core/platform/threadpool.h"

namespace tfjac {
namespace {

using tensorflow::OpInputList;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;
using tensorflow::thread::ThreadPool;

}  // namespace

template <typename T>
absl::Status ReadFactors(OpKernelContext* context, const std::vector<std::string>& layouts, OpFactors<T>* factors) {
  OpInputList a, d;
  TF_RETURN_IF_ERROR(context->input_list("a", &a));
  TF_RETURN_IF_ERROR(context->input_list("d", &d));
  factors->storage.resize(a.size());
  int64_t p = 0;
  for (int k = 0; k < a.size(); ++k) {
    int64_t end = p;
    TF_RETURN_IF_ERROR(CheckFactor(k, a[k].shape(), d[k].shape(), d[0].shape(), &end));
    Factor<T>& f = factors->storage[k];
    f.a = a[k].template flat<T>().data();
    f.d = d[k].template flat<T>().data();
    f.t = a[k].dim_size(1);
    f.g = a[k].dim_size(2);
    f.i = a[k].dim_size(3);
    f.o = d[k].dim_size(4);
    PlaceColumns(layouts.empty() ? "gio" : layouts[k].c_str(), &f, &p);
  }
  factors->view = Factors<T>{d[0].dim_size(0), d[0].dim_size(1), p, a.size(), factors->storage.data()};
  return absl::OkStatus();
}

template absl::Status ReadFactors(OpKernelContext*, const std::vector<std::string>&, OpFactors<float>*);
template absl::Status ReadFactors(OpKernelContext*, const std::vector<std::string>&, OpFactors<double>*);

OpRuntime::OpRuntime(OpKernelContext* context) : context_(context) {
  const int64_t threads = context->device()->tensorflow_cpu_worker_threads()->num_threads;
  runtime_ = Runtime{this, threads, &OpRuntime::Run, &OpRuntime::Allocate};
}

void OpRuntime::Run(void* self, int64_t workers, void (*body)(void*, int64_t), void* state) {
  ThreadPool* const pool = static_cast<OpRuntime*>(self)->context_->device()->tensorflow_cpu_worker_threads()->workers;
  pool->ParallelFor(workers, ThreadPool::SchedulingParams::Fixed(1), [body, state](int64_t begin, int64_t end) {
    for (int64_t worker = begin; worker < end; ++worker) body(state, worker);
  });
}

void* OpRuntime::Allocate(void* self, int64_t bytes) {
  OpRuntime* const me = static_cast<OpRuntime*>(self);
  Tensor memory;
  if (!me->context_->allocate_temp(tensorflow::DT_INT8, tensorflow::TensorShape({bytes > 0 ? bytes : 1}), &memory).ok()) {
    return nullptr;
  }
  me->scratch_.push_back(memory);
  return memory.flat<int8_t>().data();
}

absl::Status OutOfScratch(const char* op) {
  return absl::ResourceExhaustedError(absl::StrCat(op, ": no memory left for its scratch space."));
}

}  // namespace tfjac
