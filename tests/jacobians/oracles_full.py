"""Full Jacobians one row at a time, eagerly. Imports nothing of tfjac."""

import numpy as np
import tensorflow as tf


def full_jacobian(function, xs):
    """Return [∂y/∂x for x in xs] as arrays `[*y.shape, *x.shape]`, by one `tape.gradient` per element of y."""
    with tf.GradientTape(persistent=True) as tape:
        tape.watch([x for x in xs if not isinstance(x, tf.Variable)])
        y = function()
        elements = tf.unstack(tf.reshape(y, [-1]))
    rows = [tape.gradient(element, xs, unconnected_gradients="zero") for element in elements]
    return [
        np.reshape([tf.convert_to_tensor(row[k]).numpy() for row in rows], (*y.shape, *x.shape))
        for k, x in enumerate(xs)
    ]


def assert_all_close(results, expected, tolerance):
    """Compare nests of tensors and arrays entry by entry, shapes included."""
    results, expected = tf.nest.flatten(results), tf.nest.flatten(expected)
    assert len(results) == len(expected)
    for result, wanted in zip(results, expected):
        assert tuple(result.shape) == np.shape(wanted)
        np.testing.assert_allclose(np.asarray(result), wanted, rtol=tolerance, atol=tolerance)
