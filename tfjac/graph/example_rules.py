"""One small rule per op type: from the example axis of an output to that of each input.

A rule is ``rule(op, axis, wanted) -> list``, one entry per input, each an ``ExampleAxis`` or ``SHARED``; it raises
``NoRule`` where the op combines slices of different examples. ``wanted.shape(tensor)`` gives static shapes.
"""

import dataclasses
import math

from . import _private

SHARED = "shared"
_RULES = {}


class NoRule(Exception):
    """The op mixes examples, or nothing is known about it."""


@dataclasses.dataclass(frozen=True)
class ExampleAxis:
    """The examples run along ``axis``, whose size is ``outer · n · inner`` (row-major)."""

    axis: int
    outer: int = 1
    inner: int = 1

    def moved(self, axis):
        """The same examples along another axis."""
        return dataclasses.replace(self, axis=axis)


def rule(*op_types):
    """Register a rule for ``op_types``."""

    def register(function):
        for op_type in op_types:
            _RULES[op_type] = function
        return function

    return register


def input_axes(op, wanted_outputs, wanted):
    """Return the example axis of each input of ``op``, given those of its outputs by index."""
    if op.type not in _RULES:
        raise NoRule("nothing is known about ops of this type")
    axes = set(wanted_outputs.values())
    if len(axes) > 1:
        raise NoRule("its outputs carry the examples along different axes")
    return _RULES[op.type](op, axes.pop(), wanted)


def _plain(axis):
    """Refuse an axis in which examples are merged with something else, for ops that treat the axis as a batch."""
    return axis


# ---------------------------------------------------------------- elementwise


def _broadcast(op, axis, wanted):
    """Elementwise with broadcasting: align shapes from the right; a size-1 or missing dimension is shared."""
    out = wanted.shape(op.outputs[0])
    if out is None:
        raise NoRule("the rank of its output is unknown")
    result = []
    for tensor in op.inputs:
        shape = wanted.shape(tensor)
        if shape is None:
            raise NoRule(f"the rank of its input {tensor.name!r} is unknown")
        position = axis.axis - (len(out) - len(shape))
        shared = position < 0 or (shape[position] == 1 and not _only_one_example(out[axis.axis], shape, out))
        result.append(SHARED if shared else axis.moved(position))
    return result


def _only_one_example(size, shape, out):
    """With a static batch of one, size 1 says nothing: call an input with the full shape per-example."""
    return size == 1 and shape == out


for _type in """Add AddV2 Sub Mul MulNoNan RealDiv Div DivNoNan FloorDiv FloorMod Mod TruncateDiv Maximum Minimum Pow SquaredDifference
    Xdivy Xlogy Xlog1py Atan2 Igamma Igammac Zeta Complex SelectV2 Select BroadcastArgs ClipByValue NextAfter AddN
    Abs Acos Acosh Asin Asinh Atan Atanh Cast Ceil CheckNumerics Conj Cos Cosh Digamma Elu Erf Erfc Erfinv Exp Expm1
    Floor Identity Imag Inv Invert IsFinite LeakyRelu Lgamma Log Log1p Ndtri Neg PreventGradient Real Reciprocal Relu Relu6 Rint Round
    Rsqrt Selu Sigmoid Sign Sin Sinh Snapshot Softplus Softsign Sqrt Square StopGradient Tan Tanh BesselI0e BesselI1e DebugGradientIdentity
    ReluGrad Relu6Grad TanhGrad SigmoidGrad EluGrad SeluGrad SoftplusGrad SoftsignGrad LeakyReluGrad RsqrtGrad SqrtGrad
    ReciprocalGrad InvGrad""".split():
    _RULES[_type] = _broadcast


@rule("IdentityN")
def _identity_n(op, axis, wanted):
    return [axis] * len(op.inputs)


@rule("BiasAdd")
def _bias_add(op, axis, wanted):
    return [axis, SHARED]


@rule("BroadcastTo")
def _broadcast_to(op, axis, wanted):
    out, shape = wanted.shape(op.outputs[0]), wanted.shape(op.inputs[0])
    if out is None or shape is None:
        raise NoRule("the rank of its input or output is unknown")
    position = axis.axis - (len(out) - len(shape))
    return [SHARED if position < 0 or shape[position] == 1 else axis.moved(position), SHARED]


# ---------------------------------------------------------------- products


@rule("MatMul")
def _matmul(op, axis, wanted):
    """[rows, k] · [k, columns]: rows come from the first input, columns from the second."""
    transposed = (op.get_attr("transpose_a"), op.get_attr("transpose_b"))
    return _matrix_product(op, axis, wanted, transposed, rank=2)


