#include "absl/strings/str_cat.h"
#include "custom_ops/common/forms.h"
#include "custom_ops/common/xla/support.h"

namespace tfjac {
namespace {

// [n, m, x, y] of a factor in one block with itself in another, or in the same; in the form of the twin.
xla::XlaOp KernelOf(const XlaFactor& f, const XlaFactor& other) {
  const bool pairs = KernelCostsByContraction(SizesOf(f, f.n, f.m), SizesOf(other, other.n, other.m)).Pairs();
  if (pairs && f.t == 1 && other.t == 1) {
    const xla::XlaOp a = OnlyPositionOfA(f), d = OnlyPositionOfD(f);
    const xla::XlaOp other_a = OnlyPositionOfA(other), other_d = OnlyPositionOfD(other);
    if (f.g > 1) {
      return FullEinsum(FullEinsum(a, other_a, "ngi,xgi->nxg"), FullEinsum(d, other_d, "nmgo,xygo->nmxyg"),
                        "nxg,nmxyg->nmxy");
    }
    const xla::XlaOp products = FullEinsum(a, other_a, "ngi,xgi->nx");
    const xla::XlaOp spread = xla::BroadcastInDim(products, {f.n, f.m, other.n, other.m}, {0, 2});
    return spread * FullEinsum(d, other_d, "nmgo,xygo->nmxy");
  }
  if (pairs) {
    const xla::XlaOp products = FullEinsum(f.a, other.a, "ntgi,xsgi->ntxsg");
    return FullEinsum(f.d, FullEinsum(products, other.d, "ntxsg,xysgo->ntxygo"), "nmtgo,ntxygo->nmxy");
  }
  return FullEinsum(ExpandFactor(f), ExpandFactor(other), "nmp,xyp->nmxy");
}

// A block of factors, balanced.
using XlaBlock = absl::Span<const XlaFactor>;

int64_t RowsOf(const XlaBlock& block) { return block[0].n * block[0].m; }

// The rows of one block times those of another, or of the same: [rows, rows of the other].
xla::XlaOp ProductOf(const XlaBlock& block, const XlaBlock& other) {
  xla::XlaOp sum = xla::Broadcast(ZeroLike(block[0].a), {block[0].n, block[0].m, other[0].n, other[0].m});
  for (size_t k = 0; k < block.size(); ++k) {
    if (block[k].t > 0 && other[k].t > 0) sum = sum + KernelOf(block[k], other[k]);
  }
  return xla::Reshape(sum, {RowsOf(block), RowsOf(other)});
}

// The kernel of all blocks: what is above the diagonal is the mirror image of what is below.
xla::XlaOp KernelOf(const std::vector<XlaBlock>& blocks) {
  xla::XlaBuilder* const builder = blocks[0][0].a.builder();
  std::vector<std::vector<xla::XlaOp>> products(blocks.size());
  for (size_t row = 0; row < blocks.size(); ++row) {
    for (size_t column = 0; column <= row; ++column) {
      products[row].push_back(ProductOf(blocks[row], blocks[column]));
    }
  }
  std::vector<xla::XlaOp> rows;
  for (size_t row = 0; row < blocks.size(); ++row) {
    std::vector<xla::XlaOp> parts = products[row];
    for (size_t below = row + 1; below < blocks.size(); ++below) {
      parts.push_back(xla::Transpose(products[below][row], {1, 0}));
    }
    rows.push_back(xla::ConcatInDim(builder, parts, 1));
  }
  return xla::ConcatInDim(builder, rows, 0);
}

}  // namespace

class JacobianKernelXlaOp : public tensorflow::XlaOpKernel {
 public:
  explicit JacobianKernelXlaOp(tensorflow::OpKernelConstruction* context) : XlaOpKernel(context) {
    OP_REQUIRES_OK(context, context->GetAttr("blocks", &blocks_));
  }

  void Compile(tensorflow::XlaOpKernelContext* context) override {
    OP_REQUIRES_VALUE(const std::vector<XlaFactor> factors, context, ReadXlaFactors(context, {}, blocks_));
    const size_t count = factors.size() / blocks_;  // in each block
    std::vector<std::pair<int64_t, int64_t>> sizes;
    for (size_t k = 0; k < factors.size(); k += count) sizes.emplace_back(factors[k].n, factors[k].m);
    OP_REQUIRES_VALUE(const tensorflow::TensorShape result, context, KernelShape(sizes));
    const int64_t size = result.dim_size(0);
    OP_REQUIRES_VALUE(const bool may_call, context, MayCallKernel(context, "jacobian_kernel"));
    if (size > 0 && may_call) {
      const xla::Shape shape = RowMajor(context->input_xla_type(0), {size, size});
      OP_REQUIRES_VALUE(const xla::XlaOp kernel, context,
                        CallKernel("jacobian_kernel", OperandsOf(factors), shape,
                                   absl::StrCat("{count = ", factors.size(), " : i64, blocks = ", blocks_, " : i64}")));
      context->SetOutput(0, kernel);
      return;
    }
    std::vector<XlaFactor> balanced;
    for (const XlaFactor& f : factors) balanced.push_back(Balanced(f));
    std::vector<XlaBlock> blocks;
    for (size_t k = 0; k < factors.size(); k += count) blocks.push_back(XlaBlock(balanced).subspan(k, count));
    context->SetOutput(0, KernelOf(blocks));
  }

 private:
  int64_t blocks_ = 1;
};

TFJAC_REGISTER_XLA_CALL(jacobian_kernel);
TFJAC_REGISTER_XLA_OP("TfjacJacobianKernel", JacobianKernelXlaOp);

}  // namespace tfjac
