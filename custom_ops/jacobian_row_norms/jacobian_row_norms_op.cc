#include "custom_ops/common/op/shapes.h"
#include "tensorflow/core/framework/op.h"

REGISTER_OP("TfjacJacobianRowNorms")
    .Input("a: K * T")
    .Input("d: K * T")
    .Output("norms: T")
    .Attr("K: int >= 1")
    .Attr("T: {float, double}")
    .SetShapeFn([](tensorflow::shape_inference::InferenceContext* c) -> absl::Status {
      tfjac::FactorDims dims;
      TF_RETURN_IF_ERROR(tfjac::MergeFactorShapes(c, &dims));
      c->set_output(0, c->Matrix(dims.n, dims.m));
      return absl::OkStatus();
    });