@rule("BatchMatMul", "BatchMatMulV2", "BatchMatMulV3")
def _batch_matmul(op, axis, wanted):
    out = wanted.shape(op.outputs[0])
    if out is None or any(wanted.shape(tensor) is None for tensor in op.inputs):
        raise NoRule("the rank of its input or output is unknown")
    if axis.axis >= len(out) - 2:
        return _matrix_product(op, axis, wanted, (op.get_attr("adj_x"), op.get_attr("adj_y")), rank=len(out))
    result = []
    for tensor in op.inputs:
        shape = wanted.shape(tensor)
        position = axis.axis - (len(out) - len(shape))
        shared = position < 0 or (shape[position] == 1 and out[axis.axis] != 1)
        result.append(SHARED if shared else axis.moved(position))
    return result


def _matrix_product(op, axis, wanted, transposed, rank):
    """The example axis is one of the two matrix axes of the output; fills in the contracted dimension's size."""
    carrier = 0 if axis.axis == rank - 2 else 1
    other = 1 - carrier
    tensor_rank = [len(wanted.shape(tensor)) for tensor in op.inputs[:2]]
    kept = [-1, -2] if transposed[carrier] else [-2, -1]
    position = tensor_rank[carrier] + (kept[0] if carrier == 0 else kept[1])
    contracted = tensor_rank[carrier] + (kept[1] if carrier == 0 else kept[0])
    kept_other = [-1, -2] if transposed[other] else [-2, -1]
    size = wanted.shape(op.inputs[other])[kept_other[0] if other == 1 else kept_other[1]]
    shape = wanted.shape(op.inputs[carrier])
    if shape[contracted] is None and size is not None:
        shape[contracted] = size
        wanted.shapes[op.inputs[carrier].ref()] = shape
    result = [SHARED, SHARED]
    result[carrier] = axis.moved(position)
    return result


@rule("Einsum")
def _einsum(op, axis, wanted):
    operands, output = einsum_labels(op, [len(wanted.shape(t) or ()) for t in op.inputs])
    label = output[axis.axis]
    result = []
    for labels in operands:
        if labels.count(label) > 1:
            raise NoRule("its equation takes a diagonal over the examples")
        result.append(axis.moved(labels.index(label)) if label in labels else SHARED)
    return result


def einsum_labels(op, ranks):
    """Return the labels of each operand and of the result of an ``Einsum`` op, an ellipsis spelt out in digits."""
    equation = op.get_attr("equation").decode()
    left, output = equation.split("->")
    operands = left.split(",")
    width = max((rank - len(labels) + 3 for labels, rank in zip(operands, ranks) if "..." in labels), default=0)
    digits = "0123456789"[:width]
    spelt = []
    for labels, rank in zip(operands, ranks):
        own = rank - len(labels) + 3
        spelt.append(labels.replace("...", digits[width - own :] if own > 0 else ""))
    return spelt, output.replace("...", digits)


# ---------------------------------------------------------------- batch-first layers


def _first_axis(carriers):
    """A rule for ops whose inputs at ``carriers`` have the examples first, and whose other inputs are shared."""

    def first_axis(op, axis, wanted):
        if axis.axis != 0:
            raise NoRule(f"it carries the examples along axis {axis.axis}, where it combines slices")
        return [axis if index in carriers else SHARED for index in range(len(op.inputs))]

    return first_axis


for _type in """Conv2D Conv3D DepthwiseConv2dNative MaxPool MaxPool3D AvgPool AvgPool3D Dilation2D ResizeBilinear
    ResizeNearestNeighbor ResizeBicubic ResizeArea LRN DepthToSpace SpaceToDepth FractionalMaxPool Conv""".split():
    _RULES[_type] = _first_axis({0})
for _type in ("Conv2DBackpropInput", "Conv3DBackpropInputV2", "DepthwiseConv2dNativeBackpropInput"):
    _RULES[_type] = _first_axis({2})


@rule("FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3")
def _batch_norm(op, axis, wanted):
    if op.get_attr("is_training"):
        raise NoRule("batch normalisation in training mode takes its mean and variance over the batch")
    return _first_axis({0})(op, axis, wanted)


# ---------------------------------------------------------------- along an axis


@rule("Softmax", "LogSoftmax")
def _softmax(op, axis, wanted):
    rank = op.inputs[0].shape.rank
    if rank is None or axis.axis == rank - 1:
        raise NoRule("it normalises over the axis of the examples")
    return [axis]


@rule("Sum", "Mean", "Max", "Min", "Prod", "EuclideanNorm")
def _reduce(op, axis, wanted):
    shape, reduced = wanted.shape(op.inputs[0]), _private.constant_value(op.inputs[1])
    if shape is None or reduced is None:
        raise NoRule("the axes it reduces over are unknown until it runs")
    reduced = {int(index) % len(shape) for index in reduced.reshape(-1)}
    if op.get_attr("keep_dims"):
        position = axis.axis
    else:
        position = [index for index in range(len(shape)) if index not in reduced][axis.axis]
    if position in reduced:
        raise NoRule("it reduces over the axis of the examples")
    return [axis.moved(position), SHARED]


