"""Sources that TensorFlow has as constants: small eager tensors, captured by value, and what `tf.constant` makes.

They are what is differentiated by, whatever their op. The oracle is central differences in float64.
"""

import numpy as np
import pytest
import tensorflow as tf

import tfjac
from tests.jacobians.test_wrong_in_tensorflow import differences

HALF = tf.constant(0.5, tf.float64)


def half(x):
    return tf.fill(tf.shape(x), tf.constant(0.5, x.dtype))


def turned(x):
    turn = [[0.9, 0.1, 0.2, 0.05, 1.0, 0.1, 0.0, 0.0]]
    return tf.raw_ops.ImageProjectiveTransformV3(
        images=x, transforms=turn, output_shape=x.shape[1:3], fill_value=0.0, interpolation="BILINEAR"
    )


SIZES = [(), (1,), (3,), (200,)]
REFUSED = {
    "Betainc by a": (lambda x: tf.math.betainc(x, half(x), half(x)), SIZES),
    "Betainc by b": (lambda x: tf.math.betainc(half(x), x, half(x)), SIZES),
    "Betainc in a loop": (lambda x: tf.map_fn(lambda z: tf.math.betainc(x, half(x), z), tf.stack([half(x)] * 2)), [()]),
    "Betainc in a branch": (lambda x: tf.cond(x > 0, lambda: tf.math.betainc(x, HALF, HALF), lambda: x), [()]),
    "Zeta by x": (lambda x: tf.math.zeta(x, 1 + half(x)), SIZES),
    "Polygamma by its order": (lambda x: tf.math.polygamma(x, half(x)), SIZES),
    "ImageProjectiveTransformV3": (turned, [(1, 1, 1, 1), (1, 3, 3, 1), (1, 12, 12, 1)]),
    "HSVToRGB": (tf.image.hsv_to_rgb, [(3,), (50, 3)]),
}
RIGHT = {
    "betainc by x": lambda x: tf.math.betainc(half(x), half(x), x),
    "zeta by q": lambda x: tf.math.zeta(2 + half(x), x),
    "polygamma": lambda x: tf.math.polygamma(tf.ones_like(x), x),
    "igamma by a": lambda x: tf.math.igamma(x, half(x)),
    "power of a number": lambda x: tf.pow(half(x), x),
    "xlogy": lambda x: tf.math.xlogy(x, x),
    "reduce_euclidean_norm": tf.math.reduce_euclidean_norm,
    "cumprod": lambda x: tf.math.cumprod(tf.reshape(x, [-1])),
    "cumulative_logsumexp": lambda x: tf.math.cumulative_logsumexp(tf.reshape(x, [-1])),
    "what pads": lambda x: (
        tf.raw_ops.PadV2(input=x, paddings=[[1, 0]] * x.shape.rank, constant_values=HALF) * x[..., :1]
    ),
    "softsign": tf.nn.softsign,
    "labels": lambda x: tf.nn.softmax_cross_entropy_with_logits(tf.reshape(x**2, [1, -1]), tf.reshape(x, [1, -1])),
    "update of a row twice": lambda x: tf.tensor_scatter_nd_update(tf.reshape(x, [-1]), [[0], [0]], [x[0], x[0] ** 2]),
    "segment_max": lambda x: tf.math.segment_max(x**2, tf.zeros([x.shape[0]], tf.int32)),
    "dynamic_stitch": lambda x: tf.dynamic_stitch([[0, 1], [1]], [tf.stack([x[0], x[0]]), x[:1] ** 2]),
}


def of_kind(kind, compute, function, values):
    """`compute(lambda: function(x), x)` where x is a tensor of this kind."""
    x = tf.constant(values, tf.float64)
    if kind == "eager":
        return compute(lambda: function(x), x)
    if kind == "captured":
        return tf.function(lambda: compute(lambda: function(x), x), autograph=False)()
    if kind == "captured before":
        return tf.function(lambda: compute(function(x), x), autograph=False)()
    if kind == "in the graph":
        return tf.function(
            lambda: (lambda x: compute(function(x), x))(tf.constant(values, tf.float64)), autograph=False
        )()
    return tf.function(lambda x: compute(function(x), x), autograph=False)(x)


KINDS = ["eager", "captured", "captured before", "in the graph", "argument"]


