// Shape functions of the ops on factors. They check what is known while tracing; the kernels check everything again.
#ifndef TFJAC_CUSTOM_OPS_COMMON_OP_SHAPES_H_
#define TFJAC_CUSTOM_OPS_COMMON_OP_SHAPES_H_

#include "custom_ops/common/op/checks.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace tfjac {

// Sizes shared by the factors of one op; p is the number of columns of J.
struct FactorDims {
  tensorflow::shape_inference::DimensionHandle n, m, p;
};

// Merge the shapes of the inputs "a" and "d" of block `block`, of `blocks` with as many factors each.
inline absl::Status MergeFactorShapes(tensorflow::shape_inference::InferenceContext* c, FactorDims* dims, int block = 0,
                                      int blocks = 1) {
  using tensorflow::shape_inference::DimensionHandle;
  using tensorflow::shape_inference::ShapeHandle;
  int count;
  TF_RETURN_IF_ERROR(c->GetAttr("K", &count));
  TF_RETURN_IF_ERROR(CheckBlockCount(count, blocks));
  *dims = FactorDims{c->UnknownDim(), c->UnknownDim(), c->MakeDim(0)};
  for (int k = block * (count / blocks); k < (block + 1) * (count / blocks); ++k) {
    ShapeHandle a, d;
    TF_RETURN_IF_ERROR(c->WithRank(c->input(k), 4, &a));
    TF_RETURN_IF_ERROR(c->WithRank(c->input(count + k), 5, &d));
    DimensionHandle t, g, block;
    TF_RETURN_IF_ERROR(c->Merge(dims->n, c->Dim(a, 0), &dims->n));
    TF_RETURN_IF_ERROR(c->Merge(dims->n, c->Dim(d, 0), &dims->n));
    TF_RETURN_IF_ERROR(c->Merge(dims->m, c->Dim(d, 1), &dims->m));
    TF_RETURN_IF_ERROR(c->Merge(c->Dim(a, 1), c->Dim(d, 2), &t));
    TF_RETURN_IF_ERROR(c->Merge(c->Dim(a, 2), c->Dim(d, 3), &g));
    TF_RETURN_IF_ERROR(c->Multiply(g, c->Dim(a, 3), &block));
    TF_RETURN_IF_ERROR(c->Multiply(block, c->Dim(d, 4), &block));
    TF_RETURN_IF_ERROR(c->Add(dims->p, block, &dims->p));
  }
  return absl::OkStatus();
}

}  // namespace tfjac

#endif  // TFJAC_CUSTOM_OPS_COMMON_OP_SHAPES_H_
