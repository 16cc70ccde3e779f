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
      if (c->RankKnown(c->input(0)) && c->Rank(c->input(0)) == 3) {  // k systems
        TF_RETURN_IF_ERROR(c->WithRank(c->input(1), 2, &vector));
        TF_RETURN_IF_ERROR(c->WithRank(c->input(2), 2, &solution));
        TF_RETURN_IF_ERROR(c->Merge(vector, solution, &vector));
        TF_RETURN_IF_ERROR(c->WithRank(c->input(3), 1, &damping));
        TF_RETURN_IF_ERROR(c->Merge(damping, c->Vector(c->Dim(vector, 0)), &damping));
        const auto k = c->Dim(damping, 0), p = c->Dim(vector, 1);
        TF_RETURN_IF_ERROR(c->Merge(c->input(0), c->MakeShape({k, p, p}), &matrix));
        c->set_output(0, c->Matrix(k, p));
        c->set_output(1, damping);
        return absl::OkStatus();
      }
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
