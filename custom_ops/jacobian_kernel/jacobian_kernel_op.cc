#include "custom_ops/common/op/shapes.h"
#include "tensorflow/core/framework/op.h"

REGISTER_OP("TfjacJacobianKernel")
    .Input("a: K * T")
    .Input("d: K * T")
    .Output("kernel: T")
    .Attr("K: int >= 1")
    .Attr("T: {float, double}")
    .SetShapeFn([](tensorflow::shape_inference::InferenceContext* c) -> absl::Status {
      tfjac::FactorDims dims;
      TF_RETURN_IF_ERROR(tfjac::MergeFactorShapes(c, &dims));
      tensorflow::shape_inference::DimensionHandle rows;
      TF_RETURN_IF_ERROR(c->Multiply(dims.n, dims.m, &rows));
      c->set_output(0, c->Matrix(rows, rows));
      return absl::OkStatus();
    });
