"""What is known of op types: each fact in one place, and an op type that is not listed is unknown to all alike.

What takes a function to say, such as where the examples of an input are, is a rule, in the table of those rules.
"""

# -------------------------------------------------------------- what they run

CALLS = ("PartitionedCall", "StatefulPartitionedCall")
LOOPS = ("While", "StatelessWhile")
CONDITIONALS = ("If", "StatelessIf")
CHOICES = (*CONDITIONALS, "Case", "StatelessCase")

BODIES = {
    **dict.fromkeys(CONDITIONALS, ("then_branch", "else_branch")),
    **dict.fromkeys(("Case", "StatelessCase"), ("branches",)),
    **dict.fromkeys(LOOPS, ("body",)),
    **dict.fromkeys(CALLS, ("f",)),
}
"""Attributes in which ops name the functions that their values come from; conditions of loops are left out."""

RUN_BY_STATEFUL = {
    "While": ("cond", "body"),
    "If": ("then_branch", "else_branch"),
    "Case": ("branches",),
    "StatefulPartitionedCall": ("f",),
}
"""Attributes in which stateful ops name the functions that they run."""

PYTHON = ("PyFunc", "PyFuncStateless", "EagerPyFunc")
"""Calls of Python functions."""

REPEATABLE = {
    "AllToAll", "Assert", "CheckNumerics", "CheckNumericsV2", "CollectivePermute", "CrossReplicaSum", "DebugIdentityV2",
    "EagerPyFunc", "LookupTableFindV2", "LookupTableSizeV2", "NcclAllReduce", "NcclBroadcast", "NcclReduce",
    "Placeholder", "Print", "PrintV2", "ReadVariableOp", "ResourceGather", "ResourceGatherNd", "VarHandleOp",
    "VarIsInitializedOp", "VariableShape",
}  # fmt: skip
"""Stateful by definition, yet the same again: reads, checks, what replicas exchange, and `tf.py_function`, whose Python
function must be a pure one. None of these may be taken for a constant where its input changes."""

# -------------------------------------------------------------- element by element, with broadcasting

UNARY = {
    "Abs", "Acos", "Acosh", "Angle", "Asin", "Asinh", "Atan", "Atanh", "BesselI0", "BesselI0e", "BesselI1", "BesselI1e",
    "BesselJ0", "BesselJ1", "BesselK0", "BesselK0e", "BesselK1", "BesselK1e", "BesselY0", "BesselY1", "Cast", "Ceil",
    "CheckNumerics", "CheckNumericsV2", "ComplexAbs", "Conj", "Cos", "Cosh", "Dawsn", "Digamma", "Elu", "EnsureShape",
    "Erf", "Erfc", "Erfinv", "Exp", "Expint", "Expm1", "FakeQuantWithMinMaxArgs", "Floor", "FresnelCos", "FresnelSin",
    "Imag", "Inv", "LeakyRelu", "Lgamma", "Log", "Log1p", "Ndtri", "Neg", "Real", "Reciprocal", "Relu", "Relu6", "Rint",
    "Round", "Rsqrt", "Selu", "Sigmoid", "Sign", "Sin", "Sinh", "Softplus", "Softsign", "Spence", "Sqrt", "Square",
    "StopGradient", "Tan", "Tanh",
}  # fmt: skip

SEVERAL_INPUTS = {
    "Add", "AddN", "AddV2", "Atan2", "Betainc", "ClipByValue", "Complex", "Div", "DivNoNan", "FakeQuantWithMinMaxVars",
    "FakeQuantWithMinMaxVarsPerChannel", "FloorDiv", "FloorMod", "Igamma", "Igammac", "Maximum", "Minimum", "Mul",
    "MulNoNan", "NextAfter", "Polygamma", "Pow", "RealDiv", "SelectV2", "SquaredDifference", "Sub", "TruncateDiv",
    "Xdivy", "Xlog1py", "Xlogy", "Zeta",
}  # fmt: skip

