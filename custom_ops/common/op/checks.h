// Checks of shapes and attributes, the same for the OpKernels and for the kernels that XLA compiles: shape functions have
// not seen what is run eagerly, nor what was edited in a GraphDef.
#ifndef TFJAC_CUSTOM_OPS_COMMON_OP_CHECKS_H_
#define TFJAC_CUSTOM_OPS_COMMON_OP_CHECKS_H_

#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "custom_ops/common/factors.h"
#include "tensorflow/core/framework/tensor_shape.h"
#include "tensorflow/core/util/overflow.h"

namespace tfjac {

constexpr int64_t kMaxColumns = int64_t{1} << 48;

// Check the factor k against itself and against the first one of its block, and add its columns to `p`.
inline absl::Status CheckFactor(int64_t k, const tensorflow::TensorShape& a, const tensorflow::TensorShape& d,
                                const tensorflow::TensorShape& first_d, int64_t* p) {
  const auto error = [&](const std::string& what) {
    return absl::InvalidArgumentError(absl::StrCat(what, " Received, in factor ", k, ": a ", a.DebugString(), ", d ",
                                                   d.DebugString(), "; in the first factor: d ",
                                                   first_d.DebugString()));
  };
  if (a.dims() != 4 || d.dims() != 5 || first_d.dims() != 5) {
    return error("A factor must be a[n,t,g,i] and d[n,m,t,g,o], of ranks 4 and 5.");
  }
  if (a.dim_size(1) != d.dim_size(2) || a.dim_size(2) != d.dim_size(3)) {
    return error("a[n,t,g,i] and d[n,m,t,g,o] of a factor must agree in t and g.");
  }
  if (a.dim_size(0) != d.dim_size(0) || d.dim_size(0) != first_d.dim_size(0)) {
    return error("a[n,t,g,i] and d[n,m,t,g,o] must have the same n in all factors.");
  }
  if (d.dim_size(1) != first_d.dim_size(1)) return error("d[n,m,t,g,o] must have the same m in all factors.");
  const int64_t inputs = tensorflow::MultiplyWithoutOverflow(a.dim_size(2), a.dim_size(3));
  const int64_t columns = inputs < 0 ? inputs : tensorflow::MultiplyWithoutOverflow(inputs, d.dim_size(4));
  if (columns < 0 || *p > kMaxColumns - columns) {
    return error(absl::StrCat("The Jacobian must have at most ", kMaxColumns, " columns."));
  }
  *p += columns;
  return absl::OkStatus();
}

// Check that `count` inputs can be as many for each of the blocks.
inline absl::Status CheckBlockCount(int64_t count, int64_t blocks) {
  if (blocks >= 1 && count % blocks == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("All blocks must have the same number of factors. Received: ", count,
                                                 " factors in all, blocks = ", blocks));
}

// Check that the factors k, and `first` of the first block, have the same columns.
inline absl::Status CheckSameColumns(int64_t k, const tensorflow::TensorShape& a, const tensorflow::TensorShape& d,
                                     int64_t first, const tensorflow::TensorShape& first_a,
                                     const tensorflow::TensorShape& first_d) {
  const bool same = a.dim_size(2) == first_a.dim_size(2) && a.dim_size(3) == first_a.dim_size(3) &&
                    d.dim_size(4) == first_d.dim_size(4);
  if (same) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "Factors of the same columns in different blocks must have the same g, i and o in a[n,t,g,i] and d[n,m,t,g,o]. "
      "Received, in factor ",
      k, ": a ", a.DebugString(), ", d ", d.DebugString(), "; in factor ", first, ": a ", first_a.DebugString(), ", d ",
      first_d.DebugString()));
}

// Check that every layout is a permutation of "gio" and that there is one per factor.
inline absl::Status CheckLayouts(const std::vector<std::string>& layouts, int count) {
  bool right = static_cast<int>(layouts.size()) == count;
  for (const std::string& layout : layouts) {
    Factor<float> unit{nullptr, nullptr, 1, 1, 1, 1, 0, 0, 0, 0};
    int64_t column = 0;
    right = right && PlaceColumns(layout.c_str(), &unit, &column);
  }
  if (right) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("`layouts` must hold one permutation of \"gio\" for each of the ",
                                                 count, " factors. Received: [", absl::StrJoin(layouts, ", "), "]"));
}

// Check how many residuals an op was given that takes none or one.
inline absl::Status CheckResiduals(int count) {
  if (count <= 1) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("`residual` must hold no tensor or one. Received: ", count));
}

// Check the shape of a residual of factors with sizes n and m.
inline absl::Status CheckResidual(const tensorflow::TensorShape& shape, int64_t n, int64_t m) {
  if (shape.dims() == 2 && shape.dim_size(0) == n && shape.dim_size(1) == m) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("`residual` must be [n,m], as the first two axes of d[n,m,t,g,o]. Received: residual ",
                   shape.DebugString(), ", n = ", n, " and m = ", m));
}

