#include "custom_ops/common/op/shapes.h"
#include "tensorflow/core/framework/op.h"

REGISTER_OP("TfjacJacobianGram")
    .Input("a: K * T")
    .Input("d: K * T")
    .Input("residual: R * T")  // none, or one
    .Output("gram: T")
    .Output("gradient: T")
    .Attr("K: int >= 1")
    .Attr("R: int >= 0")
    .Attr("T: {float, double}")
    .Attr("layouts: list(string)")
    .SetShapeFn([](tensorflow::shape_inference::InferenceContext* c) -> absl::Status {
      tfjac::FactorDims dims;
      TF_RETURN_IF_ERROR(tfjac::MergeFactorShapes(c, &dims));
      c->set_output(0, c->Matrix(dims.p, dims.p));
      c->set_output(1, c->Vector(dims.p));
      return absl::OkStatus();
    });
