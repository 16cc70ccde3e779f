"""Ops that TensorFlow differentiates or vectorises wrongly: right here, or refused by name.

The oracle is NumPy's: central differences in float64 of the function's values, and of the products with its transposed
Jacobian once these are known to be right. `tests.sweep` asks the same of every op.
"""

import numpy as np
import pytest
import tensorflow as tf

import tfjac

SEGMENTS = [0, 0, 2, 2]  # none of number 1
STEP = 1e-5


def gathered_from_array(x):
    return tf.TensorArray(x.dtype, 4).unstack(x).gather([3, 0, 0])


def scattered(x):
    return tf.tensor_scatter_nd_update(x**2, [[1], [1]], x[:2] ** 3)


def scattered_in_a_loop(x):
    return tf.scan(lambda state, row: scattered(state) + row, x, initializer=tf.ones([4, 3], x.dtype))


def moments(x):
    return tf.concat(tf.nn.moments(x**2, 0), 0)


def pooled(x):
    return tf.nn.max_pool2d(tf.reshape(x**2, [1, 4, 3, 1]), 2, 1, "SAME")


def definite(x):
    return tf.matmul(x[None], x[None], transpose_a=True) + 5 * tf.eye(3, dtype=x.dtype)


DIFFERENTIATED = {
    "roll along the last axis": lambda x: x**2 - tf.roll(x**2, 1, -1),
    "roll along two axes": lambda x: tf.roll(x**2, [1, 2], [-1, 0]),
    "sparse.segment_sum": lambda x: tf.sparse.segment_sum(x**2, [0, 1, 3], [0, 2, 2], num_segments=4),
    "sparse.segment_mean": lambda x: tf.sparse.segment_mean(x**2, [0, 1, 3], [0, 2, 2], num_segments=4),
    "sparse.segment_sqrt_n": lambda x: tf.sparse.segment_sqrt_n(x**2, [0, 1, 3], [0, 2, 2], num_segments=4),
    "TensorArray.gather of an element twice": lambda x: gathered_from_array(x**2),
    "tensor_scatter_nd_update of a row twice": scattered,
    "dynamic_stitch of a row twice": lambda x: tf.dynamic_stitch([[0, 2], [2, 1]], [x[:2] ** 2, x[2:] ** 3]),
    "reduce_euclidean_norm": lambda x: tf.math.reduce_euclidean_norm(x, -1),
    "reduce_euclidean_norm, axes kept": lambda x: tf.math.reduce_euclidean_norm(x, [-1, 0], keepdims=True) * x,
    "cumulative_logsumexp": lambda x: tf.math.cumulative_logsumexp(x, -1),
    "cumulative_logsumexp, exclusive": lambda x: tf.math.cumulative_logsumexp(x, 0, exclusive=True)[1:],
    "segment_max": lambda x: tf.math.segment_max(x**2, SEGMENTS),
    "segment_mean": lambda x: tf.math.segment_mean(x**2, SEGMENTS),
    "unsorted_segment_min": lambda x: tf.math.unsorted_segment_min(x**2, [0, -1, 2, 0], 3)[::2],
    "cumprod through a zero": lambda x: tf.math.cumprod(tf.concat([x[:2], 0 * x[:1], x[2:]], 0), 0),
    "max_pool2d": pooled,
    "moments": moments,
    "softmax_cross_entropy of its labels": lambda x: tf.nn.softmax_cross_entropy_with_logits(x**2, x),
    "solve with a batch of one": lambda x: tf.linalg.solve(definite(x), x[None, :3]),
    "cholesky with a batch of one": lambda x: tf.linalg.cholesky(definite(x)),
    "einsum of a diagonal": lambda x: tf.einsum("ii,j->ij", x[:3], x[3]),
    "PadV2 of what pads": lambda x: tf.raw_ops.PadV2(input=x, paddings=[[1, 0], [0, 2]], constant_values=x[0, 0] ** 2),
    "softsign": tf.nn.softsign,
}


@pytest.fixture
def x(rng):
    values = rng.normal(size=(4, 3))
    return values + 0.1 * np.sign(values)


