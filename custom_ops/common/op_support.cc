#include "custom_ops/common/op_support.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tensorflow/core/platform/threadpool.h"
#include "tensorflow/core/util/overflow.h"

namespace tfjac {
namespace {

using tensorflow::OpInputList;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;
using tensorflow::thread::ThreadPool;

absl::Status CheckShapes(int k, const Tensor& a, const Tensor& d, const Tensor& first_d) {
  const auto error = [&](const char* what) {
    return absl::InvalidArgumentError(absl::StrCat(what, " Received, in factor ", k, ": a ", a.shape().DebugString(),
                                                   ", d ", d.shape().DebugString(), "; in factor 0: d ",
                                                   first_d.shape().DebugString()));
  };
  if (a.dims() != 4 || d.dims() != 5) return error("A factor must be a[n,t,g,i] and d[n,m,t,g,o], of ranks 4 and 5.");
  if (a.dim_size(1) != d.dim_size(2) || a.dim_size(2) != d.dim_size(3)) {
    return error("a[n,t,g,i] and d[n,m,t,g,o] of a factor must agree in t and g.");
  }
  if (a.dim_size(0) != d.dim_size(0) || d.dim_size(0) != first_d.dim_size(0)) {
    return error("a[n,t,g,i] and d[n,m,t,g,o] must have the same n in all factors.");
  }
  if (d.dim_size(1) != first_d.dim_size(1)) return error("d[n,m,t,g,o] must have the same m in all factors.");
  return absl::OkStatus();
}

constexpr int64_t kMaxColumns = int64_t{1} << 48;

absl::Status TooManyColumns(int k, const Tensor& a, const Tensor& d) {
  return absl::InvalidArgumentError(absl::StrCat("The Jacobian must have at most ", kMaxColumns,
                                                 " columns. Received, in factor ", k, ": a ", a.shape().DebugString(),
                                                 ", d ", d.shape().DebugString()));
}

}  // namespace

absl::StatusOr<tensorflow::TensorShape> ResultShape(std::initializer_list<int64_t> sizes) {
  tensorflow::TensorShape shape;
  TF_RETURN_IF_ERROR(tensorflow::TensorShape::BuildTensorShape(sizes, &shape));
  return shape;
}

absl::Status CheckLayouts(const std::vector<std::string>& layouts, int count) {
  bool right = static_cast<int>(layouts.size()) == count;
  for (const std::string& layout : layouts) {
    Factor<float> unit{nullptr, nullptr, 1, 1, 1, 1, 0, 0, 0, 0};
    int64_t column = 0;
    right = right && PlaceColumns(layout.c_str(), &unit, &column);
  }
  if (right) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("`layouts` must hold one permutation of \"gio\" for each of the ",
                                                 count, " factors. Received: [", absl::StrJoin(layouts, ", "), "]"));
}

template <typename T>
absl::Status ReadFactors(OpKernelContext* context, const std::vector<std::string>& layouts, OpFactors<T>* factors) {
  OpInputList a, d;
  TF_RETURN_IF_ERROR(context->input_list("a", &a));
  TF_RETURN_IF_ERROR(context->input_list("d", &d));
  factors->storage.resize(a.size());
  int64_t p = 0;
  for (int k = 0; k < a.size(); ++k) {
    if (d[0].dims() != 5) return CheckShapes(0, a[0], d[0], d[0]);
    TF_RETURN_IF_ERROR(CheckShapes(k, a[k], d[k], d[0]));
    Factor<T>& f = factors->storage[k];
    f.a = a[k].template flat<T>().data();
    f.d = d[k].template flat<T>().data();
    f.t = a[k].dim_size(1);
    f.g = a[k].dim_size(2);
    f.i = a[k].dim_size(3);
    f.o = d[k].dim_size(4);
    const int64_t block = tensorflow::MultiplyWithoutOverflow(tensorflow::MultiplyWithoutOverflow(f.g, f.i), f.o);
    if (block < 0 || p > kMaxColumns - block) return TooManyColumns(k, a[k], d[k]);
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
