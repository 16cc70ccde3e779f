#include "custom_ops/common/op/shapes.h"
#include "tensorflow/core/framework/op.h"

REGISTER_OP("TfjacJacobianRows")
    .Input("a: K * T")
    .Input("d: K * T")
    .Output("rows: T")
    .Attr("K: int >= 1")
    .Attr("T: {float, double}")
    .Attr("layouts: list(string)")
    .SetShapeFn([](tensorflow::shape_inference::InferenceContext* c) -> absl::Status {
      tfjac::FactorDims dims;
      TF_RETURN_IF_ERROR(tfjac::MergeFactorShapes(c, &dims));
      c->set_output(0, c->MakeShape({dims.n, dims.m, dims.p}));
      return absl::OkStatus();
    });
