#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/shape_inference.h"

REGISTER_OP("TfjacSchurComplement")
    .Input("values: T")
    .Input("columns: int32")
    .Input("block: T")
    .Input("group: int32")
    .Input("matrix: T")
    .Input("vector: T")
    .Output("complement: T")
    .Output("projected: T")
    .Output("success: bool")
    .Attr("size: int >= 0")
    .Attr("T: {float, double}")
    .SetShapeFn([](tensorflow::shape_inference::InferenceContext* c) -> absl::Status {
      using tensorflow::shape_inference::ShapeHandle;
      ShapeHandle values, columns, block, group, matrix, vector;
      TF_RETURN_IF_ERROR(c->WithRank(c->input(0), 3, &values));
      TF_RETURN_IF_ERROR(c->Merge(c->input(1), c->Matrix(c->Dim(values, 0), c->Dim(values, 2)), &columns));
      TF_RETURN_IF_ERROR(c->WithRank(c->input(2), 3, &block));
      TF_RETURN_IF_ERROR(
          c->Merge(block, c->MakeShape({c->Dim(values, 0), c->Dim(values, 1), c->Dim(block, 2)}), &block));
      TF_RETURN_IF_ERROR(c->Merge(c->input(3), c->Vector(c->Dim(values, 0)), &group));
      TF_RETURN_IF_ERROR(c->WithRank(c->input(5), 2, &vector));
      TF_RETURN_IF_ERROR(c->Merge(vector, c->Matrix(c->Dim(vector, 0), c->Dim(block, 2)), &vector));
      const auto o = c->Dim(vector, 1);
      TF_RETURN_IF_ERROR(c->Merge(c->input(4), c->MakeShape({c->Dim(vector, 0), o, o}), &matrix));
      int64_t size;
      TF_RETURN_IF_ERROR(c->GetAttr("size", &size));
      c->set_output(0, c->Matrix(size, size));
      c->set_output(1, c->Vector(size));
      c->set_output(2, c->Scalar());
      return absl::OkStatus();
    });
