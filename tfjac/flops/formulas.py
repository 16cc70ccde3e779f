"""How many floating-point operations an op does: one formula for each type of op.

A multiplication and an addition count as two, any function of one number (a division, a square root, a tanh) as one,
and so does a comparison. What moves numbers or makes integers counts nothing. TensorFlow registers such formulas, too
(`tf.compat.v1.profiler`), for 46 types of ops: none for most gradients, and those of convolutions know no groups.
"""

import math

from tfjac.graph import axis_labels


class OpenSize(Exception):
    """A size that the graph leaves open, so that a formula has no value."""


def formula_of(op):
    """Return the formula of `op`, a function from the op to a number; None where there is none.

    The formula raises `OpenSize` where the graph leaves a size open.
    """
    dtypes = [tensor.dtype for tensor in (*op.inputs, *op.outputs)]
    if op.type in _FREE or not any(dtype.is_floating or dtype.is_complex for dtype in dtypes):
        return _nothing
    formula = _FORMULAS.get(op.type)
    if formula is None or not any(dtype.is_complex for dtype in dtypes):
        return formula
    factor = _COMPLEX.get(op.type)
    return None if factor is None else lambda op: factor * formula(op)


def _elements(tensor):
    """The number of elements of a tensor."""
    return math.prod(_sizes(tensor))


def _sizes(tensor):
    sizes = tensor.shape.as_list() if tensor.shape.rank is not None else [None]
    if None in sizes:
        raise OpenSize(f"shape {tensor.shape} of {tensor.name}")
    return sizes


def _nothing(op):
    return 0


def _for_each_output(count):
    return lambda op: count * _elements(op.outputs[0])


def _for_each_input(count, index=0):
    return lambda op: count * _elements(op.inputs[index])


def _reduction(op):
    """One operation less than there are numbers, for each result."""
    return max(_elements(op.inputs[0]) - _elements(op.outputs[0]), 0)


def _mean(op):
    return _reduction(op) + _elements(op.outputs[0])


def _sum_of_all(op):
    return (len(op.inputs) - 1) * _elements(op.outputs[0])


def _product(op):
    """Every label runs through its range once, whatever it is contracted with."""
    shapes = [_sizes(tensor) for tensor in op.inputs]
    operands, output = axis_labels(op)
    sizes = dict(zip(output, _sizes(op.outputs[0])))
    for labels, shape in zip(operands, shapes):
        sizes |= {label: max(size, sizes.get(label, 1)) for label, size in zip(labels, shape)}
    every = math.prod(sizes.values())
    return 2 * every if len(op.inputs) == 2 else max(every - _elements(op.outputs[0]), 0)


def _convolution(result, kernel, depthwise=False):
    """Two for each number of the result of the convolution and each weight that it is made with.

    The weights of one result are all but the last axis of the kernel, whatever groups, strides and dilation there are;
    those of a depthwise convolution are its window. Multiplications with padding count.

    Args:
        result, kernel: functions from an op to the tensor that is the result of the convolution, or has its shape, and
            the one that is its kernel.
    """

    def formula(op):
        window = _sizes(kernel(op))[: -2 if depthwise else -1]
        return 2 * _elements(result(op)) * math.prod(window)

    return formula


def _input(index):
    return lambda op: op.inputs[index]


def _output(op):
    return op.outputs[0]


def _pooling(result):
    return lambda op: _elements(result(op)) * math.prod(op.get_attr("ksize"))


def _batch_norm(training, inference, tensor):
    return lambda op: (training if op.get_attr("is_training") else inference) * _elements(tensor(op))


def _fourier(op):
    """The usual count for n numbers, 5·n·log₂ n, half of it where one side is real."""
    real = 0.5 if "RFFT" in op.type else 1
    tensor = op.outputs[0] if op.type.startswith("IRFFT") else op.inputs[0]
    rank = 3 if op.type.endswith("3D") else 2 if op.type.endswith("2D") else 1
    length = math.prod(_sizes(tensor)[-rank:])
    return round(real * 5 * _elements(tensor) * math.log2(max(length, 1)))