DECISIONS = {
    "Equal", "Greater", "GreaterEqual", "IsFinite", "IsInf", "IsNan", "Less", "LessEqual", "LogicalAnd", "LogicalNot",
    "LogicalOr", "NotEqual", "OnesLike", "ZerosLike",
}  # fmt: skip
"""Values pass through these, gradients do not."""

GRADIENTS = {
    "EluGrad", "InvGrad", "LeakyReluGrad", "ReciprocalGrad", "Relu6Grad", "ReluGrad", "RsqrtGrad", "SeluGrad",
    "SigmoidGrad", "SoftplusGrad", "SoftsignGrad", "SqrtGrad", "TanhGrad",
}  # fmt: skip
"""The gradients that TensorFlow takes of some of these by ops of their own."""

ELEMENTWISE = {*UNARY, *SEVERAL_INPUTS, *DECISIONS, *GRADIENTS, "Identity", "Select"}
"""All of these, and what moves nothing."""

ARITHMETIC = {"Add", "AddV2", "Div", "Mul", "Neg", "RealDiv", "Sub"}
"""Affine in the first input, whatever the other; divisions aside, in the other as well."""

PIECEWISE_CONSTANT = {"Ceil", "Floor", "FloorDiv", "Rint", "Round", "Sign", "TruncateDiv"}
"""Ops whose derivative is zero wherever there is one: their registered gradients are None, or zeros."""

NOT_ZERO_AT_ZERO = {
    "Cos", "Cosh", "Erfc", "Exp", "Log", "LogSoftmax", "OnesLike", "Rsqrt", "Sigmoid", "Softmax", "Softplus",
}  # fmt: skip

# -------------------------------------------------------------- where elements go

SHAPE_ONLY = {
    *("OnesLike", "Rank", "Shape", "ShapeN", "Size", "VariableShape", "ZerosLike"),
    *("TensorListElementShape", "TensorListLength"),
}
"""Ops that look at the shapes of their inputs alone."""

SAME_ORDER = {"EnsureShape", "ExpandDims", "Identity", "Reshape", "Snapshot", "Squeeze"}
"""Ops whose output has the elements of the first input, in row-major order."""

PERMUTING = {*SAME_ORDER, "Transpose"}
"""Ops whose output has each element of the first input once."""

COPYING = {
    *PERMUTING, "BroadcastTo", "ConcatV2", "GatherNd", "GatherV2", "Pack", "Slice", "Split", "SplitV", "StridedSlice",
    "Tile", "Unpack",
}  # fmt: skip
"""Ops whose output has elements of their inputs and no others."""

# -------------------------------------------------------------- linearity

LINEAR_IN_FIRST = {
    "AvgPool", "AvgPool3D", "BroadcastTo", "Cast", "CheckNumerics", "CheckNumericsV2", "Cumsum", "Div", "DivNoNan",
    "EnsureShape", "ExpandDims", "GatherNd", "GatherV2", "Identity", "Mean", "MirrorPad", "Neg", "Pad", "RealDiv",
    "Reshape", "ReverseV2", "SegmentMean", "SegmentSum", "Slice", "Snapshot", "Squeeze", "StridedSlice", "Sum", "Tile",
    "Transpose", "Unpack", "UnsortedSegmentSum",
}  # fmt: skip
"""Linear in the first input, the others (axes, shapes, indices, divisors) fixed."""

LINEAR_IN_ALL = {
    "Add", "AddN", "AddV2", "ConcatV2", "IdentityN", "Pack", "PadV2", "Select", "SelectV2", "Split", "Sub",
}  # fmt: skip
"""Linear in all floating-point inputs at once."""

CONTRACTIONS = {"BatchMatMul", "BatchMatMulV2", "BatchMatMulV3", "Einsum", "MatMul"}
"""Sums of products of elements of their inputs."""

PRODUCTS = {*CONTRACTIONS, "Mul", "MulNoNan"}
"""Linear in one input, the others fixed."""
