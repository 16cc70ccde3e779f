"""Rules: backward passes of the user's in place of those of TensorFlow's ops."""

import itertools

import tensorflow as tf

from tfjac.graph import after_effects, call_converted, forget_with, keep_with, set_gradient

_numbers = itertools.count()


class Rule:
    """A rule under the name by which TensorFlow knows it, which lives as long as the graphs in which it is used."""

    def __init__(self, function):
        """Register a function `(op, *output_gradients) -> input gradients`.

        Raises:
            TypeError: where it is not callable.
        """
        if not callable(function):
            raise TypeError(
                "A rule must be a function of an op and the gradients with respect to its outputs. "
                f"Received: {function!r} of type {type(function).__name__}"
            )
        self._function, self.name = function, f"TfjacRule{next(_numbers)}"
        self._gradient = self._gradients  # one object, which can be referred to weakly
        tf.RegisterGradient(self.name)(self._gradient)
        forget_with(self._gradient, self.name)

    def replace_gradient(self, op):
        """Have gradients through `op` taken by the rule."""
        set_gradient(op, self.name)
        keep_with(op.graph, self._gradient)

    def _gradients(self, op, *output_gradients):
        return after_effects(lambda: self._called(op, output_gradients))

    def _called(self, op, output_gradients):
        given = call_converted(self._function, op, *output_gradients)
        gradients = list(given) if isinstance(given, (list, tuple)) else [given]
        if len(gradients) != len(op.inputs):
            raise ValueError(
                f"A rule must return a gradient, or None, for each input of the op: {len(op.inputs)} for "
                f"{op.name!r} of type {op.type}. Received: {len(gradients)}"
            )
        return [_checked(gradient, tensor, op) for gradient, tensor in zip(gradients, op.inputs)]


def _checked(gradient, tensor, op):
    if gradient is None:
        return None
    if not isinstance(gradient, tf.IndexedSlices):
        gradient = tf.convert_to_tensor(gradient)
    if gradient.dtype != tensor.dtype or not gradient.shape.is_compatible_with(tensor.shape):
        raise ValueError(
            f"A rule must return gradients like the inputs of the op: {tensor.shape}, {tensor.dtype.name} for "
            f"{tensor.name!r} of {op.name!r} of type {op.type}. Received: {gradient.shape}, {gradient.dtype.name}"
        )
    return gradient
