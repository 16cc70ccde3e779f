"""Whole layers in one op: normalisation over batches and classes, the losses that go with it, a block of LSTMs."""

import tensorflow as tf

from tfjac.graph.examples.example_rules import Axis, ExampleAxis, NoRule, Wanted, aligned, known_shape
from tfjac.graph.examples.index_maps import AxisLabels, ShapeOf, ValueOf, example_axes, in_order
from tfjac.graph.facts import declare
from tfjac.graph.gradients.mending import differentiated_as, refused
from tfjac.graph.op_facts.convolution import first_axis, same_rows
from tfjac.graph.reading.symbolic_sizes import Given, Sizes, SymbolicSizes, of_first
from tfjac.types import Tensor


def _batch_norm(op: tf.Operation, axis: ExampleAxis, wanted: Wanted) -> list[Axis]:
    if op.get_attr("is_training"):
        raise NoRule("batch normalisation in training mode takes its mean and variance over the batch")
    return first_axis(0)(op, axis, wanted)


def _first_at_inference(op: tf.Operation) -> tuple[int, ...]:
    return () if op.get_attr("is_training") else (0,)


def _softmax(op: tf.Operation, shape: ShapeOf, value_of: ValueOf) -> AxisLabels:
    """All along the last axis depends on all of it."""
    batch = in_order(len(shape(0)) - 1)
    return [[*batch, "given"]], [*batch, "made"]


def _cross_entropy(op: tf.Operation, axis: ExampleAxis, wanted: Wanted) -> list[Axis]:
    """Losses [n] and gradients [n, classes] of logits [n, classes]; one row of logits or labels may serve all."""
    if axis.axis != 0:
        raise NoRule("it normalises over the axis of the examples")
    if op.type.startswith("Sparse"):
        return [axis, axis]
    return aligned(op, axis, op.inputs, known_shape(wanted, op.outputs[1]), wanted)


def _sizes_of_cross_entropy(known: SymbolicSizes, output: Tensor, given: Given) -> Sizes:
    """One loss for each row of labels, which may have come from elsewhere; a gradient as the logits."""
    logits, labels = given
    return logits if output.value_index else labels and labels[:1]


def _softmax_cross_entropy(op: tf.Operation, logits: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """TensorFlow takes labels that add up to one for granted, and loses them from second derivatives."""
    logarithms = tf.nn.log_softmax(logits)
    loss = -tf.reduce_sum(tf.math.multiply_no_nan(logarithms, labels), -1)
    return loss, tf.nn.softmax(logits) * tf.reduce_sum(labels, -1, keepdims=True) - labels


declare("FusedBatchNorm FusedBatchNormV2 FusedBatchNormV3", example_axis=_batch_norm)
declare("FusedBatchNorm FusedBatchNormV2 FusedBatchNormV3", affine=_first_at_inference, maps="kept")
declare("FusedBatchNormV3", sizes=same_rows)
declare("Softmax LogSoftmax", vanishes="never", labels=_softmax, example_axis=example_axes, sizes=of_first)
declare("SoftmaxCrossEntropyWithLogits SparseSoftmaxCrossEntropyWithLogits", example_axis=_cross_entropy)
declare("SoftmaxCrossEntropyWithLogits SparseSoftmaxCrossEntropyWithLogits", sizes=_sizes_of_cross_entropy)
declare("SoftmaxCrossEntropyWithLogits", gradient=differentiated_as(_softmax_cross_entropy))
declare("LRN", example_axis=first_axis(0))
declare("LRNGrad", example_axis=first_axis(0, 1, 2))
declare("BlockLSTMV2", gradient=refused("it takes the gates to be in another order"))
