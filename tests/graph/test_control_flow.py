"""Loops and conditionals read from a graph: numbers of steps, and the axes of what happens inside."""

import numpy as np
import pytest
import tensorflow as tf

from tfjac.graph import SHARED, ExampleAxis, Packing, analyse_examples, static_trip_count, while_loop
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


def test_scalars_of_a_loop_travel_as_one_tensor():
    """What is of one dtype; a vector, and what is alone in its dtype, as they are. The oracle is Python."""
    start = (tf.constant(0), (tf.constant(1.0), tf.constant(2.0)), tf.constant([1.0, 2.0]), tf.constant(False))

    def body(count, pair, vector, flag):
        return count + 1, (pair[1], pair[0] + pair[1]), vector * pair[1], ~flag

    @tf.function(autograph=False)
    def run():
        return while_loop(lambda count, *_: count < 5, body, start, small=True)

    found = tf.nest.map_structure(lambda each: each.numpy().tolist(), run())
    assert found == (5, (13.0, 21.0), [3120.0, 6240.0], True)
    loops = [op for op in run.get_concrete_function().graph.get_operations() if op.type in ("While", "StatelessWhile")]
    shapes = sorted(str(each.shape) for loop in loops for each in loop.outputs)
    assert shapes.count("(2,)") == 2, shapes


def test_what_is_packed_comes_back_in_its_place():
    nest = {
        "a": tf.constant([1.0, 2.0]),
        "b": (tf.constant([3, 4]), tf.constant([[5.0]])),
        "c": tf.constant([6.0, 7.0]),
    }
    packing = Packing(nest, rank=1)
    packed = packing.pack(nest)
    assert [each.shape.as_list() for each in packed] == [[2, 2], [2], [1, 1]]
    back = packing.unpack([tf.gather(packed[0], [1, 0]), *packed[1:]])
    assert (back["a"].numpy().tolist(), back["c"].numpy().tolist()) == ([2.0, 1.0], [7.0, 6.0])
    assert back["b"][0].numpy().tolist() == [3, 4] and back["b"][1].numpy().tolist() == [[5.0]]
