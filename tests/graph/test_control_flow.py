"""Loops and conditionals read from a graph: numbers of steps, and the axes of what happens inside."""

import numpy as np
import pytest
import tensorflow as tf

from tfjac.graph import SHARED, ExampleAxis, analyse_examples, static_trip_count
from tfjac.graph.copying.bodies import bodies_of

LOOPS = {
    "to a constant": (lambda x: tf.while_loop(lambda t, h: t < 5, lambda t, h: (t + 1, h + 1), (0, x)), 5),
    "in strides": (lambda x: tf.while_loop(lambda t, h: t <= 9, lambda t, h: (t + 2, h + 1), (1, x)), 5),
    "downwards": (lambda x: tf.while_loop(lambda t, h: t > 0, lambda t, h: (t - 3, h + 1), (7, x)), 3),
    "at most": (
        lambda x: tf.while_loop(lambda t, h: t < 5, lambda t, h: (t + 1, h + 1), (0, x), maximum_iterations=2),
        2,
    ),
    "never": (lambda x: tf.while_loop(lambda t, h: t < 0, lambda t, h: (t + 1, h + 1), (0, x)), 0),
    "by values": (
        lambda x: tf.while_loop(lambda t, h: tf.reduce_sum(h) < 5, lambda t, h: (t + 1, h + 1), (0, x)),
        None,
    ),
    "by a size": (lambda x: tf.while_loop(lambda t, h: t < tf.shape(x)[0], lambda t, h: (t + 1, h + 1), (0, x)), None),
}


def in_graph_of(function, *specs):
    """Call `function` while a graph is traced, on placeholders, and return what it returns."""
    found = []
    tf.function(lambda *x: found.append(function(*x)), autograph=False).get_concrete_function(*specs)
    return found[0]


@pytest.mark.parametrize("name", LOOPS)
def test_static_trip_count(name):
    loop, steps = LOOPS[name]

    def count(x):
        op = loop(x)[1].op
        op = op.inputs[0].op if op.type == "Identity" else op
        (body,), (condition,) = bodies_of(op, "body"), bodies_of(op, "cond")
        return static_trip_count(op, body, condition)

    assert in_graph_of(count, tf.TensorSpec([None])) == steps
    if steps is not None:
        assert loop(tf.constant([0.0]))[1].numpy() == np.float32(steps)


def test_axes_inside_a_loop():
    """Examples along axis 1 of the state and of the elements of the list; the weight is shared."""

    def analyse(x, w):
        def step(t, h, array):
            h = tf.tanh(tf.matmul(w, h))
            return t + 1, h, array.write(t, h)

        array = tf.TensorArray(x.dtype, 3)
        array = tf.while_loop(lambda t, *_: t < 3, step, (0, tf.transpose(x), array))[2]
        y = tf.transpose(array.stack(), [2, 0, 1])
        analysis = analyse_examples([w, x], [y])
        (inside,) = analysis.insides.values()
        return analysis.axis(x), analysis.axis(w), set(inside.state.values()), inside.invariant.values()

    of_x, of_w, states, invariant = in_graph_of(analyse, tf.TensorSpec([None, 2]), tf.TensorSpec([2, 2]))
    assert of_x == ExampleAxis(0)
    assert of_w is SHARED
    assert states == {ExampleAxis(1)}
    assert list(invariant) == [SHARED]
