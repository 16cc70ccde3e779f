"""Ops that act element by element, with broadcasting."""

from tfjac.graph.example_rules.registry import SHARED, known_shape, rule

UNARY = """
    Abs Acos Acosh Asin Asinh Atan Atanh BesselI0e BesselI1e Cast Ceil CheckNumerics Conj Cos Cosh DebugGradientIdentity
    Digamma Elu Erf Erfc Erfinv Exp Expm1 Floor Imag Inv LeakyRelu Lgamma Log Log1p Ndtri Neg PreventGradient
    Real Reciprocal Relu Relu6 Rint Round Rsqrt Selu Sigmoid Sign Sin Sinh Snapshot Softplus Softsign Sqrt Square Tan
    Tanh
"""
SEVERAL_INPUTS = """
    Add AddN AddV2 Atan2 ClipByValue Complex Div DivNoNan FloorDiv FloorMod Igamma Igammac Maximum Minimum Mod Mul
    MulNoNan NextAfter Pow RealDiv Select SelectV2 SquaredDifference Sub TruncateDiv Xdivy Xlog1py Xlogy Zeta
"""
GRADIENTS = """
    EluGrad InvGrad LeakyReluGrad ReciprocalGrad Relu6Grad ReluGrad RsqrtGrad SeluGrad SigmoidGrad SoftplusGrad
    SoftsignGrad SqrtGrad TanhGrad
"""


@rule(*UNARY.split(), *SEVERAL_INPUTS.split(), *GRADIENTS.split())
def _broadcast(op, axis, wanted):
    """Align shapes from the right; what has size 1 there, or no such axis, is shared."""
    out = known_shape(wanted, op.outputs[0])
    return [_aligned(axis, known_shape(wanted, tensor), out) for tensor in op.inputs]


@rule("BroadcastTo")
def _broadcast_to(op, axis, wanted):
    out = known_shape(wanted, op.outputs[0])
    return [_aligned(axis, known_shape(wanted, op.inputs[0]), out), SHARED]


def _aligned(axis, shape, out):
    """The example axis of an input of this shape, broadcast to `out`.

    With a static batch of one, size 1 says nothing: an input that has the shape of the output counts as per example.
    """
    position = axis.axis - (len(out) - len(shape))
    if position < 0 or (shape[position] == 1 and not (out[axis.axis] == 1 and shape == out)):
        return SHARED
    return axis.moved(position)


@rule("Identity", "IdentityN")
def _identity(op, axis, wanted):
    return [axis] * len(op.inputs)


@rule("BiasAdd")
def _bias_add(op, axis, wanted):
    return [axis, SHARED]