def _factorisation(share):
    """`share` of n³ for each matrix."""
    return lambda op: round(share * _elements(op.inputs[0]) * _sizes(op.inputs[0])[-1])


def _solution(share, each):
    """`share` of n³ for each matrix, and `each` of n² for each right-hand side."""
    return lambda op: round(
        share * _elements(op.inputs[0]) * _sizes(op.inputs[0])[-1]
        + each * _elements(op.outputs[0]) * _sizes(op.inputs[0])[-1]
    )


def _sparse_product(op):
    (stored,) = _sizes(op.inputs[1])
    return 2 * stored * _sizes(op.outputs[0])[-1]


def _each(names, formula):
    """The table of one formula for several types of ops."""
    return dict.fromkeys(names.split(), formula)


_EACH_OUTPUT = {
    1: """Abs Acos Acosh Add AddV2 ApproximateEqual Asin Asinh Atan Atan2 Atanh BesselI0 BesselI0e BesselI1 BesselI1e
        BiasAdd BiasAddV1 Ceil Cos Cosh Digamma Div DivNoNan Elu Equal Erf Erfc Erfinv Exp Expm1 Floor FloorDiv FloorMod
        Greater GreaterEqual Inv IsFinite IsInf IsNan LeakyRelu Less LessEqual Lgamma Log Log1p Maximum Minimum Mod Mul
        MulNoNan Ndtri Neg NextAfter NotEqual Pow RealDiv Reciprocal Relu ReluGrad Rint Round Rsqrt Selu Sigmoid Sign
        Sin Sinh Softplus Softsign Sqrt Square Sub Tan Tanh TruncateDiv Xdivy Xlog1py Xlogy LeakyReluGrad Relu6Grad""",
    2: "ClipByValue EluGrad Relu6 SeluGrad SqrtGrad SquaredDifference",
    3: "InvGrad ReciprocalGrad SigmoidGrad SoftsignGrad TanhGrad",
    4: "RsqrtGrad SoftplusGrad",
    5: "LogSoftmax Softmax",
}
"""Softmax: largest, difference, exponential, sum, quotient. Gradients: the formula of each, such as dy·(1 - y²)."""

_FREE = _each(
    """
    Assert AssignVariableOp BatchToSpaceND Bitcast BroadcastArgs BroadcastGradientArgs BroadcastTo Cast CheckNumerics
    Complex Concat ConcatV2 Conj Const DepthToSpace DiagPart DynamicPartition DynamicStitch Empty
    EmptyTensorList EnsureShape ExpandDims ExtractImagePatches Fill Gather GatherNd GatherV2 Identity IdentityN Imag
    InvertPermutation MatrixBandPart MatrixDiag MatrixDiagPart MatrixDiagPartV2 MatrixDiagPartV3 MatrixDiagV2
    MatrixDiagV3 MatrixSetDiag MatrixSetDiagV2 MatrixSetDiagV3 MirrorPad NoOp OneHot OnesLike OptionalFromValue
    OptionalGetValue OptionalHasValue OptionalNone Pack Pad PadV2
    ParallelDynamicStitch Placeholder PlaceholderWithDefault PreventGradient Print PrintV2 Rank ReadVariableOp Real
    Reshape ResourceGather ResourceGatherNd Reverse ReverseSequence ReverseV2 Roll Select SelectV2 Shape ShapeN Size
    Slice Snapshot SpaceToBatchND SpaceToDepth Split SplitV Squeeze StopGradient StridedSlice StridedSliceGrad
    TensorListConcatV2 TensorListElementShape TensorListFromTensor TensorListGather TensorListGetItem TensorListLength
    TensorListPopBack TensorListPushBack TensorListReserve TensorListResize TensorListSetItem TensorListSplit
    TensorListStack TensorScatterUpdate Tile Transpose Unique Unpack VarHandleOp VariableShape Where ZerosLike
    RandomShuffle RandomStandardNormal RandomUniform RandomUniformInt StatelessMultinomial StatelessRandomNormalV2
    StatelessRandomUniformV2 StatelessTruncatedNormalV2 TruncatedNormal
    """,
    _nothing,
)
"""Ops that move, choose or make numbers. Random ones are made by arithmetic with integers."""

