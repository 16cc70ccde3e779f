// There is no kernel for GPUs: small problems are for the processor.
#include <algorithm>
#include <cstring>
#include <functional>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/synchronization/notification.h"
#include "custom_ops/common/op/support.h"
#include "custom_ops/least_squares_steps/least_squares_steps.h"
#include "tensorflow/core/framework/function.h"

namespace tfjac {
namespace {

// A function of the graph from x to F, r and J, run in the thread that asks for it: for a few small ops, others cost more
// than they bring.
class GraphFunction : public ResidualFunction {
 public:
  GraphFunction(tensorflow::OpKernelContext* context, tensorflow::FunctionLibraryRuntime::Handle handle, int64_t p,
                std::vector<tensorflow::Tensor> captured)
      : context_(context), handle_(handle), p_(p), options_(context->step_id()), arguments_(std::move(captured)) {
    runner_ = [](std::function<void()> run) { run(); };
    options_.rendezvous = context->rendezvous();
    options_.cancellation_manager = context->cancellation_manager();
    options_.step_container = context->step_container();
    options_.stats_collector = context->stats_collector();
    options_.runner = &runner_;
    options_.run_all_kernels_inline = true;
    arguments_.insert(arguments_.begin(), tensorflow::Tensor());
  }

  bool At(const double* x, Residuals* found) override {
    // A tensor for each call: what a function was given, it may hand on.
    arguments_[0] = tensorflow::Tensor(tensorflow::DT_DOUBLE, tensorflow::TensorShape({p_}));
    std::copy_n(x, p_, arguments_[0].flat<double>().data());
    last_.clear();
    absl::Notification done;
    context_->function_library()->Run(options_, handle_, arguments_, &last_, [&](const absl::Status& status) {
      status_ = status;
      done.Notify();
    });
    done.WaitForNotification();
    if (status_.ok()) status_ = Check();
    if (!status_.ok()) return false;
    *found = {last_[1].NumElements(), last_[0].scalar<double>()(), last_[1].flat<double>().data(),
              last_[2].flat<double>().data()};
    return true;
  }

  void Keep() override { kept_.swap(last_); }

  const absl::Status& status() const { return status_; }

 private:
  absl::Status Check() const {
    if (last_.size() == 3 && last_[0].dtype() == tensorflow::DT_DOUBLE && last_[1].dtype() == tensorflow::DT_DOUBLE &&
        last_[2].dtype() == tensorflow::DT_DOUBLE && last_[0].NumElements() == 1) {
      const int64_t m = last_[1].NumElements();
      if (last_[2].dims() == 2 && last_[2].dim_size(0) == m && last_[2].dim_size(1) == p_ && m >= p_) {
        return absl::OkStatus();
      }
    }
    return absl::InvalidArgumentError(
        "`evaluate` must return a cost [], residuals [m] and their Jacobian [m, p], float64, with m >= p.");
  }

  tensorflow::OpKernelContext* const context_;
  const tensorflow::FunctionLibraryRuntime::Handle handle_;
  const int64_t p_;
  tensorflow::FunctionLibraryRuntime::Options options_;
  std::function<void(std::function<void()>)> runner_;
  std::vector<tensorflow::Tensor> arguments_, last_, kept_;
  absl::Status status_;
};

}  // namespace

class LeastSquaresStepsOp : public tensorflow::OpKernel {
 public:
  explicit LeastSquaresStepsOp(tensorflow::OpKernelConstruction* context) : OpKernel(context) {
    OP_REQUIRES_OK(context, context->GetAttr("evaluate", &evaluate_));
    OP_REQUIRES_OK(context, context->GetAttr("record", &record_));
  }

