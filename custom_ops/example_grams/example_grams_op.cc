#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/shape_inference.h"

REGISTER_OP("TfjacExampleGrams")
    .Input("jacobian: T")
    .Input("residual: T")
    .Output("gram: T")
    .Output("gradient: T")
    .Attr("T: {float, double}")
    .SetShapeFn([](tensorflow::shape_inference::InferenceContext* c) -> absl::Status {
      using tensorflow::shape_inference::ShapeHandle;
      ShapeHandle jacobian, residual;
      TF_RETURN_IF_ERROR(c->WithRank(c->input(0), 3, &jacobian));
      TF_RETURN_IF_ERROR(c->WithRank(c->input(1), 2, &residual));
      TF_RETURN_IF_ERROR(c->Merge(residual, c->Matrix(c->Dim(jacobian, 0), c->Dim(jacobian, 1)), &residual));
      const auto n = c->Dim(residual, 0), p = c->Dim(jacobian, 2);
      c->set_output(0, c->MakeShape({n, p, p}));
      c->set_output(1, c->Matrix(n, p));
      return absl::OkStatus();
    });