@rule("Cumsum", "Cumprod", "CumulativeLogsumexp", "ReverseV2")
def _along_constant_axes(op, axis, wanted):
    along, rank = _private.constant_value(op.inputs[1]), op.inputs[0].shape.rank
    if along is None or rank is None or axis.axis in {int(index) % rank for index in along.reshape(-1)}:
        raise NoRule("it runs along the axis of the examples")
    return [axis, SHARED]


@rule("TopKV2", "MatrixDiagV3", "MatrixDiagPartV3", "MatrixSetDiagV3", "MatrixBandPart", "Cholesky", "MatrixInverse")
def _last_axes(op, axis, wanted):
    """Ops on the trailing axes, with leading axes as a batch."""
    kept = op.inputs[0].shape.rank
    kept = None if kept is None else kept - (1 if op.type in ("TopKV2", "MatrixDiagV3") else 2)
    if kept is None or axis.axis >= kept:
        raise NoRule("it combines slices along the axis of the examples")
    return [axis if tensor.shape.rank not in (0, None) else SHARED for tensor in op.inputs]


# ---------------------------------------------------------------- moving elements


@rule("Reshape")
def _reshape(op, axis, wanted):
    return [_regrouped(op, axis, wanted), SHARED]


@rule("ExpandDims", "Squeeze")
def _unit_axes(op, axis, wanted):
    return [_regrouped(op, axis, wanted)] + [SHARED] * (len(op.inputs) - 1)


def _regrouped(op, axis, wanted):
    """Keep the row-major order: ``before`` elements per example block outside, ``after`` inside must stay the same."""
    out, shape = wanted.shape(op.outputs[0]), wanted.shape(op.inputs[0])
    if out is None or shape is None:
        raise NoRule("the rank of its input or output is unknown")
    before = _times(axis.outer, out[: axis.axis])
    after = _times(axis.inner, out[axis.axis + 1 :])
    for position in sorted(range(len(shape)), key=lambda index: (shape[index] is not None, shape[index] == 1)):
        outer = _quotient(before, shape[:position])
        inner = _quotient(after, shape[position + 1 :])
        if outer and inner and _divides(outer * inner, shape[position], wanted.num_examples):
            return ExampleAxis(position, outer, inner)
    raise NoRule(f"it reshapes {shape} to {out}, in which the examples cannot be told apart")


def _times(factor, dims):
    return None if any(dim is None for dim in dims) else factor * math.prod(dims)


def _quotient(total, dims):
    """``total / prod(dims)`` where it is known and whole, else 0."""
    if total is None or any(dim is None for dim in dims):
        return 0
    size = math.prod(dims)
    return total // size if size and total % size == 0 else 0


def _divides(block, size, num_examples):
    if size is None:
        return True
    return size == block * num_examples if num_examples is not None else size % block == 0


@rule("Transpose", "ConjugateTranspose")
def _transpose(op, axis, wanted):
    permutation = _private.constant_value(op.inputs[1])
    if permutation is None:
        permutation = _leading_permutation(op, axis)
    return [axis.moved(int(permutation[axis.axis])), SHARED]


def _leading_permutation(op, axis):
    raise NoRule("its permutation is unknown until it runs")


@rule("Pad", "PadV2", "MirrorPad")
def _pad(op, axis, wanted):
    paddings = _private.constant_value(op.inputs[1])
    if paddings is None or paddings[axis.axis].any():
        raise NoRule("it pads the axis of the examples")
    return [axis] + [SHARED] * (len(op.inputs) - 1)


@rule("Tile")
def _tile(op, axis, wanted):
    shape, multiples = wanted.shape(op.inputs[0]), _private.constant_value(op.inputs[1])
    if shape is not None and shape[axis.axis] == 1:
        return [SHARED, SHARED]
    if multiples is None or multiples[axis.axis] != 1:
        raise NoRule("it repeats examples")
    return [axis, SHARED]


@rule("ConcatV2")
def _concat(op, axis, wanted):
    along, rank = _private.constant_value(op.inputs[-1]), op.outputs[0].shape.rank
    if along is None or rank is None or int(along) % rank == axis.axis:
        raise NoRule("it concatenates along the axis of the examples")
    return [axis] * (len(op.inputs) - 1) + [SHARED]


@rule("Pack")
def _pack(op, axis, wanted):
    along = op.get_attr("axis") % op.outputs[0].shape.rank
    if along == axis.axis:
        raise NoRule("it stacks along the axis of the examples")
    return [axis.moved(axis.axis - (along < axis.axis))] * len(op.inputs)


