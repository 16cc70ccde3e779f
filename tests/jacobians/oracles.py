"""Jacobians the slow and sure way: one backward pass per row, each example by itself. Imports nothing of tfjac."""

import numpy as np
import tensorflow as tf


def rows_one_at_a_time(model, inputs, variables):
    """Return for each variable its per-example Jacobian as an array `[n, m, *variable.shape]`.

    Each example goes through the model in a batch of its own, and each output has its own call of `tape.gradient`.
    """
    inputs = inputs if isinstance(inputs, (list, tuple)) else [inputs]

    @tf.function(autograph=False)  # a model may need a graph
    def row(k, *x):
        with tf.GradientTape() as tape:
            outputs = tf.reshape(model(list(x) if len(x) > 1 else x[0]), [-1])
            output = outputs[k]
        gradients = tape.gradient(output, variables, unconnected_gradients="zero")
        return tf.size(outputs), [tf.convert_to_tensor(gradient) for gradient in gradients]

    def rows(*x):
        count, first = row(tf.constant(0), *x)
        return [first, *(row(tf.constant(k), *x)[1] for k in range(1, int(count)))]

    per_example = [rows(*(x[n : n + 1] for x in inputs)) for n in range(len(inputs[0]))]
    return [np.stack([[row[k].numpy() for row in rows] for rows in per_example]) for k in range(len(variables))]


def one_gradient_per_row(function, sources):
    """Return for each tensor or variable the rows of the full Jacobian of `function()`, as a tensor `[rows, elements]`.

    Each element of the result has its own call of `tape.gradient`.
    """
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(sources)
        elements = tf.unstack(tf.reshape(function(), [-1]))
    rows = [tape.gradient(element, sources, unconnected_gradients="zero") for element in elements]
    return [tf.stack([tf.reshape(row[k], [-1]) for row in rows]) for k in range(len(sources))]
