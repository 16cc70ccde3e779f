"""Rules: well-known backward passes of ops, for the `rules` of `intercept`.

A rule is a function of an op, with its inputs and outputs at hand, and of the gradients with respect to its outputs,
that returns a gradient for each input, or None.
"""

import tensorflow as tf


def guided(op, gradient):
    """Pass what is positive where the input of an elementwise op, such as `Relu`, is positive: guided backpropagation.

    Reference: J. T. Springenberg et al., "Striving for simplicity: the all convolutional net", 2015.
    """
    return tf.where((op.inputs[0] > 0) & (gradient > 0), gradient, tf.zeros_like(gradient))


def deconvolution(op, gradient):
    """Pass what is positive, whatever the input: the deconvolution network of Zeiler and Fergus, 2014."""
    return tf.nn.relu(gradient)


def straight_through(op, *gradients):
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


def rescale(op, gradient):
    """Pass gradient · Δoutput / Δinput: the rescale rule of DeepLIFT, for elementwise ops.

    The batch must hold the examples, and behind them a reference for each: `tf.concat([x, reference], 0)`. With the
    gradient of the outputs of the examples, `gradient * (x - reference)` then adds up to the change of the output.
    Where the inputs are as good as equal, TensorFlow's own gradient is passed.

    Reference: A. Shrikumar, P. Greenside, A. Kundaje, "Learning important features through propagating activation
    differences", 2017.
    """
    change_in, change_out = (_difference(tensor) for tensor in (op.inputs[0], op.outputs[0]))
    small = tf.abs(change_in) < 1e-6
    slope = change_out / tf.where(small, tf.ones_like(change_in), change_in)
    with tf.GradientTape() as tape:
        tape.watch(op.inputs[0])
        again = getattr(tf.raw_ops, op.type)(**_arguments(op))
    own = tape.gradient(again, op.inputs[0], gradient)
    return tf.where(tf.tile(small, _twice(small)), own, gradient * tf.tile(slope, _twice(slope)))


def _difference(tensor):
    examples, references = tf.split(tensor, 2)
    return examples - references


def _twice(tensor):
    return [2] + [1] * (tensor.shape.rank - 1)


def _arguments(op):
    """The arguments of an op of one input by name."""
    return {op.op_def.input_arg[0].name: op.inputs[0]} | {
        attribute.name: op.get_attr(attribute.name) for attribute in op.op_def.attr if attribute.name != "T"
    }