_COMPLEX = {
    **dict.fromkeys(("Add", "AddV2", "AddN", "BiasAdd", "BiasAddGrad", "Neg", "Sub", "Sum"), 2),
    "ComplexAbs": 1,
    "Mul": 6,
    **dict.fromkeys(("BatchMatMul", "BatchMatMulV2", "BatchMatMulV3", "Einsum", "MatMul"), 4),
    **dict.fromkeys((f"{i}FFT{d}" for i in ("", "I", "R", "IR") for d in ("", "2D", "3D")), 1),
}  # fmt: skip
"""How many times what real numbers cost complex ones do."""

_FORMULAS = {
    **{name: _for_each_output(count) for count, names in _EACH_OUTPUT.items() for name in names.split()},
    **_each("ArgMax ArgMin BiasAddGrad Max Min Prod Sum", _reduction),
    **_each("SegmentSum UnsortedSegmentSum UnsortedSegmentMax UnsortedSegmentMin", _for_each_input(1)),
    **_each("Cumprod Cumsum", _for_each_input(1)),
    **_each("ScatterNd TensorScatterAdd", _for_each_input(1, index=1)),
    **_each("EuclideanNorm L2Loss", _for_each_input(2)),
    "Mean": _mean,
    "AddN": _sum_of_all,
    "AccumulateNV2": _sum_of_all,
    **_each("MatMul BatchMatMul BatchMatMulV2 BatchMatMulV3 Einsum", _product),
    "SparseTensorDenseMatMul": _sparse_product,
    **_each("Conv2D Conv3D Conv", _convolution(_output, _input(1))),
    **_each("Conv2DBackpropInput Conv3DBackpropInputV2", _convolution(_input(2), _input(1))),
    **_each("Conv2DBackpropFilter Conv3DBackpropFilterV2", _convolution(_input(2), _output)),
    "DepthwiseConv2dNative": _convolution(_output, _input(1), depthwise=True),
    "DepthwiseConv2dNativeBackpropInput": _convolution(_input(2), _input(1), depthwise=True),
    "DepthwiseConv2dNativeBackpropFilter": _convolution(_input(2), _output, depthwise=True),
    **_each("AvgPool AvgPool3D MaxPool MaxPool3D", _pooling(_output)),
    **_each("AvgPoolGrad AvgPool3DGrad", _pooling(_input(1))),
    **_each("MaxPoolGrad MaxPool3DGrad", _pooling(_input(2))),
    **_each("FusedBatchNorm FusedBatchNormV2 FusedBatchNormV3", _batch_norm(7, 3, _input(0))),
    **_each("FusedBatchNormGradV2 FusedBatchNormGradV3", _batch_norm(9, 5, _input(0))),
    "SoftmaxCrossEntropyWithLogits": _for_each_input(9),
    "SparseSoftmaxCrossEntropyWithLogits": _for_each_input(6),
    "ComplexAbs": _for_each_output(4),
    **{f"{inverse}FFT{d}": _fourier for inverse in ("", "I", "R", "IR") for d in ("", "2D", "3D")},
    "Cholesky": _factorisation(1 / 3),
    "Lu": _factorisation(2 / 3),
    "MatrixInverse": _factorisation(2),
    "MatrixDeterminant": _factorisation(2 / 3),
    "MatrixSolve": _solution(2 / 3, 2),
    "MatrixTriangularSolve": _solution(0, 1),
}
