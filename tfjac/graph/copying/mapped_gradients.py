"""Custom gradients inside of functions that `tf.vectorized_map` maps: its vectoriser leaves them out without a word."""

import tensorflow as tf

from tfjac.graph import _private
from tfjac.graph.copying.transplanting import place_all
from tfjac.graph.gradients import custom_gradients
from tfjac.graph.gradients.vectorising import vectorised_map
from tfjac.graph.reading.traversal import ancestors
from tfjac.ops._library import register_gradient
from tfjac.types import Tensor


@register_gradient(custom_gradients.MAPPED)
def _mapped_gradient(op: tf.Operation, *cotangents: Tensor | None) -> list[Tensor | None]:
    """The backward of a custom gradient in a function that `tf.vectorized_map` maps, for all slices at once."""
    original = _private.mapped_from(op)
    assert original is not None  # only such ops are given this gradient
    if custom_gradients.reason_untraced(original) is not None:
        raise LookupError(
            "A custom gradient inside of tf.vectorized_map cannot be traced: write it so that its backward is made of "
            f"TensorFlow's ops. Received: op {original.name!r}, {custom_gradients.reason_untraced(original)}"
        )
    backward = custom_gradients.backward_of(original)
    is_stacked = [own is not inner for own, inner in zip(op.inputs, original.inputs)]
    given = [
        (placeholder, tf.zeros_like(output) if cotangent is None else cotangent, stacked)
        for placeholder, cotangent, output, stacked in zip(backward.cotangents, cotangents, op.outputs, is_stacked)
        if placeholder is not None
    ]
    given += [(inner, *_of_all_slices(op, original, outer)) for outer, inner in backward.captures]
    whole = [(inner, tensor) for inner, tensor, stacked in given if not stacked]

    def of_slice(*slices: Tensor) -> list[Tensor]:
        inner = [placeholder for placeholder, _, stacked in given if stacked]
        mapping = place_all(backward.graph, backward.targets, [*whole, *zip(inner, slices)])
        return [mapping[gradient.ref()] for gradient in backward.targets]

    found = iter(vectorised_map(of_slice, [tensor for _, tensor, stacked in given if stacked]))
    gradients = [None if gradient is None else next(found) for gradient in backward.gradients]
    return [
        gradient if gradient is None or stacked else tf.reduce_sum(gradient, 0)
        for gradient, stacked in zip(gradients, is_stacked)
    ]


def _of_all_slices(op: tf.Operation, original: tf.Operation, tensor: Tensor) -> tuple[Tensor, bool]:
    """Return what a tensor that a mapped backward reads is for all slices, and whether that is a stack of slices.

    Raises:
        LookupError: for one that is another for each slice, and that the custom gradient is not of.
    """
    for own, inner in zip(op.inputs, original.inputs):
        if inner is tensor:
            return own, own is not inner
    of_slices = [each for each in ancestors([tensor]) if _numbers_slices(each)]
    if tensor.graph is op.graph and of_slices:
        raise LookupError(
            "A custom gradient inside of tf.vectorized_map reads a tensor that is another for each slice, and that is "
            "neither an argument nor a result of it: pass it as an argument. "
            f"Received: tensor {tensor.name!r}, read by op {original.name!r} of type {original.type}"
        )
    return tensor, False


def _numbers_slices(op: tf.Operation) -> bool:
    """Whether `op` stands for the number of the slice in a function that is mapped."""
    return op.type == "PlaceholderWithDefault" and op.outputs[0].dtype.is_integer and op.outputs[0].shape.rank == 0
