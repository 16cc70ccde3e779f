"""`tf.py_function`: an op that calls Python, and whose gradient calls Python again."""

import tensorflow as tf

from tfjac.graph import _private
from tfjac.graph.gradients.registry import gradient


@gradient("EagerPyFunc")
def _python_function(op, *cotangents):
    """The gradient by running the function once more under a tape.

    TensorFlow keeps the tape of the run forwards, for a single backward pass, and second derivatives see nothing of
    what the function was given. As wherever such an op is copied, its function is taken to be a pure one.
    """
    function, count = _private.python_function(op), len(op.inputs)
    given = [(k, cotangent) for k, cotangent in enumerate(cotangents) if cotangent is not None]

    def backward(*tensors):
        inputs, arriving = tensors[:count], tensors[count:]
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            outputs = tf.nest.flatten(function(*inputs))
        ends = [tf.convert_to_tensor(outputs[k]) for k, _ in given]
        return [
            tf.zeros_like(tensor) if found is None else tf.convert_to_tensor(found)
            for tensor, found in zip(inputs, tape.gradient(ends, inputs, output_gradients=list(arriving)))
        ]

    dtypes = [tensor.dtype for tensor in op.inputs]
    found = tf.py_function(backward, [*op.inputs, *(cotangent for _, cotangent in given)], dtypes)
    for gradient_of_input, tensor in zip(found, op.inputs):
        gradient_of_input.set_shape(tensor.shape)
    return [
        each if tensor.dtype.is_floating or tensor.dtype.is_complex else None for each, tensor in zip(found, op.inputs)
    ]
