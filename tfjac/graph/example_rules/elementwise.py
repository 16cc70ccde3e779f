"""Ops that act element by element, with broadcasting."""

from tfjac.graph.example_rules.registry import SHARED, aligned, body_rule, known_shape, rule

UNARY = """
    Abs Acos Acosh Angle Asin Asinh Atan Atanh BesselI0 BesselI0e BesselI1 BesselI1e BesselJ0 BesselJ1 BesselK0
    BesselK0e BesselK1 BesselK1e BesselY0 BesselY1 Cast Ceil CheckNumerics ComplexAbs Conj Cos Cosh Dawsn Digamma Elu
    EnsureShape Erf Erfc Erfinv Exp Expint Expm1 Floor FresnelCos FresnelSin Imag Inv LeakyRelu Lgamma Log Log1p Ndtri
    Neg Real Reciprocal Relu Relu6 Rint Round Rsqrt Selu Sigmoid Sign Sin Sinh Softplus Softsign Spence Sqrt Square
    StopGradient Tan Tanh
"""
SEVERAL_INPUTS = """
    Add AddN AddV2 Atan2 Betainc ClipByValue Complex Div DivNoNan FakeQuantWithMinMaxVars
    FakeQuantWithMinMaxVarsPerChannel FloorDiv FloorMod Igamma Igammac Maximum Minimum Mul MulNoNan NextAfter Polygamma
    Pow RealDiv SelectV2 SquaredDifference Sub TruncateDiv Xdivy Xlog1py Xlogy Zeta
"""
DECISIONS = """
    Equal Greater GreaterEqual IsFinite IsInf IsNan Less LessEqual LogicalAnd LogicalNot LogicalOr NotEqual OnesLike
    ZerosLike
"""
"""No gradient passes through these, but values do."""
GRADIENTS = """
    EluGrad InvGrad LeakyReluGrad ReciprocalGrad Relu6Grad ReluGrad RsqrtGrad SeluGrad SigmoidGrad SoftplusGrad
    SoftsignGrad SqrtGrad TanhGrad
"""


@rule(*UNARY.split(), *SEVERAL_INPUTS.split(), *DECISIONS.split(), *GRADIENTS.split())
def _broadcast(op, axis, wanted):
    """Align shapes from the right; what has size 1 there, or no such axis, is shared."""
    out = known_shape(wanted, op.outputs[0])
    return aligned(op, axis, op.inputs, out, wanted)


@rule("Select")
def _select(op, axis, wanted):
    """No broadcasting: a condition of rank 1 chooses whole rows, along axis 0."""
    by_row = op.inputs[0].shape.rank == 1 != op.inputs[1].shape.rank
    condition = SHARED if op.inputs[0].shape.rank == 0 or (by_row and axis.axis != 0) else axis
    return [condition, axis, axis]


@rule("BroadcastTo")
def _broadcast_to(op, axis, wanted):
    given, result = op.inputs[0], op.outputs[0]
    return [aligned(op, axis, [given, result], known_shape(wanted, result), wanted)[0], SHARED]


@rule("Identity")
def _identity(op, axis, wanted):
    return [axis]


@body_rule("IdentityN")
def _identities(op, outputs, wanted):
    return [outputs.get(k) for k in range(len(op.inputs))]


@rule("BiasAdd")
def _bias_add(op, axis, wanted):
    return [axis, SHARED]
