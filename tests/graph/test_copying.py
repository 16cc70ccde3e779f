"""Replay and inlining: the same values as running the program again by hand."""

import gc
import weakref

import keras
import numpy as np
import pytest
import tensorflow as tf

from tfjac.graph import ancestors, between, captured_tensor, forgotten_with_graphs, inline_calls, replay, source_in
from tfjac.graph.nodes.tracing import trace


@pytest.fixture
def weight(rng):
    return tf.Variable(rng.normal(size=(3, 2)), dtype=tf.float64)


@pytest.fixture
def data(rng):
    return tf.constant(rng.normal(size=(4, 3)))


def expected(x, w):
    return np.tanh(np.asarray(x) @ np.asarray(w))


@pytest.mark.core
def test_ancestors_are_in_topological_order(data, weight):
    @tf.function
    def trace(x):
        y = tf.tanh(tf.matmul(x, weight)) + tf.reduce_sum(x)
        ops = ancestors([y])
        position = {op.name: k for k, op in enumerate(ops)}
        assert all(position[tensor.op.name] < position[op.name] for op in ops for tensor in op.inputs)
        assert ops[-1] is y.op and len(position) == len(ops)
        assert sorted(op.type for op in between([x], [y])) == ["AddV2", "MatMul", "Sum", "Tanh"]
        return y

    trace(data)


@pytest.mark.core
@pytest.mark.parametrize("jit_compile", [False, True])
def test_replay_with_other_values(data, weight, jit_compile):
    @tf.function(jit_compile=jit_compile)
    def program(x):
        y = tf.tanh(tf.matmul(x, weight))
        (z,) = replay([y], substitutions=[(x, 2.0 * x)])
        return y, z

    y, z = program(data)
    np.testing.assert_allclose(y, expected(data, weight))
    np.testing.assert_allclose(z, expected(2.0 * data, weight))


@pytest.mark.core
@pytest.mark.parametrize("jit_compile", [False, True])
def test_replay_reads_variables_at_its_place_in_the_program(data, weight, jit_compile):
    start = weight.numpy()

    @tf.function(jit_compile=jit_compile)
    def program(x):
        y = tf.tanh(tf.matmul(x, weight))
        weight.assign(2.0 * weight)
        (doubled,) = replay([y], reread=[weight])
        weight.assign(0.5 * weight)
        (restored,) = replay([y], reread=[weight])
        return y, doubled, restored

    y, doubled, restored = program(data)
    np.testing.assert_allclose(y, expected(data, start))
    np.testing.assert_allclose(doubled, expected(data, 2.0 * start))
    np.testing.assert_array_equal(restored, y)


@pytest.mark.parametrize("jit_compile", [False, True])
def test_replay_inside_a_loop_follows_its_assignments(data, weight, jit_compile):
    start = weight.numpy()

    @tf.function(jit_compile=jit_compile)
    def program(x):
        y = tf.tanh(tf.matmul(x, weight))

        def body(k, total):
            weight.assign(2.0 * weight)
            return k + 1, total + replay([y], reread=[weight])[0]

        return tf.while_loop(lambda k, _: k < 3, body, (0, tf.zeros_like(y)), maximum_iterations=3)[1]

    total = program(data)
    np.testing.assert_allclose(total, sum(expected(data, start * k) for k in (2, 4, 8)))


def test_replay_copies_only_what_depends_on_the_change(data, weight):
    @tf.function
    def trace(x):
        y = tf.tanh(tf.matmul(x, weight)) + tf.exp(tf.reduce_sum(x))
        before = len(tf.compat.v1.get_default_graph().get_operations())
        (same,) = replay([x * 3.0], reread=[weight])
        assert same.op.type == "Mul"
        replay([y], reread=[weight])
        added = tf.compat.v1.get_default_graph().get_operations()[before:]
        assert [op.type for op in added if op.type not in ("Const", "Mul")] == [
            "ReadVariableOp",
            "MatMul",
            "Tanh",
            "AddV2",
        ]
        return y

    trace(data)


def test_replay_of_a_recurrent_layer(rng):
    layer = keras.layers.LSTM(3, return_sequences=True)
    x = tf.constant(rng.normal(size=(2, 4, 3)), tf.float32)
    layer.build(x.shape)

    @tf.function
    def program(x):
        y = layer(x)
        for v in layer.weights:
            v.assign(2.0 * v)
        return (*replay([y], reread=layer.weights), layer(x))

    replayed, again = program(x)
    np.testing.assert_array_equal(replayed, again)