  void Compute(tensorflow::OpKernelContext* context) override {
    const tensorflow::Tensor &position = context->input(0), &scaling = context->input(1);
    const tensorflow::Tensor &numbers = context->input(2), &counts = context->input(3);
    const tensorflow::Tensor &curvature = context->input(4), &rules = context->input(5);
    const tensorflow::Tensor &lower = context->input(6), &upper = context->input(7);
    const int64_t p = position.NumElements();
    const bool bounded = lower.NumElements() > 0, estimated = curvature.NumElements() > 0;
    OP_REQUIRES(
        context,
        position.dims() == 1 && p > 0 && scaling.shape() == position.shape() && numbers.NumElements() == kStepNumbers &&
            counts.NumElements() == kStepCounts && rules.NumElements() == kStepRules &&
            (!estimated || curvature.shape() == tensorflow::TensorShape({p + kCurvatureVectors, p})) &&
            lower.shape() == upper.shape() && (!bounded || lower.shape() == position.shape()) &&
            context->input(8).NumElements() == 1 && context->input(9).NumElements() == 1 &&
            context->input(10).NumElements() == 1,
        absl::InvalidArgumentError(absl::StrCat(
            "The shapes must be position [p], scaling [p], numbers [", kStepNumbers, "], counts [", kStepCounts,
            "], curvature [p + ", kCurvatureVectors, ", p] or [0, p], rules [", kStepRules,
            "], lower and upper [p] or [0], until, max_steps and finish []. Received: ",
            position.shape().DebugString(), ", ", scaling.shape().DebugString(), ", ", numbers.shape().DebugString(),
            ", ", counts.shape().DebugString(), ", ", curvature.shape().DebugString(), ", ",
            rules.shape().DebugString(), ", ", lower.shape().DebugString(), ", ", upper.shape().DebugString())));
    tensorflow::Tensor* results[6] = {};
    const tensorflow::TensorShape shapes[6] = {position.shape(),  scaling.shape(),
                                               numbers.shape(),   counts.shape(),
                                               curvature.shape(), tensorflow::TensorShape({record_, kRecorded})};
    for (int k = 0; k < 6; ++k) OP_REQUIRES_OK(context, context->allocate_output(k, shapes[k], &results[k]));
    double* const rows = results[5]->flat<double>().data();
    std::copy_n(position.flat<double>().data(), p, results[0]->flat<double>().data());
    std::copy_n(scaling.flat<double>().data(), p, results[1]->flat<double>().data());
    std::copy_n(numbers.flat<double>().data(), kStepNumbers, results[2]->flat<double>().data());
    std::copy_n(counts.flat<int32_t>().data(), kStepCounts, results[3]->flat<int32_t>().data());
    std::copy_n(curvature.flat<double>().data(), curvature.NumElements(), results[4]->flat<double>().data());
    std::fill_n(rows, record_ * kRecorded, 0.0);

    tensorflow::FunctionLibraryRuntime::Handle handle;
    OP_REQUIRES_OK(context, HandleIn(context->function_library(), &handle));
    std::vector<tensorflow::Tensor> captured;
    for (int k = 11; k < context->num_inputs(); ++k) captured.push_back(context->input(k));
    GraphFunction function(context, handle, p, std::move(captured));
    StepRules how;
    std::memcpy(&how, rules.flat<double>().data(), sizeof(how));
    auto* const found = reinterpret_cast<StepNumbers*>(results[2]->flat<double>().data());
    auto* const counted = reinterpret_cast<StepCounts*>(results[3]->flat<int32_t>().data());
    const StepProblem problem{p,
                              bounded ? lower.flat<double>().data() : nullptr,
                              bounded ? upper.flat<double>().data() : nullptr,
                              context->input(8).flat<int32_t>()(0),
                              context->input(9).flat<int32_t>()(0),
                              context->input(10).flat<bool>()(0),
                              record_,
                              estimated ? results[4]->flat<double>().data() : nullptr};
    const bool done = TFJAC_BEST(LeastSquaresSteps)(problem, how, &function, results[0]->flat<double>().data(),
                                                    results[1]->flat<double>().data(), found, counted, rows);
    if (!done) context->SetStatus(function.status());
  }

 private:
  // The function, compiled once for each library that it is found in.
  absl::Status HandleIn(tensorflow::FunctionLibraryRuntime* library,
                        tensorflow::FunctionLibraryRuntime::Handle* handle) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto known = handles_.find(library);
    if (known != handles_.end()) {
      *handle = known->second;
      return absl::OkStatus();
    }
    tensorflow::FunctionLibraryRuntime::InstantiateOptions options;
    options.executor_type = "SINGLE_THREADED_EXECUTOR";  // the op is for functions without control flow
    TF_RETURN_IF_ERROR(
        library->Instantiate(evaluate_.name(), tensorflow::AttrSlice(&evaluate_.attr()), options, handle));
    handles_.emplace(library, *handle);
    return absl::OkStatus();
  }

  tensorflow::NameAttrList evaluate_;
  int64_t record_ = 0;
  std::mutex mutex_;
  std::unordered_map<tensorflow::FunctionLibraryRuntime*, tensorflow::FunctionLibraryRuntime::Handle> handles_;
};

REGISTER_KERNEL_BUILDER(Name("TfjacLeastSquaresSteps").Device(tensorflow::DEVICE_CPU), LeastSquaresStepsOp);

}  // namespace tfjac