// Check the shapes of a damped system.
inline absl::Status CheckSystem(const tensorflow::TensorShape& matrix, const tensorflow::TensorShape& rhs,
                                const tensorflow::TensorShape& scaling, const tensorflow::TensorShape& damping) {
  const bool one = matrix.dims() == 2 && rhs.dims() == 1 && damping.dims() <= 1;
  const bool many = matrix.dims() == 3 && rhs.dims() == 2 && damping.dims() == 1 &&
                    matrix.dim_size(0) == rhs.dim_size(0) && damping.dim_size(0) == rhs.dim_size(0);
  if (one || many) {
    const int64_t p = rhs.dim_size(rhs.dims() - 1);
    const bool square = matrix.dim_size(matrix.dims() - 2) == p && matrix.dim_size(matrix.dims() - 1) == p;
    if (square && scaling == rhs) return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "The shapes must be matrix [p,p], rhs [p], scaling [p] and damping [] or [k]; or matrix [k,p,p], rhs [k,p], "
      "scaling [k,p] and damping [k]. Received: matrix ",
      matrix.DebugString(), ", rhs ", rhs.DebugString(), ", scaling ", scaling.DebugString(), ", damping ",
      damping.DebugString()));
}

// Check the shapes of jacobian [n, m, p] and residual [n, m].
inline absl::Status CheckBlocks(const tensorflow::TensorShape& jacobian, const tensorflow::TensorShape& residual) {
  const bool right = jacobian.dims() == 3 && residual.dims() == 2 && jacobian.dim_size(0) == residual.dim_size(0) &&
                     jacobian.dim_size(1) == residual.dim_size(1);
  if (right) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("The shapes must be jacobian [n,m,p] and residual [n,m]. Received: jacobian ",
                   jacobian.DebugString(), ", residual ", residual.DebugString()));
}

// Check the shapes of values [n, m, k], columns [n, k], block [n, m, o], group [n], matrix [groups, o, o] and vector
// [groups, o].
inline absl::Status CheckSparseExamples(const tensorflow::TensorShape& values, const tensorflow::TensorShape& columns,
                                        const tensorflow::TensorShape& block, const tensorflow::TensorShape& group,
                                        const tensorflow::TensorShape& matrix, const tensorflow::TensorShape& vector) {
  const bool ranks = values.dims() == 3 && block.dims() == 3 && vector.dims() == 2;
  if (ranks) {
    const int64_t n = values.dim_size(0), m = values.dim_size(1), k = values.dim_size(2), o = vector.dim_size(1);
    const bool right = columns == tensorflow::TensorShape({n, k}) && block == tensorflow::TensorShape({n, m, o}) &&
                       group == tensorflow::TensorShape({n}) &&
                       matrix == tensorflow::TensorShape({vector.dim_size(0), o, o});
    if (right) return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "The shapes must be values [n,m,k], columns [n,k], block [n,m,o], group [n], matrix [groups,o,o] and vector "
      "[groups,o]. Received: ",
      absl::StrJoin({values.DebugString(), columns.DebugString(), block.DebugString(), group.DebugString(),
                     matrix.DebugString(), vector.DebugString()},
                    ", ")));
}

// The shape of a result; an error where it has more bytes than can be counted: XLA would count them all the same.
inline absl::StatusOr<tensorflow::TensorShape> ResultShape(std::initializer_list<int64_t> sizes) {
  tensorflow::TensorShape shape;
  TF_RETURN_IF_ERROR(tensorflow::TensorShape::BuildTensorShape(sizes, &shape));
  if (tensorflow::MultiplyWithoutOverflow(shape.num_elements(), sizeof(double)) >= 0) return shape;
  return absl::InvalidArgumentError(absl::StrCat(
      "The result must have fewer than 2^63 bytes. Received: sizes that make ", "it ", shape.DebugString()));
}

// The shape of J Jᵀ, by the sizes (n, m) of the blocks of J.
inline absl::StatusOr<tensorflow::TensorShape> KernelShape(const std::vector<std::pair<int64_t, int64_t>>& sizes) {
  tensorflow::TensorShape rows({0});
  for (const auto& [n, m] : sizes) {
    TF_ASSIGN_OR_RETURN(const tensorflow::TensorShape block, ResultShape({n, m}));
    TF_ASSIGN_OR_RETURN(rows, ResultShape({rows.num_elements() + block.num_elements()}));
  }
  return ResultShape({rows.num_elements(), rows.num_elements()});
}

}  // namespace tfjac

#endif  // TFJAC_CUSTOM_OPS_COMMON_OP_CHECKS_H_
