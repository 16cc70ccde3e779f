"""Rules: well-known backward passes of ops, for the `rules` of `intercept`.

A rule is a function of an op, with its inputs and outputs at hand, and of the gradients with respect to its outputs,
that returns a gradient for each input, or None.
"""

import tensorflow as tf

from tfjac.interception.deep_lift import rescale
from tfjac.types import Tensor

__all__ = ["deconvolution", "guided", "rescale", "straight_through"]


def guided(op: tf.Operation, gradient: Tensor) -> Tensor:
    """Pass what is positive where the input of an elementwise op, such as `Relu`, is positive: guided backpropagation.

    Reference: J. T. Springenberg et al., "Striving for simplicity: the all convolutional net", 2015.
    """
    return tf.where((op.inputs[0] > 0) & (gradient > 0), gradient, tf.zeros_like(gradient))


def deconvolution(op: tf.Operation, gradient: Tensor) -> Tensor:
    """Pass what is positive, whatever the input: the deconvolution network of Zeiler and Fergus, 2014."""
    return tf.nn.relu(gradient)


def straight_through(op: tf.Operation, *gradients: Tensor) -> list[Tensor | None]:
    """Pass the gradient to the first input as if the op, such as `Round` or `Sign`, were an identity.

    Raises:
        ValueError: where the first input is not like the output, so that there is no such gradient.
    """
    (gradient, *_), source = gradients, op.inputs[0]
    if source.dtype != gradient.dtype or not source.shape.is_compatible_with(gradient.shape):
        raise ValueError(
            "A gradient passes straight through an op whose result is like its first input: for others, such as "
            "ArgMax, use tfjac.handlers.straight_through(function) at the node before. "
            f"Received: op {op.name!r} of type {op.type}, from {source.shape}, {source.dtype.name} to "
            f"{gradient.shape}, {gradient.dtype.name}"
        )
    return [gradient, *(None for _ in op.inputs[1:])]
