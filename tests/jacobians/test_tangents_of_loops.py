"""Tangents carried through loops and lists of tensors, beside one tape for each row."""

import numpy as np
import pytest
import tensorflow as tf

from tests.jacobians.oracles_full import full_jacobian
from tests.jacobians.test_tangents import dense_of
from tfjac.jacobians.tangents import NoTangents, forward_factors

STEPS = 7
V = tf.Variable([0.5, 0.7, 0.3], dtype=tf.float64)
DATA = tf.constant(np.random.default_rng(0).normal(size=(STEPS, 2)))


def moved(z):
    """One step of a nonlinear recurrence."""
    return tf.stack([z[0] + 0.1 * V[0] * z[1], z[1] - 0.2 * V[1] * tf.sin(z[0]) * z[1]])


def start():
    return tf.stack([V[2], tf.constant(1.0, tf.float64)])


def by_while_loop():
    def body(k, z, found):
        z = moved(z)
        return k + 1, z, found.write(k, z)

    array = tf.TensorArray(tf.float64, STEPS)
    return tf.while_loop(lambda k, *_: k < STEPS, body, (0, start(), array))[2].stack()


def by_growing_array():
    def body(k, z, found):
        z = moved(z)
        return k + 1, z, found.write(k, z * V[0])

    array = tf.TensorArray(tf.float64, 0, dynamic_size=True, element_shape=[2])
    return tf.ensure_shape(tf.while_loop(lambda k, *_: k < STEPS, body, (0, start(), array))[2].stack(), [STEPS, 2])


@tf.function
def autographed():
    z, found = start(), tf.TensorArray(tf.float64, STEPS)
    for k in tf.range(STEPS):
        z = moved(z)
        found = found.write(k, z)
    return found.stack()


def until_large():
    """How many steps it takes depends on the data alone, and the last state on all parameters."""
    _, z, _ = tf.while_loop(
        lambda k, z, limit: tf.cast(k, tf.float64) < limit,
        lambda k, z, limit: (k + 1, moved(z), limit),
        (0, start(), tf.reduce_sum(DATA**2) / 3),
    )
    return z


def swapped():
    """Variables that change places, one that is given and never changes, and one that forgets the parameters."""

    def body(k, x, y, scale, forgotten):
        return k + 1, y * scale, x + forgotten, scale, tf.ones([2], tf.float64)

    results = tf.while_loop(lambda k, *_: k < STEPS, body, (0, V[:2], V[1:] ** 2, V[0], V[:2]))
    return tf.stack(results[1:3] + results[4:])


def nested():
    def outer(k, z):
        _, z = tf.while_loop(lambda j, _: j < 2, lambda j, z: (j + 1, moved(z)), (0, z))
        return k + 1, z * V[2]

    return tf.while_loop(lambda k, _: k < 3, outer, (0, start()))[1]


FUNCTIONS = {
    "tf.while_loop": by_while_loop,
    "AutoGraph": autographed,
    "tf.scan": lambda: tf.scan(lambda z, row: moved(z) + row * V[2], DATA, start()),
    "tf.scan over what depends on parameters": lambda: tf.scan(lambda z, row: moved(z) + row, DATA * V[:2], start()),
    "tf.map_fn": lambda: tf.map_fn(lambda row: row * V[0] + tf.exp(row * V[1:]), DATA),
    "tf.foldl": lambda: tf.foldl(lambda z, row: moved(z) * row, DATA, start()),
    "as many steps as data say": until_large,
    "variables that change places": swapped,
    "a loop in a loop": nested,
    "an array of its own": lambda: tf.TensorArray(tf.float64, 2).write(0, V[:2]).write(1, V[1:] * V[0]).stack(),
    "half of an array": lambda: tf.TensorArray(tf.float64, 2, element_shape=[2]).write(1, V[1:] ** 2).stack(),
    "single precision": lambda: tf.cast(by_while_loop(), tf.float32),
}


