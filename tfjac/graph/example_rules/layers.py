"""Ops of layers that have the examples along axis 0, and ops that work along some axis."""

from tfjac.graph.example_rules.registry import SHARED, NoRule, aligned, known_shape, rule, undoes_broadcast
from tfjac.graph.static_values import static_value


def _first_axis(carriers):
    """A rule for ops whose inputs at `carriers` have the examples first, and whose other inputs are shared."""

    def first_axis(op, axis, wanted):
        if axis.axis != 0:
            raise NoRule(f"it carries the examples along axis {axis.axis}, where it combines slices")
        return [axis if index in carriers else SHARED for index in range(len(op.inputs))]

    return first_axis


BATCH_FIRST = """
    AvgPool AvgPool3D Conv2D Conv3D DepthToSpace DepthwiseConv2dNative Dilation2D ExtractImagePatches
    ExtractVolumePatches FractionalMaxPool LRN MaxPool MaxPool3D MaxPoolWithArgmax ResizeBicubic ResizeBilinear
    ResizeNearestNeighbor ResizeNearestNeighborGrad ScaleAndTranslate SpaceToDepth
"""
rule(*BATCH_FIRST.split())(_first_axis({0}))
rule("AvgPoolGrad", "AvgPool3DGrad")(_first_axis({1}))
rule("ResizeBicubicGrad", "ResizeBilinearGrad")(_first_axis({0, 1}))
rule("LRNGrad", *("MaxPool" + name for name in ("Grad", "GradGrad", "3DGrad", "3DGradGrad")))(_first_axis({0, 1, 2}))
rule("Conv2DBackpropInput", "Conv3DBackpropInputV2", "DepthwiseConv2dNativeBackpropInput")(_first_axis({2}))


@rule("FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3")
def _batch_norm(op, axis, wanted):
    if op.get_attr("is_training"):
        raise NoRule("batch normalisation in training mode takes its mean and variance over the batch")
    return _first_axis({0})(op, axis, wanted)


@rule("Softmax", "LogSoftmax")
def _softmax(op, axis, wanted):
    rank = op.inputs[0].shape.rank
    if rank is None or axis.axis == rank - 1:
        raise NoRule("it normalises over the axis of the examples")
    return [axis]


@rule("SoftmaxCrossEntropyWithLogits", "SparseSoftmaxCrossEntropyWithLogits")
def _cross_entropy(op, axis, wanted):
    """Losses [n] and gradients [n, classes] of logits [n, classes]; one row of logits or labels may serve all."""
    if axis.axis != 0:
        raise NoRule("it normalises over the axis of the examples")
    if op.type.startswith("Sparse"):
        return [axis, axis]
    return aligned(op, axis, op.inputs, known_shape(wanted, op.outputs[1]), wanted)


@rule("Sum", "Mean", "Max", "Min", "Prod", "EuclideanNorm")
def _reduce(op, axis, wanted):
    shape, reduced = known_shape(wanted, op.inputs[0]), static_value(op.inputs[1])
    if undoes_broadcast(op):
        _check_not_broadcast(op, axis, wanted)
        return [axis, SHARED]
    if reduced is None:
        raise NoRule("the axes it reduces over are unknown until it runs")
    reduced = {int(index) % len(shape) for index in reduced.reshape(-1)}
    if op.get_attr("keep_dims"):
        position = axis.axis
    else:
        position = [index for index in range(len(shape)) if index not in reduced][axis.axis]
    if position in reduced:
        raise NoRule("it reduces over the axis of the examples")
    return [axis.moved(position), SHARED]


def _check_not_broadcast(op, axis, wanted):
    """Have the run check that what was broadcast has the examples: else its gradient is a sum over them.

    Inside a custom gradient that is checked of what goes into it.
    """
    shape_of = op.inputs[1].op.inputs[op.inputs[1].value_index].op
    if shape_of.type != "Shape":
        raise NoRule("the axes it reduces over are unknown until it runs")
    operand = shape_of.inputs[0]
    if not wanted.by_value:
        wanted.assume(op, operand, axis.moved(axis.axis - op.inputs[0].shape.rank + operand.shape.rank))


@rule("Cumsum", "Cumprod", "CumulativeLogsumexp", "ReverseV2", "Roll")
def _along_constant_axes(op, axis, wanted):
    along, rank = static_value(op.inputs[-1]), op.inputs[0].shape.rank
    if along is None or rank is None or axis.axis in {int(index) % rank for index in along.reshape(-1)}:
        raise NoRule("it runs along the axis of the examples")
    return [axis] + [SHARED] * (len(op.inputs) - 1)


SPARSE_SEGMENTS = """
    SparseSegmentMean SparseSegmentMeanWithNumSegments SparseSegmentSqrtN SparseSegmentSqrtNWithNumSegments
    SparseSegmentSum SparseSegmentSumWithNumSegments
"""


@rule(*SPARSE_SEGMENTS.split())
def _sparse_segments(op, axis, wanted):
    """Rows that indices select are gathered into segments: those of a table belong to all examples."""
    if axis.axis == 0:
        if wanted.reaches(op.inputs[0]) and not _is_table(op.inputs[0], wanted):
            raise NoRule("it combines rows of one segment, along the axis of the examples")
        return [SHARED] * len(op.inputs)
    return [axis] + [SHARED] * (len(op.inputs) - 1)


def _is_table(tensor, wanted):
    """Whether `tensor` is made of weights alone, or holds some of their rows, as in `tf.nn.embedding_lookup_sparse`."""
    while tensor.op.type in ("GatherV2", "Identity", "ResourceGather"):
        tensor = tensor.op.inputs[0]
    return wanted.depends_on_no_data(tensor)


SEGMENTS = """
    SegmentMax SegmentMean SegmentMin SegmentProd SegmentSum UnsortedSegmentMax UnsortedSegmentMin UnsortedSegmentProd
    UnsortedSegmentSum
"""


@rule(*SEGMENTS.split())
def _segments(op, axis, wanted):
    """Rows, on the axes that the ids have, are gathered into segments; examples may run along an axis behind."""
    rank = op.inputs[1].shape.rank
    if rank is None or axis.axis == 0:
        raise NoRule("it combines rows of one segment, along the axis of the examples")
    return [axis.moved(axis.axis + rank - 1)] + [SHARED] * (len(op.inputs) - 1)
