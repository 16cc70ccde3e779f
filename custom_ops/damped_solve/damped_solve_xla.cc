#include "custom_ops/common/xla/support.h"

namespace tfjac {
namespace {

struct Solved {
  xla::XlaOp solution;  // [k, p]
  xla::XlaOp success;   // [k]
};

// Whether all of each row of x [k, ...] is finite.
xla::XlaOp AllFinite(xla::XlaOp x, absl::Span<const int64_t> axes) {
  return xla::Reduce(xla::IsFinite(x), xla::ConstantR0<bool>(x.builder(), true),
                     xla::CreateScalarAndComputation(xla::PRED, x.builder()), axes);
}

// Solve k systems: matrix [k, p, p], of which the lower triangles are read, rhs and scaling [k, p], damping [k].
Solved Solve(xla::XlaOp matrix, xla::XlaOp rhs, xla::XlaOp scaling, xla::XlaOp damping, int64_t k, int64_t p) {
  const xla::Shape square = xla::ShapeUtil::MakeShape(xla::S32, {k, p, p});
  const xla::XlaOp row = xla::Iota(matrix.builder(), square, 1), column = xla::Iota(matrix.builder(), square, 2);
  const xla::XlaOp lower = xla::Select(xla::Ge(row, column), matrix, xla::ZerosLike(matrix));
  const xla::XlaOp added = xla::BroadcastInDim(xla::Mul(scaling, damping, {0}), {k, p, p}, {0, 1});
  const xla::XlaOp damped = xla::Select(xla::Eq(row, column), lower + added, lower);
  const xla::XlaOp factor = xla::Cholesky(damped, /*lower=*/true);  // NaN where it fails
  xla::XlaOp x = xla::Reshape(rhs, {k, p, 1});
  for (const auto transpose : {xla::TriangularSolveOptions::NO_TRANSPOSE, xla::TriangularSolveOptions::TRANSPOSE}) {
    x = xla::TriangularSolve(factor, x, /*left_side=*/true, /*lower=*/true, /*unit_diagonal=*/false, transpose);
  }
  const xla::XlaOp solution = xla::Reshape(x, {k, p});
  // An infinite entry can leave a finite solution behind it, so what goes in is looked at as well.
  const xla::XlaOp success = AllFinite(damped, {1, 2}) & AllFinite(rhs, {1}) & AllFinite(solution, {1});
  return {xla::Select(xla::BroadcastInDim(success, {k, p}, {0}), solution, xla::ZerosLike(solution)), success};
}

}  // namespace

class DampedSolveXlaOp : public tensorflow::XlaOpKernel {
 public:
  using XlaOpKernel::XlaOpKernel;

  void Compile(tensorflow::XlaOpKernelContext* context) override {
    OP_REQUIRES_VALUE(const tensorflow::TensorShape matrix_shape, context, ShapeOfInput(context, 0));
    OP_REQUIRES_VALUE(const tensorflow::TensorShape rhs_shape, context, ShapeOfInput(context, 1));
    OP_REQUIRES_VALUE(const tensorflow::TensorShape scaling_shape, context, ShapeOfInput(context, 2));
    OP_REQUIRES_VALUE(const tensorflow::TensorShape damping_shape, context, ShapeOfInput(context, 3));
    OP_REQUIRES_OK(context, CheckSystem(matrix_shape, rhs_shape, scaling_shape, damping_shape));
    const bool many = matrix_shape.dims() == 3;
    const int64_t p = rhs_shape.dim_size(rhs_shape.dims() - 1), k = damping_shape.num_elements();
    std::vector<int64_t> dampings, sizes{p};  // of the successes and of the solutions
    if (damping_shape.dims() == 1) dampings.push_back(k), sizes.insert(sizes.begin(), k);
    OP_REQUIRES_VALUE(const bool may_call, context, MayCallKernel(context, "damped_solve"));
    if (p * k > 0 && may_call) {
      const xla::Shape solution = RowMajor(context->input_xla_type(1), sizes);
      const xla::Shape success = RowMajor(xla::PRED, dampings);
      OP_REQUIRES_VALUE(
          const xla::XlaOp results, context,
          CallKernel("damped_solve", {context->Input(0), context->Input(1), context->Input(2), context->Input(3)},
                     xla::ShapeUtil::MakeTupleShape({solution, success}), /*attributes=*/""));
      for (int result : {0, 1}) context->SetOutput(result, xla::GetTupleElement(results, result));
      return;
    }
    if (many) {
      const Solved solved = Solve(context->Input(0), context->Input(1), context->Input(2), context->Input(3), k, p);
      context->SetOutput(0, solved.solution);
      context->SetOutput(1, solved.success);
      return;
    }
    const xla::XlaOp matrix = xla::Reshape(context->Input(0), {1, p, p});
    const xla::XlaOp rhs = xla::Reshape(context->Input(1), {1, p}), scaling = xla::Reshape(context->Input(2), {1, p});
    const xla::XlaOp damping = xla::Reshape(context->Input(3), {k});
    xla::XlaOp solutions = xla::Broadcast(xla::Reshape(xla::ZerosLike(context->Input(1)), {p}), {0});
    xla::XlaOp successes = xla::Broadcast(xla::ConstantR0<bool>(context->builder(), true), {0});
    for (int64_t j = 0; j < k; ++j) {
      const Solved solved = Solve(matrix, rhs, scaling, xla::SliceInDim(damping, j, j + 1, 1, 0), 1, p);
      solutions = xla::ConcatInDim(context->builder(), {solutions, solved.solution}, 0);
      successes = xla::ConcatInDim(context->builder(), {successes, solved.success}, 0);
    }
    context->SetOutput(1, xla::Reshape(successes, dampings));
    context->SetOutput(0, xla::Reshape(solutions, sizes));
  }
};

TFJAC_REGISTER_XLA_CALL(damped_solve);
TFJAC_REGISTER_XLA_OP("TfjacDampedSolve", DampedSolveXlaOp);

}  // namespace tfjac
