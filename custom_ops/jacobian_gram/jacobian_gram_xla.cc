#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "custom_ops/common/forms.h"
#include "custom_ops/common/xla/support.h"

namespace tfjac {
namespace {

bool FoldingPays(const XlaFactor& k, const XlaFactor& l) {
  return k.t == 1 && l.t == 1 && GramCostsByContraction(SizesOf(k, k.n, k.m), SizesOf(l, l.n, l.m)).Pairs();
}

// The block with the residuals summed before the product.
xla::XlaOp FoldedBlock(const XlaFactor& k, const XlaFactor& l) {
  std::string columns = l.layout;
  for (char& axis : columns) axis = axis == 'g' ? 'h' : axis == 'i' ? 'j' : 'q';
  const xla::XlaOp folded = FullEinsum(OnlyPositionOfD(k), OnlyPositionOfD(l), "nmgo,nmhq->ngohq");
  const xla::XlaOp half = FullEinsum(OnlyPositionOfA(k), folded, "ngi,ngohq->ngiohq");
  const xla::XlaOp block = FullEinsum(half, OnlyPositionOfA(l), absl::StrCat("ngiohq,nhj->", k.layout, columns));
  return xla::Reshape(block, {k.columns(), l.columns()});
}

// The lower triangle of a matrix and its mirror image.
xla::XlaOp Symmetric(xla::XlaOp x, int64_t size) {
  const xla::Shape shape = xla::ShapeUtil::MakeShape(xla::S32, {size, size});
  const xla::XlaOp row = xla::Iota(x.builder(), shape, 0), column = xla::Iota(x.builder(), shape, 1);
  return xla::Select(xla::Ge(row, column), x, xla::Transpose(x, {1, 0}));
}

xla::XlaOp GramByPairs(const std::vector<XlaFactor>& factors, const std::vector<xla::XlaOp>& rows) {
  std::vector<std::vector<xla::XlaOp>> blocks(factors.size(), std::vector<xla::XlaOp>(factors.size()));
  for (size_t k = 0; k < factors.size(); ++k) {
    for (size_t l = 0; l <= k; ++l) {
      xla::XlaOp block = FoldingPays(factors[k], factors[l]) ? FoldedBlock(factors[k], factors[l])
                                                             : FullEinsum(rows[k], rows[l], "nmp,nmq->pq");
      blocks[k][l] = k == l ? Symmetric(block, factors[k].columns()) : block;
      if (l < k) blocks[l][k] = xla::Transpose(block, {1, 0});
    }
  }
  std::vector<xla::XlaOp> bands;
  for (const std::vector<xla::XlaOp>& band : blocks) bands.push_back(xla::ConcatInDim(band[0].builder(), band, 1));
  return xla::ConcatInDim(bands[0].builder(), bands, 0);
}

}  // namespace

class JacobianGramXlaOp : public tensorflow::XlaOpKernel {
 public:
  explicit JacobianGramXlaOp(tensorflow::OpKernelConstruction* context) : XlaOpKernel(context) {
    int count = 0, residuals = 0;
    OP_REQUIRES_OK(context, context->GetAttr("K", &count));
    OP_REQUIRES_OK(context, context->GetAttr("R", &residuals));
    OP_REQUIRES_OK(context, context->GetAttr("layouts", &layouts_));
    OP_REQUIRES_OK(context, CheckLayouts(layouts_, count));
    OP_REQUIRES_OK(context, CheckResiduals(residuals));
  }

  void Compile(tensorflow::XlaOpKernelContext* context) override {
    OP_REQUIRES_VALUE(const std::vector<XlaFactor> factors, context, ReadXlaFactors(context, layouts_));
    OP_REQUIRES_VALUE(const std::vector<xla::XlaOp> residual, context, Residual(context, factors[0]));
    int64_t p = 0;
    for (const XlaFactor& f : factors) p += f.columns();
    OP_REQUIRES_OK(context, ResultShape({p, p}).status());
    OP_REQUIRES_VALUE(const bool may_call, context, MayCallKernel(context, "jacobian_gram"));
    if (p > 0 && may_call) {
      OP_REQUIRES_VALUE(const xla::XlaOp results, context, Call(factors, residual, p));
      for (int k : {0, 1}) context->SetOutput(k, xla::GetTupleElement(results, k));
    } else {
      context->SetOutput(0, Gram(factors));
      context->SetOutput(
          1, residual.empty() ? xla::Broadcast(ZeroLike(factors[0].a), {p}) : Gradient(factors, residual[0]));
    }
  }

 private:
  // No tensor or one, [n, m].
  static absl::StatusOr<std::vector<xla::XlaOp>> Residual(tensorflow::XlaOpKernelContext* context, const XlaFactor& f) {
    std::vector<xla::XlaOp> residual;
    std::vector<tensorflow::TensorShape> shapes;
    TF_RETURN_IF_ERROR(context->InputList("residual", &residual, &shapes));
    if (!residual.empty()) TF_RETURN_IF_ERROR(CheckResidual(shapes[0], f.n, f.m));
    return residual;
  }

  absl::StatusOr<xla::XlaOp> Call(const std::vector<XlaFactor>& factors, const std::vector<xla::XlaOp>& residual,
                                  int64_t p) const {
    std::vector<xla::XlaOp> operands = OperandsOf(factors);
    operands.insert(operands.end(), residual.begin(), residual.end());
    TF_ASSIGN_OR_RETURN(const xla::Shape operand, operands[0].builder()->GetShape(operands[0]));
    const xla::PrimitiveType type = operand.element_type();
    const xla::Shape results = xla::ShapeUtil::MakeTupleShape({RowMajor(type, {p, p}), RowMajor(type, {p})});
    return CallKernel(
        "jacobian_gram", operands, results,
        absl::StrCat("{count = ", factors.size(), " : i64, layouts = \"", absl::StrJoin(layouts_, ""), "\"}"));
  }

  static xla::XlaOp Gram(const std::vector<XlaFactor>& given) {
    std::vector<XlaFactor> factors;
    for (const XlaFactor& k : given) factors.push_back(Balanced(k));
    std::vector<xla::XlaOp> rows;
    bool fold = false;
    for (const XlaFactor& k : factors) {
      rows.push_back(ExpandFactor(k));
      for (const XlaFactor& l : factors) fold = fold || FoldingPays(k, l);
    }
    if (fold) return GramByPairs(factors, rows);
    const xla::XlaOp whole = xla::ConcatInDim(rows[0].builder(), rows, 2);
    return FullEinsum(whole, whole, "nmp,nmq->pq");
  }

  static xla::XlaOp Gradient(const std::vector<XlaFactor>& factors, xla::XlaOp residual) {
    std::vector<xla::XlaOp> parts;
    for (const XlaFactor& f : factors) {
      const xla::XlaOp summed = FullEinsum(f.d, residual, "nmtgo,nm->ntgo");
      const xla::XlaOp part = FullEinsum(f.a, summed, absl::StrCat("ntgi,ntgo->", f.layout));
      parts.push_back(xla::Reshape(part, {f.columns()}));
    }
    return xla::ConcatInDim(residual.builder(), parts, 0);
  }

  std::vector<std::string> layouts_;
};

TFJAC_REGISTER_XLA_CALL(jacobian_gram);
TFJAC_REGISTER_XLA_OP("TfjacJacobianGram", JacobianGramXlaOp);

}  // namespace tfjac