@pytest.mark.by_day(one_in=10)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", REFUSED)
def test_what_has_no_right_gradient_is_refused(name, kind):
    function, sizes = REFUSED[name]
    for size in sizes:
        values = np.full(size, 1.5 if "Zeta" in name else 0.4)
        for compute in (tfjac.jacobian, tfjac.vjp, lambda y, x: tfjac.jvp(y, x, tf.ones_like(x))):
            with pytest.raises(LookupError, match=f"gradient of this op is wrong.*of type {name.split()[0]}"):
                of_kind(kind, compute, function, values)


@pytest.mark.by_day(one_in=25)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", RIGHT)
def test_derivatives_by_constants(name, kind, rng):
    for size in [(1,), (3,)]:
        values = rng.uniform(0.2, 0.8, size)
        found = of_kind(kind, tfjac.jacobian, RIGHT[name], values)
        np.testing.assert_allclose(found, differences(RIGHT[name], values), rtol=1e-5, atol=1e-8)


def test_what_is_fixed_on_the_way_is_not_refused(rng):
    """By `stop_gradient`, as the refusal says; and in a loop whose other inputs are differentiated."""
    x = tf.constant(rng.uniform(0.2, 0.8, 3))

    def in_a_loop(z, a=HALF):
        return tf.map_fn(lambda row: tf.math.betainc(a, HALF, row), z)

    found = tfjac.jacobian(lambda: tf.math.betainc(tf.stop_gradient(x), half(x), x), x)
    expected = differences(lambda z: tf.math.betainc(x, half(x), z), x.numpy())
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(
        tfjac.jacobian(lambda: in_a_loop(x), x), differences(in_a_loop, x.numpy()), rtol=1e-6, atol=1e-9
    )


@pytest.mark.by_day(None)
@pytest.mark.parametrize("of_another", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_derivatives_of_jacobians_in_chunks(kind, of_another, rng):
    """A loop over chunks captures what another derivative is taken by, which is not copied into it."""
    w, values = tf.constant(rng.normal(size=3)), rng.normal(size=3)

    def inner(x):
        y = tf.sin(w * tf.reduce_sum(w * x**2)) if of_another else tf.sin(x * tf.reduce_sum(w * x**2))
        return tfjac.jacobian(y, w if of_another else x, chunk_size=2)

    def by_hand(x):
        with tf.GradientTape() as tape:
            tape.watch([x, w])
            y = tf.sin(w * tf.reduce_sum(w * x**2)) if of_another else tf.sin(x * tf.reduce_sum(w * x**2))
        return tape.jacobian(y, w if of_another else x)

    found = of_kind(kind, tfjac.jacobian, inner, values)
    np.testing.assert_allclose(found, differences(by_hand, values), rtol=1e-5, atol=1e-6)


CHUNKED = {
    "forward": lambda y, x, w: tfjac.jacobian(y, x, mode="forward", chunk_size=2),
    "reverse by a budget": lambda y, x, w: tfjac.jacobian(y, x, mode="reverse", memory_budget=40),
    "blocks": lambda y, x, w: tfjac.batch_jacobian(y, x, chunk_size=2),
    "by weights": lambda y, x, w: tfjac.per_example_jacobian(y, w, chunk_size=2),
}


@pytest.mark.by_day(None)
@pytest.mark.parametrize("kind", ["eager", "argument"])
@pytest.mark.parametrize("name", CHUNKED)
def test_derivatives_of_other_jacobians_in_chunks(name, kind, rng):
    """By what the constant is within: a product of constants, an offset, a factor of the derivative alone."""
    w, values = tf.Variable(rng.normal(size=(2, 3))), rng.normal(size=(2, 2))

    def outputs(x):
        return tf.sin(tf.matmul(2 * x, w)) + tf.matmul(tf.exp(x), w) ** 2

    def inner(x):
        return CHUNKED[name](outputs(x), x, w)

    def by_hand(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = outputs(x)
        found = tape.jacobian(y, w if name == "by weights" else x)
        return tf.einsum("nknj->nkj", found) if name == "blocks" else found

    found = of_kind(kind, tfjac.jacobian, inner, values)
    np.testing.assert_allclose(found, differences(by_hand, values), rtol=1e-5, atol=1e-6)