@rule("Unpack")
def _unpack(op, axis, wanted):
    along = op.get_attr("axis") % op.inputs[0].shape.rank
    return [axis.moved(axis.axis + (along <= axis.axis))]


@rule("Split", "SplitV")
def _split(op, axis, wanted):
    value, along = (op.inputs[1], op.inputs[0]) if op.type == "Split" else (op.inputs[0], op.inputs[2])
    along = _private.constant_value(along)
    if along is None or int(along) % value.shape.rank == axis.axis:
        raise NoRule("it splits the axis of the examples")
    return [axis if tensor is value else SHARED for tensor in op.inputs]


@rule("Slice")
def _slice(op, axis, wanted):
    begin, size = (_private.constant_value(tensor) for tensor in op.inputs[1:])
    whole = begin is not None and size is not None and begin[axis.axis] == 0
    if not whole or (size[axis.axis] != -1 and size[axis.axis] != op.inputs[0].shape[axis.axis]):
        raise NoRule("it takes a part of the axis of the examples")
    return [axis, SHARED, SHARED]


@rule("StridedSlice")
def _strided_slice(op, axis, wanted):
    """Follow the masks: each entry of the index is a new axis, one index, a range, or an ellipsis."""
    begin, end, strides = (_private.constant_value(tensor) for tensor in op.inputs[1:4])
    shape = wanted.shape(op.inputs[0])
    if shape is None or strides is None:
        raise NoRule("its strides are unknown until it runs")
    masks = {name: op.get_attr(name + "_mask") for name in ("begin", "end", "ellipsis", "new_axis", "shrink_axis")}
    position = _sliced_axis(axis.axis, len(strides), len(shape), masks)
    if position is None:
        return [SHARED] * 4
    source, entry = position
    if entry is not None and not _whole_range(entry, begin, end, strides, masks, shape[source]):
        raise NoRule("it takes a part of the axis of the examples")
    return [axis.moved(source), SHARED, SHARED, SHARED]


def _sliced_axis(wanted_axis, entries, rank, masks):
    """Return the input axis and the index entry behind output axis ``wanted_axis``; None for a new axis."""
    consumed = sum(not (masks["new_axis"] >> e & 1 or masks["ellipsis"] >> e & 1) for e in range(entries))
    source = target = 0
    for entry in range(entries):
        if masks["ellipsis"] >> entry & 1:
            for _ in range(rank - consumed):
                if target == wanted_axis:
                    return source, None
                source, target = source + 1, target + 1
        elif masks["new_axis"] >> entry & 1:
            if target == wanted_axis:
                return None
            target += 1
        else:
            if not masks["shrink_axis"] >> entry & 1:
                if target == wanted_axis:
                    return source, entry
                target += 1
            source += 1
    return source + (wanted_axis - target), None


def _whole_range(entry, begin, end, strides, masks, size):
    from_start = masks["begin"] >> entry & 1 or (begin is not None and begin[entry] == 0)
    to_end = masks["end"] >> entry & 1 or (end is not None and size is not None and end[entry] >= size)
    return strides[entry] == 1 and from_start and to_end


@rule("GatherV2", "ResourceGather")
def _gather(op, axis, wanted):
    """params[..., indices, ...]: the examples are in the indices, or in an axis of params that is not gathered along."""
    params, indices = op.inputs[:2]
    batch_dims = op.get_attr("batch_dims")
    along = 0 if op.type == "ResourceGather" else _private.constant_value(op.inputs[2])
    if along is None or indices.shape.rank is None:
        raise NoRule("the axis it gathers along is unknown until it runs")
    rest = [SHARED] * (len(op.inputs) - 2)
    along = int(along) % (params.shape.rank or 1) if op.type == "GatherV2" else 0
    if axis.axis < batch_dims:
        return [axis, axis, *rest]
    if along <= axis.axis < along + indices.shape.rank - batch_dims:
        return [SHARED, axis.moved(axis.axis - along + batch_dims), *rest]
    return [axis.moved(axis.axis if axis.axis < along else axis.axis - indices.shape.rank + batch_dims + 1), SHARED, *rest]


@rule("SpaceToBatchND")
def _space_to_batch(op, axis, wanted):
    """The new batch is block · n, the block outermost."""
    block = _private.constant_value(op.inputs[1])
    if block is None or axis.axis != 0 or axis.outer % math.prod(block):
        raise NoRule("it moves positions into the axis of the examples")
    return [ExampleAxis(0, axis.outer // math.prod(block), axis.inner), SHARED, SHARED]


@rule("BatchToSpaceND")
def _batch_to_space(op, axis, wanted):
    block = _private.constant_value(op.inputs[1])
    if block is None or axis.axis != 0:
        raise NoRule("it moves positions out of the axis of the examples")
    return [ExampleAxis(0, int(axis.outer * math.prod(block)), axis.inner), SHARED, SHARED]
