#include "custom_ops/common/op/shapes.h"
#include "tensorflow/core/framework/op.h"

REGISTER_OP("TfjacJacobianKernel")
    .Input("a: K * T")
    .Input("d: K * T")
    .Output("kernel: T")
    .Attr("K: int >= 1")
    .Attr("T: {float, double}")
    .Attr("blocks: int >= 1 = 1")
    .SetShapeFn([](tensorflow::shape_inference::InferenceContext* c) -> absl::Status {
      int blocks;
      TF_RETURN_IF_ERROR(c->GetAttr("blocks", &blocks));
      tensorflow::shape_inference::DimensionHandle rows = c->MakeDim(0), rows_of_block;
      for (int block = 0; block < blocks; ++block) {
        tfjac::FactorDims dims;
        TF_RETURN_IF_ERROR(tfjac::MergeFactorShapes(c, &dims, block, blocks));
        TF_RETURN_IF_ERROR(c->Multiply(dims.n, dims.m, &rows_of_block));
        TF_RETURN_IF_ERROR(c->Add(rows, rows_of_block, &rows));
      }
      c->set_output(0, c->Matrix(rows, rows));
      return absl::OkStatus();
    });
