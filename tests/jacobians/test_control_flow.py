"""Users' own loops and conditionals, against one tape.gradient per row."""

import numpy as np
import pytest
import tensorflow as tf

import tfjac
from tests.jacobians.oracles import rows_one_at_a_time
from tests.jacobians.test_layers import assert_equals_oracle, jacobian_and_way
from tests.jacobians.test_recurrent import N, T, assert_by_rule


class Function:
    """A function of an input and weights as a model; `variables` start from the values given."""

    def __init__(self, function, *values):
        self.function = function
        self.variables = [tf.Variable(value) for value in values]
        for k, variable in enumerate(self.variables):
            variable.path = f"variable {k}"

    def __call__(self, x):
        return self.function(x, *self.variables)


def array_written(x, u, w, b):
    """A TensorArray written step by step, from inputs that weights made."""
    x = tf.tanh(tf.matmul(x, u))

    def step(t, h, array):
        h = tf.tanh(tf.matmul(tf.concat([x[:, t], h], 1), w) + b)
        return t + 1, h, array.write(t, h)

    array = tf.TensorArray(x.dtype, T)
    _, _, array = tf.while_loop(lambda t, *_: t < T, step, (0, tf.zeros_like(x[:, 0]), array))
    return tf.reduce_sum(array.stack(), 0) + array.read(1)


def array_overwritten(x, w):
    """Elements written before the loop, several times in it, and read in several ways."""

    def step(t, h, array):
        h = tf.tanh(tf.matmul(h, w))
        return t + 1, h, array.write(t % 3, h).write(4, h * h)

    array = tf.TensorArray(x.dtype, 5, clear_after_read=False, element_shape=[None, 3])
    array = array.write(0, x).write(3, tf.matmul(x, w))
    array = tf.while_loop(lambda t, *_: t < 4, step, (1, x, array))[2]
    return array.read(3) + array.read(4) + array.read(1) * tf.reduce_sum(array.stack(), 0)


def loop_in_loop(x, w, v):
    def outer(i, h):
        _, g = tf.while_loop(lambda j, _: j < 2, lambda j, g: (j + 1, tf.tanh(tf.matmul(g, w) + x)), (0, h))
        return i + 1, g + tf.tanh(tf.matmul(h, v))

    return tf.while_loop(lambda i, _: i < 3, outer, (0, x))[1]


def counted_by_values(x, w):
    """The number of steps is known only when it runs."""

    def again(k, h):
        return (k < 5) & (tf.reduce_sum(tf.abs(w)) * tf.cast(k, w.dtype) < 12.0)

    return tf.while_loop(again, lambda k, h: (k + 1, 0.6 * tf.tanh(tf.matmul(h, w) + x)), (0, x))[1]


def by_autograph(x, w):
    @tf.function
    def run(x):
        h = x
        for t in tf.range(1, 4):
            h = tf.tanh(tf.matmul(h, w) + tf.cast(t, x.dtype) * x)
        return h

    return run(x)


def weights_made_in_loop(x, w, g):
    """Weight normalisation inside the loop, and a weight that is another in each step."""

    @tf.function
    def apply(h, kernel):
        return tf.tanh(tf.matmul(h, kernel))

    def step(t, h):
        h = apply(h, tf.transpose(g * w / tf.norm(w, axis=0)))
        return t + 1, apply(h, w * tf.cast(t + 1, w.dtype))

    return tf.while_loop(lambda t, _: t < 3, step, (0, x))[1]


def weights_made_outside(x, w, g):
    """Arithmetic on the way to a loop, to a branch, and a weight that a loop passes on."""
    kernel = tf.transpose(g * w / tf.norm(w, axis=0))

    def step(t, h, kernel):
        return t + 1, tf.tanh(tf.matmul(h, kernel * 0.5 + w)), kernel

    _, h, kernel = tf.while_loop(lambda t, *_: t < 3, step, (0, x, kernel))
    return tf.cond(tf.shape(x)[1] > 2, lambda: tf.matmul(h, kernel), lambda: tf.matmul(h, kernel * 2.0))


def array_that_grows(x, w):
    def step(t, h, array):
        h = tf.tanh(tf.matmul(h, w[t % 2]))
        return t + 1, h, array.write(t, h)

    array = tf.TensorArray(x.dtype, 0, dynamic_size=True)
    return tf.reduce_sum(tf.while_loop(lambda t, *_: t < 4, step, (0, x, array))[2].stack(), 0)


def conditional(x, w, v, b):
    h = tf.matmul(x, w)
    return tf.square(
        tf.cond(
            tf.reduce_sum(b) > 0,
            lambda: tf.tanh(tf.matmul(h, v) + b),
            lambda: tf.sin(tf.matmul(h, v, transpose_b=True)) * b,
        )
    )


