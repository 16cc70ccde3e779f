#include "custom_ops/common/xla/support.h"
#include "xla/hlo/builder/lib/arithmetic.h"
#include "xla/hlo/builder/lib/constants.h"

namespace tfjac {
namespace {

struct Solved {
  xla::XlaOp solution;  // [p]
  xla::XlaOp success;   // []
};

xla::XlaOp AllFinite(xla::XlaOp x) {
  return xla::ReduceAll(xla::IsFinite(x), xla::ConstantR0<bool>(x.builder(), true),
                        xla::CreateScalarAndComputation(xla::PRED, x.builder()));
}

// Solve for one value of the damping; `lower` has zeros above the diagonal, `eye` is the mask of the diagonal.
Solved Solve(xla::XlaOp lower, xla::XlaOp eye, xla::XlaOp rhs, xla::XlaOp scaling, xla::XlaOp damping, int64_t p) {
  const xla::XlaOp added = xla::BroadcastInDim(scaling * damping, {p, p}, {0});
  const xla::XlaOp damped = xla::Select(eye, lower + added, lower);
  const xla::XlaOp factor = xla::Cholesky(damped, /*lower=*/true);  // NaN where it fails
  xla::XlaOp x = xla::Reshape(rhs, {p, 1});
  for (const auto transpose : {xla::TriangularSolveOptions::NO_TRANSPOSE, xla::TriangularSolveOptions::TRANSPOSE}) {
    x = xla::TriangularSolve(factor, x, /*left_side=*/true, /*lower=*/true, /*unit_diagonal=*/false, transpose);
  }
  const xla::XlaOp solution = xla::Reshape(x, {p});
  // An infinite entry can leave a finite solution behind it, so what goes in is looked at as well.
  const xla::XlaOp success = AllFinite(damped) & AllFinite(rhs) & AllFinite(solution);
  return {xla::Select(xla::Broadcast(success, {p}), solution, xla::ZerosLike(solution)), success};
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
    const int64_t p = rhs_shape.num_elements(), k = damping_shape.num_elements();
    std::vector<int64_t> dampings, sizes{p};  // of the successes and of the solutions
    if (damping_shape.dims() == 1) dampings.push_back(k), sizes.insert(sizes.begin(), k);
    OP_REQUIRES_VALUE(const bool may_call, context, MayCallKernels(context));
    if (p * k > 0 && may_call) {
      const xla::Shape solution = RowMajor(context->input_xla_type(1), sizes);
      const xla::Shape success = RowMajor(xla::PRED, dampings);
      OP_REQUIRES_VALUE(const xla::XlaOp results, context,
                        CallKernel("damped_solve",
                                   {context->Input(0), context->Input(1), context->Input(2), context->Input(3)},
                                   xla::ShapeUtil::MakeTupleShape({solution, success}), /*attributes=*/""));
      for (int result : {0, 1}) context->SetOutput(result, xla::GetTupleElement(results, result));
      return;
    }
    const xla::Shape square = xla::ShapeUtil::MakeShape(xla::S32, {p, p});
    const xla::XlaOp row = xla::Iota(context->builder(), square, 0), column = xla::Iota(context->builder(), square, 1);
    const xla::XlaOp matrix = context->Input(0);
    const xla::XlaOp lower = xla::Select(xla::Ge(row, column), matrix, xla::ZerosLike(matrix));
    const xla::XlaOp damping = xla::Reshape(context->Input(3), {k});
    xla::XlaOp solutions = xla::Broadcast(xla::Reshape(xla::ZerosLike(context->Input(1)), {p}), {0});
    xla::XlaOp successes = xla::Broadcast(xla::ConstantR0<bool>(context->builder(), true), {0});
    for (int64_t j = 0; j < k; ++j) {
      const xla::XlaOp one = xla::Reshape(xla::SliceInDim(damping, j, j + 1, 1, 0), {});
      const Solved solved = Solve(lower, xla::Eq(row, column), context->Input(1), context->Input(2), one, p);
      solutions = xla::ConcatInDim(context->builder(), {solutions, xla::Reshape(solved.solution, {1, p})}, 0);
      successes = xla::ConcatInDim(context->builder(), {successes, xla::Reshape(solved.success, {1})}, 0);
    }
    context->SetOutput(1, xla::Reshape(successes, dampings));
    context->SetOutput(0, xla::Reshape(solutions, sizes));
  }
};

TFJAC_REGISTER_XLA_CALL(damped_solve);
TFJAC_REGISTER_XLA_OP("TfjacDampedSolve", DampedSolveXlaOp);

}  // namespace tfjac
