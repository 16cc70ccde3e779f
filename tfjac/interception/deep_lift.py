"""The rescale rule of DeepLIFT: differences from a reference in place of derivatives, op by op."""

import inspect
from typing import Any

import tensorflow as tf

from tfjac.graph import resolution_of
from tfjac.types import Tensor

PRODUCTS = ("Mul", "BatchMatMulV2", "Einsum", "SquaredDifference")
LARGEST = ("Max", "MaxPool", "MaxPool3D")


def rescale(op: tf.Operation, *gradients: Tensor) -> Any:
    """Pass on what the change of the output from that of a reference owes to the change of each input, per change.

    The batch must hold the examples, and behind them a reference for each: `tf.concat([x, reference], 0)`. With the
    gradient of outputs of the examples, `gradient * (x - reference)` then adds up, over each example, to the change of
    its output, provided that all nonlinear ops on the way have this rule, and no op mixes examples. For

    - ops of one input and an output like it, such as `Relu`, `Sigmoid` or `Softmax`: gradient · Δoutput / Δinput, or
      TensorFlow's own gradient where the inputs differ by no more than rounding;
    - `MaxPool`, `MaxPool3D` and `Max`: the largest of the example gains what exceeds the largest of the reference, or
      else this one loses it;
    - products of two tensors, `Mul`, `BatchMatMulV2`, `Einsum` and `SquaredDifference`, such as the gates of an LSTM
      and attention: TensorFlow's gradient halfway, at the mean of example and reference. A factor is one of examples
      where its rank and its first size are those of the product.

    Raises:
        ValueError: for other ops, and for a number of rows that is odd.

    References: A. Shrikumar, P. Greenside, A. Kundaje, "Learning important features through propagating activation
    differences", 2017; for pooling and products S. Lundberg, S.-I. Lee, "A unified approach to interpreting model
    predictions", 2017.
    """
    (gradient, *_), (source, *others), (output, *_) = gradients, op.inputs, op.outputs
    if not output.shape.rank or (output.shape[0] or 0) % 2:
        raise ValueError(
            "The rescale rule needs a batch of examples with a reference for each behind them, tf.concat([x, "
            f"reference], 0). Received: op {op.name!r} of type {op.type} with an output of shape {output.shape}"
        )
    if op.type in PRODUCTS:
        return own_gradients(op, [_halfway(x) if _of_examples(x, output) else x for x in op.inputs], gradient)
    if op.type in LARGEST:
        return [_of_largest(op, gradient), *(None for _ in others)]
    if not others and source.shape.is_compatible_with(output.shape):
        return of_elementwise(op, gradient)
    raise ValueError(
        "The rescale rule is for ops of one input and an output like it, and for "
        f"{', '.join(PRODUCTS + LARGEST)}; linear ops need none. Received: op {op.name!r} of type {op.type}"
    )


def of_elementwise(op, gradient, index=0):
    """Return what is passed on to the input `index`, of the shape of the output, if the others are constants."""
    source, (output,) = op.inputs[index], op.outputs
    own = own_gradients(op, op.inputs, gradient)[index]
    same, divisor = beyond_rounding(_change(source), source)
    return tf.where(same, own, gradient * (_change(output) / divisor))


def beyond_rounding(change, value):
    """Return where the change of a value is no more than rounding, and the change as a divisor, ones there."""
    same = tf.abs(change) <= 16 * resolution_of(value.dtype) * (1 + tf.abs(value))
    return same, tf.where(same, tf.ones_like(change), change)


def _of_largest(op, gradient):
    (example, reference), (upstream, _) = _halves(op.outputs[0]), _halves(gradient)
    larger = tf.maximum(example, reference)
    routed = tf.concat([upstream * (larger - reference), upstream * (example - larger)], 0)
    gained, lost = _halves(own_gradients(op, op.inputs, routed)[0])
    source, source_of_reference = _halves(op.inputs[0])
    multipliers = tf.math.divide_no_nan(gained + lost, source - source_of_reference)
    return tf.concat([multipliers, tf.zeros_like(multipliers)], 0)


def own_gradients(op, inputs, gradient):
    """Return TensorFlow's gradients of an op like this one, without its rule, at other inputs."""
    inputs = [tf.identity(x) for x in inputs]  # of this graph, where a loop's own are of another
    with tf.GradientTape() as tape:
        tape.watch([x for x in inputs if x.dtype.is_floating])
        output = op_like(op, inputs)
    return tape.gradient(output, inputs, gradient)


def op_like(op, inputs):
    """Return the result of an op like this one, without its rule, of other inputs."""
    if op.type == "Einsum":  # whose inputs are one argument
        return tf.raw_ops.Einsum(inputs=list(inputs), equation=op.get_attr("equation"))
    function, definition = getattr(tf.raw_ops, op.type), op.op_def
    known = {argument.type_attr for argument in definition.input_arg}  # by the inputs
    options = {each.name: op.get_attr(each.name) for each in definition.attr if each.name not in known}
    return function(**dict(zip(inspect.signature(function).parameters, inputs)), **options)


def _of_examples(factor, product):
    return factor.shape.rank == product.shape.rank and factor.shape[0] == product.shape[0]


def _halves(x):
    return tf.split(x, 2)


def _change(x):
    """Example less reference, for both."""
    example, reference = _halves(x)
    return tf.concat([example - reference] * 2, 0)


def _halfway(x):
    """The mean of example and reference, for both."""
    return tf.concat([tf.add(*_halves(x)) / 2] * 2, 0)