def conditional_in_loop(x, w, v, b):
    def step(t, h):
        h = tf.cond(t % 2 == 0, lambda: tf.tanh(tf.matmul(h, w)), lambda: tf.tanh(tf.matmul(h, v) + b))
        return t + 1, h

    return tf.while_loop(lambda t, _: t < 5, step, (0, x))[1]


def switch(x, w, v):
    ways = [lambda: tf.matmul(x, w), lambda: tf.tanh(tf.matmul(x, v)), lambda: x + w[0]]
    return tf.switch_case(tf.shape(x)[1] - 2, ways) + 0.1 * tf.matmul(x, w)


def dense_of_rank_three(x, w):
    """In a batch of open size the graph forgets how many columns `w` has."""
    return tf.cond(w[0, 0] > 0, lambda: tf.sin(tf.tensordot(x, w, 1)), lambda: tf.tensordot(x, w, 1) ** 2)


def scan(x, w):
    return tf.scan(lambda h, row: tf.tanh(tf.matmul(row + h, w)), tf.transpose(x, [1, 0, 2]), tf.zeros_like(x[:, 0]))[
        -1
    ]


def mapped_over_time(x, w):
    return tf.reduce_sum(tf.map_fn(lambda row: tf.tanh(tf.matmul(row, w)), tf.transpose(x, [1, 0, 2])), 0)


def passed_on(x, w):
    """A loop through which the examples go as they are; and one that reads them in each step, and passes them on."""
    _, h = tf.while_loop(lambda t, _: t < 3, lambda t, h: (t + 1, h), (0, tf.matmul(x, w)))
    step = lambda t, total, h: (t + 1, total + tf.sin(h), h)  # noqa: E731
    _, total, h = tf.while_loop(lambda t, *_: t < 3, step, (0, tf.zeros_like(h), h))
    return total * h


FUNCTIONS = {
    "TensorArray written": (array_written, (N, T, 3), (3, 2), (4, 2), (2,)),
    "TensorArray overwritten": (array_overwritten, (N, 3), (3, 3)),
    "loop in loop": (loop_in_loop, (N, 3), (3, 3), (3, 3)),
    "counted by values": (counted_by_values, (N, 3), (3, 3)),
    "by autograph": (by_autograph, (N, 3), (3, 3)),
    "weights made in the loop": (weights_made_in_loop, (N, 3), (3, 3), (3,)),
    "weights made outside": (weights_made_outside, (N, 3), (3, 3), (3,)),
    "passed on by a loop": (passed_on, (N, 3), (3, 2)),
    "TensorArray that grows": (array_that_grows, (N, 3), (2, 3, 3)),
    "tf.cond": (conditional, (N, 3), (3, 4), (4, 4), (4,)),
    "tf.cond in a loop": (conditional_in_loop, (N, 3), (3, 3), (3, 3), (3,)),
    "tf.switch_case": (switch, (N, 3), (3, 3), (3, 3)),
    "tf.tensordot in branches": (dense_of_rank_three, (N, T, 3), (3, 2)),
    "tf.scan": (scan, (N, T, 3), (3, 3)),
    "tf.map_fn over time": (mapped_over_time, (N, T, 3), (3, 3)),
}


@pytest.mark.by_day(one_in=8)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_users_own_control_flow(name, rng, record_coverage):
    function, *shapes = FUNCTIONS[name]
    x, *values = (rng.normal(size=shape) for shape in shapes)
    for sign in (1, -1) if name == "tf.cond" else (1,):
        model = Function(function, *values[:-1], sign * np.abs(values[-1]))
        assert_by_rule(model, x, model.variables, batch=None)
    record_coverage(name, "rule")


@pytest.mark.by_day(None)
@pytest.mark.parametrize("name", ["TensorArray written", "loop in loop", "by autograph", "tf.cond in a loop"])
def test_users_own_control_flow_under_xla(name, rng):
    function, *shapes = FUNCTIONS[name]
    x, *values = (rng.normal(size=shape) for shape in shapes)
    model = Function(function, *values)
    assert_by_rule(model, x, model.variables, batch=N, jit_compile=True)


OF_TWO_RESULTS = {
    "branches": lambda x, w, v: tf.cond(w[0, 0] > 0, lambda: (x * v, x @ w), lambda: (x + v, tf.sin(x @ w)))[1],
    "loop": lambda x, w, v: tf.while_loop(lambda k, *_: k < 2, lambda k, a, b: (k + 1, a * v, b @ w), (0, x, x))[2],
}


