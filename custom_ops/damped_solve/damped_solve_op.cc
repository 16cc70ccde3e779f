#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/shape_inference.h"

REGISTER_OP("TfjacDampedSolve")
    .Input("matrix: T")
    .Input("rhs: T")
    .Input("scaling: T")
    .Input("damping: T")
    .Output("solution: T")
    .Output("success: bool")
    .Attr("T: {float, double}")
    .SetShapeFn([](tensorflow::shape_inference::InferenceContext* c) -> absl::Status {
      using tensorflow::shape_inference::ShapeHandle;
      ShapeHandle matrix, vector, damping, solution;
      TF_RETURN_IF_ERROR(c->WithRank(c->input(1), 1, &vector));
      TF_RETURN_IF_ERROR(c->WithRank(c->input(2), 1, &solution));
      TF_RETURN_IF_ERROR(c->Merge(vector, solution, &vector));
      TF_RETURN_IF_ERROR(c->WithRank(c->input(0), 2, &matrix));
      TF_RETURN_IF_ERROR(c->Merge(matrix, c->Matrix(c->Dim(vector, 0), c->Dim(vector, 0)), &matrix));
      TF_RETURN_IF_ERROR(c->WithRankAtMost(c->input(3), 1, &damping));
      TF_RETURN_IF_ERROR(c->Concatenate(damping, vector, &solution));
      c->set_output(0, solution);
      c->set_output(1, damping);
      return absl::OkStatus();
    });