@pytest.mark.by_day(one_in=24)
@pytest.mark.parametrize("name", DIFFERENTIATED)
def test_both_modes_and_second_derivatives_against_differences(name, x, rng):
    function, v = DIFFERENTIATED[name], rng.normal(size=x.shape)
    u = rng.normal(size=function(tf.constant(x)).shape)

    @tf.function(autograph=False)
    def derivatives(x):
        y = function(x * 1)
        reverse = tfjac.jacobian(y, x, mode="reverse")
        forward = tfjac.jacobian(y, x, mode="forward", chunk_size=5)
        return reverse, forward, tfjac.hvp(u * y, x, v)

    reverse, forward, hvp = (result.numpy() for result in derivatives(tf.constant(x)))
    expected = differences(tf.function(function, autograph=False), x)
    np.testing.assert_allclose(reverse, expected, rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(forward, expected, rtol=1e-6, atol=1e-7)
    ends = [derivatives(tf.constant(x + step))[0] for step in (STEP * v, -STEP * v)]
    along_v = np.tensordot(u, (ends[0] - ends[1]) / (2 * STEP), u.ndim)
    np.testing.assert_allclose(hvp, along_v, rtol=1e-6, atol=1e-6)


def of_a_normalised_layer(x, w):
    """Three rows, of two outputs each, through the standardisation of a layer."""
    z = tf.tanh(tf.reshape(x, [3, 4]) @ w)
    mean, variance = tf.nn.moments(z, [1], keepdims=True)
    return ((z - mean) * tf.math.rsqrt(variance + 1e-3))[:, :2] ** 3


OF_FIRST_ORDER = {
    "per_example_gradients": lambda y, x, w: tfjac.per_example_gradients(tf.reduce_sum(y, 1), [w])[0],
    "per_example_gradient_norms": lambda y, x, w: tfjac.per_example_gradient_norms(tf.reduce_sum(y, 1), [w]),
    "per_example_jacobian": lambda y, x, w: tfjac.per_example_jacobian(y, [w])[0],
    "jacobian": lambda y, x, w: tfjac.jacobian(y, w),
    "batch_jacobian": lambda y, x, w: tfjac.batch_jacobian(y, x),
    "vjp": lambda y, x, w: tfjac.vjp(y, w, tf.ones_like(y)),
    "jvp": lambda y, x, w: tfjac.jvp(y, w, tf.ones_like(w)),
}


@pytest.mark.by_day(one_in=4)
@pytest.mark.parametrize("name", OF_FIRST_ORDER)
def test_a_tape_around_first_derivatives_of_moments(name, x, rng):
    """As of a gradient penalty: TensorFlow stops the gradient of the mean, which counts in second derivatives."""
    w, v = tf.Variable(rng.normal(size=(4, 5))), rng.normal(size=(4, 5))

    @tf.function(autograph=False)
    def penalty(x):
        with tf.GradientTape() as tape:
            x = tf.reshape(x, [3, 4]) * 1
            found = tf.reduce_sum(OF_FIRST_ORDER[name](of_a_normalised_layer(x, w), x, w) ** 2)
        return found, tape.gradient(found, w)

    x = tf.constant(x)
    gradient, ends = penalty(x)[1].numpy(), []
    for step in (STEP * v, -2 * STEP * v):
        w.assign_add(step)
        ends.append(penalty(x)[0].numpy())
    np.testing.assert_allclose(np.sum(gradient * v), (ends[0] - ends[1]) / (2 * STEP), rtol=1e-6)


LOOPS = {
    "tensor_scatter_nd_update in a loop": scattered_in_a_loop,
    "expm": lambda x: tf.linalg.expm(x[None, :3] / 3),
    "map_fn over rows": lambda x: tf.map_fn(lambda row: tf.reduce_sum(row**2) * row, x),
}


@pytest.mark.by_day(None)
@pytest.mark.filterwarnings("ignore:tfjac")  # of the number of squarings in expm
@pytest.mark.parametrize("name", LOOPS)
def test_through_loops(name, x):
    function = LOOPS[name]
    reverse = tf.function(lambda x: tfjac.jacobian(function(x * 1), x, mode="reverse"), autograph=False)
    expected = differences(tf.function(function, autograph=False), x)
    np.testing.assert_allclose(reverse(tf.constant(x)), expected, rtol=1e-6, atol=1e-7)


REFUSED = {
    "HSVToRGB": tf.image.hsv_to_rgb,
    "Betainc": lambda x: tf.math.betainc(x**2, tf.ones_like(x), tf.fill(x.shape, tf.constant(0.5, x.dtype))),
    "Zeta": lambda x: tf.math.zeta(2 + x**2, tf.ones_like(x)),
    "Betainc in a loop": lambda x: tf.map_fn(lambda row: tf.math.betainc(row**2, row**2, tf.sigmoid(row)), x),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_has_no_right_gradient_is_refused_by_name(name, x):
    with pytest.raises(LookupError, match=f"gradient of this op is wrong.*Received: op .* of type {name.split()[0]}"):
        tf.function(lambda x: tfjac.jacobian(REFUSED[name](x * 1), x), autograph=False)(tf.constant(x))


def test_what_no_gradient_passes_through_may_be_there(x):
    """Data is prepared by ops that are refused, and a function is taken by the argument that is right."""

    def compute():
        prepared = tf.reduce_sum(tf.image.hsv_to_rgb(tf.random.uniform([4, 3], dtype=tf.float64)), -1)
        return tf.math.zeta(2 + tf.cast(tf.range(3), tf.float64), 1 + v**2) + 0 * prepared[:, None]

    v = tf.Variable(x)
    (found,) = np.array([tfjac.jacobian(compute, v)])
    expected = differences(lambda x: tf.math.zeta(2 + tf.range(3.0, dtype=tf.float64), 1 + x**2), x)
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-7)


def differences(function, x):
    """∂f/∂x by central differences, `[*f.shape, *x.shape]`."""
    steps = STEP * np.eye(x.size).reshape(x.size, *x.shape)
    columns = [(function(tf.constant(x + s)) - function(tf.constant(x - s))) / (2 * STEP) for s in steps]
    return np.stack(columns, -1).reshape(*columns[0].shape, *x.shape)