@pytest.mark.core
def test_inlining_nested_functions_and_their_gradients(data, weight):
    @tf.function
    def inner(x):
        return tf.tanh(tf.matmul(x, weight))

    @tf.function
    def outer(x):
        return inner(x) + inner(2.0 * x)

    @tf.function
    def program(x):
        y = outer(x)
        (inlined,) = inline_calls([y])
        assert not any("PartitionedCall" in op.type for op in ancestors([inlined]))
        return y, inlined, tf.gradients(y, x)[0], tf.gradients(inlined, x)[0]

    y, inlined, gradient, gradient_of_inlined = program(data)
    np.testing.assert_allclose(inlined, y)
    np.testing.assert_allclose(gradient_of_inlined, gradient)


@pytest.mark.parametrize("everything", [False, True])
def test_inlining_of_calls_with_ops_between_them(data, everything):
    inner = tf.function(lambda x: tf.tanh(x) + 1.0)

    @tf.function
    def program(x):
        y = inner(2.0 * inner(x))
        (inlined,) = inline_calls([y], depends_on=None if everything else [x])
        assert not any("PartitionedCall" in op.type for op in ancestors([inlined]))
        return y, inlined

    y, inlined = program(data)
    np.testing.assert_allclose(inlined, y)
    np.testing.assert_allclose(inlined, np.tanh(2 * np.tanh(data) + 2) + 1)


@pytest.mark.core
def test_inlining_keeps_side_effects_single(data):
    counter = tf.Variable(0)

    @tf.function
    def inner(x):
        counter.assign_add(1)
        return tf.tanh(x)

    @tf.function
    def program(x):
        return inline_calls([inner(x)])[0]

    program(data)
    assert counter.numpy() == 1


def test_inlining_leaves_alone_what_does_not_depend(data):
    @tf.function
    def inner(x):
        return tf.tanh(x)

    @tf.function
    def trace(x, z):
        y = inner(x) * z
        (same,) = inline_calls([y], depends_on=[z])
        assert same is y
        return y

    trace(data, data)


def test_a_call_whose_variable_is_assigned_afterwards_is_refused(data, weight):
    """The copy of its body would read the new value: a Jacobian at another point than that of ys."""

    @tf.function
    def inner(x):
        return tf.tanh(tf.matmul(x, weight))

    @tf.function
    def program(x):
        y = inner(x)
        weight.assign(2.0 * weight)
        with pytest.raises(ValueError, match=r"assigned after it.*before the assignment.*Received"):
            inline_calls([y])
        return y

    program(data)


MASK = np.array([True, False, True, True, False])


@pytest.mark.parametrize(
    "read",
    [
        lambda x: tf.boolean_mask(x, MASK),
        lambda x: tf.boolean_mask(x, tf.constant(MASK)),
        lambda x: tf.gather_nd(x, tf.where(MASK)),
        lambda x: tf.repeat(x, MASK.astype(np.int32)),
        lambda x: tf.gather(x, tf.unique([0, 2, 0, 3])[0]),
        tf.function(lambda x: tf.boolean_mask(x, MASK)),
    ],
)
def test_places_that_constants_fix_have_a_size(read):
    with tf.init_scope():
        x = tf.Variable([1.0, 2.0, 3.0, 4.0, 5.0])

    @tf.function
    def run():
        graph = tf.compat.v1.get_default_graph()
        (inlined,) = inline_calls([read(x)], [source_in(graph, x)])
        assert inlined.shape == [3]
        return inlined, tf.gradients(inlined, x)[0]

    value, gradient = run()
    np.testing.assert_array_equal(value, [1.0, 3.0, 4.0])
    np.testing.assert_array_equal(tf.convert_to_tensor(gradient), MASK)


def test_places_that_a_source_decides_stay_open():
    x, y = tf.constant([1.0, 2.0, 3.0]), tf.Variable([4.0, 5.0, 6.0])

    @tf.function
    def run():
        masked = tf.boolean_mask(y * x, x > 1.0)
        sources = [captured_tensor(masked.graph, x), source_in(masked.graph, y)]
        return inline_calls([masked], sources)[0].shape.as_list()

    assert run() == [None]


class Square:
    """A Python function of which one can see whether it is still there."""

    def __call__(self, array):
        return array**2


def copied_from_a_trace():
    """A function that has a Python function from another, which is gone, there also in a branch; and where that is."""
    function, x = Square(), tf.constant(3.0)

    def called():
        return forgotten_with_graphs(tf.numpy_function(function, [x], tf.float32, stateful=False))

    def traced():
        return called() + tf.cond(x > 1.0, called, lambda: x)

    return tf.function(trace(traced).place, autograph=False).get_concrete_function(), weakref.ref(function)


@pytest.mark.usefixtures("others_frozen")
def test_python_is_forgotten_with_the_last_graph_that_calls_it():
    copy, there = copied_from_a_trace()
    gc.collect()
    assert copy() == 18.0
    del copy
    gc.collect()
    assert there() is None
