"""Functions of numbers whose gradient in TensorFlow is wrong, in some argument or for complex ones, or missing."""

import tensorflow as tf

from tfjac.graph.gradients.registry import differentiated_as, gradient, refused


def _is_complex(op, ops):
    return op.outputs[0].dtype.is_complex


@differentiated_as("SquaredDifference", when=_is_complex)
def _squared_difference(op, x, y):
    """|x − y|²; TensorFlow forgets the conjugates."""
    return tf.math.conj(x - y) * (x - y)


@differentiated_as("Xdivy", when=_is_complex)
def _xdivy(op, x, y):
    return tf.math.divide_no_nan(x, y)


@differentiated_as("Xlogy", when=_is_complex)
def _xlogy(op, x, y):
    safe = tf.where(tf.equal(x, 0), tf.ones_like(y), y)
    return x * tf.math.log(safe)


@gradient("PadV2")
def _pad(op, cotangent):
    """With what pads, too: TensorFlow says that nothing depends on it."""
    x, paddings, _ = op.inputs
    inner = tf.slice(cotangent, paddings[:, 0], tf.shape(x, paddings.dtype))
    return inner, None, tf.reduce_sum(cotangent) - tf.reduce_sum(inner)


@differentiated_as("SoftmaxCrossEntropyWithLogits")
def _softmax_cross_entropy(op, logits, labels):
    """TensorFlow takes labels that add up to one for granted, and loses them from second derivatives."""
    logarithms = tf.nn.log_softmax(logits)
    loss = -tf.reduce_sum(tf.math.multiply_no_nan(logarithms, labels), -1)
    return loss, tf.nn.softmax(logits) * tf.reduce_sum(labels, -1, keepdims=True) - labels


@differentiated_as("SoftsignGrad")
def _softsign(op, cotangent, x):
    return cotangent / tf.square(1 + tf.abs(x))


_ZERO = "it is zero with respect to this argument, which is not implemented"
refused("Zeta", _ZERO, inputs=[0])
refused("Polygamma", _ZERO, inputs=[0])
refused("Betainc", _ZERO, inputs=[0, 1])
refused("ImageProjectiveTransformV2", "it interpolates with the inverse transform, which is no transpose", inputs=[0])
refused("ImageProjectiveTransformV3", "it interpolates with the inverse transform, which is no transpose", inputs=[0])
refused("BlockLSTMV2", "it takes the gates to be in another order")
refused("SparseConcat", "it is declared to have none, so that nothing depends on the values")
refused("HSVToRGB", "it is declared to have none, so that nothing depends on the image")