def by_rows(function):
    """∂y/∂V by a tape for each element of y, `[n,m,3]`."""
    (jacobian,) = full_jacobian(function, [V])
    return np.reshape(jacobian, [len(jacobian), -1, 3])


@pytest.mark.by_day(one_in=3)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_is_what_tapes_give(name):
    (found,) = dense_of(lambda: forward_factors([FUNCTIONS[name]()], [V]))
    np.testing.assert_allclose(found, by_rows(FUNCTIONS[name]), rtol=1e-5 if "single" in name else 1e-12, atol=1e-14)


def test_a_tank_that_runs_empty():
    """The square root of an empty tank has an infinite slope, and nothing moves it."""
    rate = tf.Variable([0.3], dtype=tf.float64)

    def emptied():
        body = lambda k, h: (k + 1, h - rate * tf.sqrt(tf.maximum(h, 0.0)))  # noqa: E731
        return tf.while_loop(lambda k, _: k < 9, body, (0, tf.constant([0.5, 9.0], tf.float64)))[1]

    levels, slopes = np.array([0.5, 9.0]), np.zeros(2)
    for _ in range(9):
        root = np.sqrt(np.maximum(levels, 0))
        fall = np.where(root > 0, slopes / (2 * np.where(root > 0, root, 1)), 0)
        levels, slopes = levels - 0.3 * root, slopes - root - 0.3 * fall
    (found,) = dense_of(lambda: forward_factors([emptied()], [rate]))
    assert levels[0] < 0 < levels[1]
    np.testing.assert_allclose(np.ravel(found), slopes, rtol=1e-12)


def test_one_more_loop_and_no_more():
    """The gradient of a loop would be another one for each time that it is taken."""

    @tf.function
    def jacobian():
        (factor,) = forward_factors([by_while_loop()], [V])
        return factor.dense()

    ops = jacobian.get_concrete_function().graph.get_operations()
    assert sum("While" in op.type for op in ops) == 2


def test_a_loop_is_worth_it_whatever_its_length():
    (found,) = dense_of(lambda: forward_factors([nested()], [V], fewest=1000))
    np.testing.assert_allclose(found, by_rows(nested), rtol=1e-12)


def drawing():
    return tf.while_loop(
        lambda k, _: k < 2, lambda k, z: (k + 1, z * V[:2] + tf.random.normal([2], dtype=tf.float64)), (0, V[:2])
    )[1]


def growing():
    shapes = (tf.TensorShape([]), tf.TensorShape([None]))
    grown = tf.while_loop(lambda k, _: k < 2, lambda k, z: (k + 1, tf.concat([z, V[:1]], 0)), (0, V[:1]), shapes)
    return tf.ensure_shape(grown[1], [3])


@tf.custom_gradient
def doubled(x):
    return x * x, lambda d: 2 * d


REFUSED = {
    "an array that grows, of a size that is open": by_growing_array,
    "random numbers inside": drawing,
    "a shape that changes": growing,
    "an op without a rule inside": lambda: tf.while_loop(
        lambda k, _: k < 2, lambda k, z: (k + 1, tf.cumsum(z)), (0, V[:2])
    )[1],
    "a custom gradient inside": lambda: tf.while_loop(lambda k, _: k < 2, lambda k, z: (k + 1, doubled(z)), (0, V))[1],
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused(name):
    with pytest.raises(NoTangents):
        dense_of(lambda: forward_factors([REFUSED[name]()], [V]))


def test_a_variable_that_is_assigned_after_the_loop():
    scale = tf.Variable(2.0, dtype=tf.float64)

    def function():
        y = tf.while_loop(lambda k, _: k < 2, lambda k, z: (k + 1, z * scale), (0, V))[1]
        scale.assign(3.0)
        return forward_factors([y], [V])

    with pytest.raises(NoTangents):
        dense_of(function)
