#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/shape_inference.h"

REGISTER_OP("TfjacLeastSquaresSteps")
    .Input("position: double")
    .Input("scaling: double")
    .Input("numbers: double")
    .Input("counts: int32")
    .Input("curvature: double")
    .Input("rules: double")
    .Input("lower: double")
    .Input("upper: double")
    .Input("until: int32")
    .Input("max_steps: int32")
    .Input("finish: bool")
    .Input("captured: captured_types")
    .Output("position_after: double")
    .Output("scaling_after: double")
    .Output("numbers_after: double")
    .Output("counts_after: int32")
    .Output("curvature_after: double")
    .Output("rows: double")
    .Attr("evaluate: func")
    .Attr("record: int >= 0")
    .Attr("captured_types: list(type) >= 0")
    .SetIsStateful()  // what is evaluated may be
    .SetShapeFn([](tensorflow::shape_inference::InferenceContext* c) -> absl::Status {
      for (int k = 0; k < 5; ++k) c->set_output(k, c->input(k));
      int64_t record;
      TF_RETURN_IF_ERROR(c->GetAttr("record", &record));
      c->set_output(5, c->Matrix(record, 7));
      return absl::OkStatus();
    });