@pytest.mark.by_day(one_in=4)
@pytest.mark.parametrize("chunk_size", [None, 2])
@pytest.mark.parametrize("name", OF_TWO_RESULTS)
def test_variables_of_results_that_are_not_used(name, chunk_size, rng):
    """Their derivative is zero, as TensorFlow's is; of one alone, too."""
    x, w, v = (
        tf.constant(rng.normal(size=(N, 3))),
        tf.Variable(rng.normal(size=(3, 3))),
        tf.Variable(rng.normal(size=3)),
    )
    ys = lambda: OF_TWO_RESULTS[name](x, w, v)  # noqa: E731
    expected = rows_one_at_a_time(lambda x: OF_TWO_RESULTS[name](x, w, v), x, [w])[0]
    found = tfjac.per_example_jacobian(ys, [v, w], chunk_size=chunk_size)
    np.testing.assert_allclose(found[1], expected, atol=1e-12)
    np.testing.assert_array_equal(found[0], np.zeros((N, 3, 3)))
    np.testing.assert_array_equal(tfjac.per_example_jacobian(ys, v), np.zeros((N, 3, 3)))
    np.testing.assert_array_equal(tfjac.jacobian(ys, [w, v])[1], np.zeros((N, 3, 3)))


@pytest.mark.by_day(None)
def test_embedding_gathered_in_a_loop(rng):
    def model(ids, table, w):
        def step(t, h):
            return t + 1, tf.tanh(tf.matmul(h, w) + tf.gather(table, ids[:, t]))

        return tf.while_loop(lambda t, _: t < T, step, (0, tf.zeros([tf.shape(ids)[0], 3], w.dtype)))[1]

    model = Function(model, rng.normal(size=(5, 3)), rng.normal(size=(3, 3)))
    assert_by_rule(model, rng.integers(0, 5, (N, T)).astype("int32"), model.variables, batch=None)


def loop_over_examples(x, w):
    return tf.map_fn(lambda row: tf.linalg.matvec(w, row), x)


def loop_over_rows_of_weights(x, w):
    return tf.map_fn(lambda k: tf.sin(w[k]), tf.constant([0, 2, 1, 2]), fn_output_signature=w.dtype)


def weight_that_changes(x, w):
    return tf.while_loop(
        lambda t, *_: t < 3, lambda t, h, k: (t + 1, tf.tanh(tf.matmul(h, k)), k * 0.5), (0, x, tf.identity(w))
    )[1]


def array_read_and_written(x, w):
    array = tf.TensorArray(x.dtype, T, clear_after_read=False, element_shape=[None, 3]).write(0, x)

    def step(t, array):
        return t + 1, array.write(t, tf.tanh(tf.matmul(array.read(t - 1), w)))

    return tf.while_loop(lambda t, *_: t < T, step, (1, array))[1].read(3)


def weights_in_an_array(x, w):
    return tf.scan(lambda h, kernel: tf.tanh(tf.matmul(h, kernel)), tf.stack([w, w]), x)[-1]


def noise(x):
    return tf.random.uniform([], dtype=x.dtype)


def random_in_loop(x, w):
    return tf.while_loop(lambda t, _: t < 3, lambda t, h: (t + 1, tf.matmul(h * noise(x), w)), (0, x))[1]


def random_in_condition(x, w):
    again = lambda t, _: (t < 3) & (noise(x) >= 0.0)  # noqa: E731
    return tf.while_loop(again, lambda t, h: (t + 1, tf.matmul(h, w)), (0, x))[1]


@pytest.mark.parametrize(
    "function, words",
    [
        (loop_over_examples, "a loop over examples"),
        (loop_over_rows_of_weights, "a loop over examples"),
        (weight_that_changes, "a weight changes from step to step"),
        (array_read_and_written, "is also read there"),
        (weights_in_an_array, "reads weights from a TensorArray"),
        (random_in_loop, "RandomUniform"),
        (random_in_condition, "RandomUniform"),
    ],
)
def test_refused_with_the_reason(function, words, rng):
    model = Function(function, rng.normal(size=(3, 3)))
    with pytest.raises(tfjac.ExamplesMix, match=words):
        jacobian_and_way(model, rng.normal(size=(N, 3)), model.variables, None)


def test_variables_assigned_after_the_loop(rng):
    model, x = Function(counted_by_values, rng.normal(size=(3, 3))), rng.normal(size=(N, 3))
    (w,) = model.variables

    @tf.function
    def too_late(x):
        y = model(x)
        w.assign_add(tf.ones_like(w))
        return tfjac.per_example_jacobian(y, [w])

    with pytest.raises(ValueError, match="assigned after it"):
        too_late(x)


@pytest.mark.by_day(one_in=2)
@pytest.mark.parametrize("function", [loop_over_examples, weights_in_an_array])
def test_what_is_refused_works_row_by_row(function, rng):
    model, x = Function(function, rng.normal(size=(3, 3))), rng.normal(size=(N, 3))
    oracle = rows_one_at_a_time(model, x, model.variables)
    jacobian, way = jacobian_and_way(model, x, model.variables, None, examples_mix="full")
    assert_equals_oracle(jacobian, oracle, model.variables, 1e-10)
    assert "examples mix" in way
