"""Ops converted in a few ops by the vectoriser: each against the op itself, one slice at a time."""

import numpy as np
import pytest
import tensorflow as tf

from tfjac.graph import vectorised_map
from tfjac.graph.facts import facts_by_type, types_where

raw = tf.raw_ops
KERNEL = np.random.default_rng(0).normal(size=(2, 3, 2, 4))
WINDOW = {"strides": [1, 2, 2, 1], "padding": "SAME"}
SOLID = {"strides": [1, 1, 2, 1, 1], "padding": "VALID"}


def behind():
    return raw.ConcatOffset(concat_dim=2, shape=[[3, 2, 1], [3, 2, 3]])[1]


def pooled(op, sizes, window):
    """In single precision: TensorFlow has no kernel for more in three dimensions."""

    def function(u):
        given = tf.cast(u, tf.float32)
        return tf.cast(op(orig_input_shape=sizes, grad=given, ksize=window["strides"], **window), u.dtype)

    return function


def convolved(op, sizes, kernel, window):
    return lambda u: op(input_sizes=sizes, filter=kernel, out_backprop=u, **window)


SAMPLES = {
    "AvgPoolGrad": ((3, 2, 3, 2), pooled(raw.AvgPoolGrad, [3, 4, 5, 2], WINDOW)),
    "AvgPool3DGrad": ((3, 3, 2, 2, 2), pooled(raw.AvgPool3DGrad, [3, 3, 4, 2, 2], SOLID)),
    "Conv2DBackpropInput": ((3, 2, 3, 4), convolved(raw.Conv2DBackpropInput, [3, 4, 5, 2], KERNEL, WINDOW)),
    "Conv3DBackpropInputV2": (
        (3, 2, 2, 1, 4), convolved(raw.Conv3DBackpropInputV2, [3, 2, 4, 3, 2], KERNEL[None], SOLID)
    ),
    "DepthwiseConv2dNativeBackpropInput": (
        (3, 2, 3, 8), convolved(raw.DepthwiseConv2dNativeBackpropInput, [3, 4, 5, 2], KERNEL, WINDOW)
    ),
    "EluGrad": ((3, 2), lambda u: raw.EluGrad(gradients=u, outputs=KERNEL[0, :, 1, :2])),
    "LeakyReluGrad": ((3, 2), lambda u: raw.LeakyReluGrad(gradients=u, features=KERNEL[0, :, 1, :2], alpha=0.3)),
    "Relu6Grad": ((3, 2), lambda u: raw.Relu6Grad(gradients=u, features=6 * KERNEL[0, :, 1, :2])),
    "ReluGrad": ((3, 2), lambda u: raw.ReluGrad(gradients=u, features=KERNEL[0, :, 1, :2])),
    "SeluGrad": ((3, 2), lambda u: raw.SeluGrad(gradients=u, outputs=KERNEL[0, :, 1, :2])),
    "SoftplusGrad": ((3, 2), lambda u: raw.SoftplusGrad(gradients=u, features=KERNEL[0, :, 1, :2])),
    "ReciprocalGrad": ((3, 2), lambda u: raw.ReciprocalGrad(y=KERNEL[0, :, 1, :2], dy=u)),
    "RsqrtGrad": ((3, 2), lambda u: raw.RsqrtGrad(y=KERNEL[0, :, 1, :2], dy=u)),
    "SigmoidGrad": ((3, 2), lambda u: raw.SigmoidGrad(y=KERNEL[0, :, 1, :2], dy=u)),
    "SqrtGrad": ((3, 2), lambda u: raw.SqrtGrad(y=KERNEL[0, :, 1, :2], dy=u)),
    "TanhGrad": ((3, 2), lambda u: raw.TanhGrad(y=KERNEL[0, :, 1, :2], dy=u)),
    "Max": ((3, 2, 4), lambda u: raw.Max(input=u, axis=[0, -1])),
    "MatMul": ((3, 2), lambda u: raw.MatMul(a=u, b=KERNEL[0, :, 0], transpose_a=True)),
    "Mean": ((3, 2, 4), lambda u: raw.Mean(input=u, axis=1)),
    "Min": ((3, 2, 4), lambda u: raw.Min(input=u, axis=[2], keep_dims=True)),
    "Prod": ((3, 2, 4), lambda u: raw.Prod(input=u, axis=[1, 0])),
    "Sum": ((3, 2, 4), lambda u: raw.Sum(input=u, axis=[-2])),
    "Pad": ((3, 2), lambda u: raw.Pad(input=u, paddings=[[1, 0], [0, 2]])),
    "Reshape": ((3, 2, 4), lambda u: raw.Reshape(tensor=u, shape=[4, -1])),
    "Slice": ((3, 2, 4), lambda u: raw.Slice(input=u, begin=behind(), size=[-1, 1, 3])),
    "Tile": ((3, 2), lambda u: raw.Tile(input=u, multiples=[1, 3])),
    "Transpose": ((3, 2, 4), lambda u: raw.Transpose(x=u, perm=[-1, 0, 1])),
}  # fmt: skip


def test_every_shortcut_has_a_sample():
    assert set(SAMPLES) == types_where(lambda facts: facts.shortcut)


@pytest.mark.by_day(one_in=11)
@pytest.mark.parametrize("open_size", [False, True])
@pytest.mark.parametrize("op_type", SAMPLES)
def test_as_slice_by_slice(op_type, open_size, rng, monkeypatch):
    shape, function = SAMPLES[op_type]
    stack, taken, shortcut = rng.normal(size=(2, *shape)), [], facts_by_type()[op_type].shortcut

    def noting(*given):
        taken.append(shortcut(*given) is not None)
        return shortcut(*given)

    monkeypatch.setattr(facts_by_type()[op_type], "shortcut", noting)

    @tf.function(input_signature=[tf.TensorSpec([None if open_size else 2, *shape], tf.float64)])
    def together(stack):
        return vectorised_map(lambda u: [function(u)], [stack])[0]

    found = together(stack)
    assert taken == [True] or open_size
    np.testing.assert_allclose(found, [function(tf.constant(u)) for u in stack], rtol=1e-13, atol=1e-13)


@pytest.mark.by_day("values")
@pytest.mark.parametrize("open_size", [False, True])
@pytest.mark.parametrize("rows, inner, columns", [(3, 2, 4), (0, 2, 4), (3, 0, 4), (3, 2, 0)])
@pytest.mark.parametrize("of_the_left", [True, False])
@pytest.mark.parametrize("transposed", [(False, False), (True, False), (False, True), (True, True)])
def test_products_of_matrices_of_any_size(rows, inner, columns, of_the_left, transposed, open_size, rng):
    """TensorFlow's vectoriser leaves one size open, and makes an empty product one of another shape."""
    a, b = rng.normal(size=(rows, inner)), rng.normal(size=(inner, columns))
    a, b = (x.T if flipped else x for x, flipped in zip((a, b), transposed))
    stack = rng.normal(size=(2, *(a if of_the_left else b).shape))

    def product(u):
        return tf.linalg.matmul(*((u, b) if of_the_left else (a, u)), *transposed)

    @tf.function(input_signature=[tf.TensorSpec([None] * 3 if open_size else stack.shape, tf.float64)])
    def together(stack):
        return vectorised_map(lambda u: [product(u)], [stack])[0]

    expected = np.stack([product(tf.constant(u)) for u in stack])
    np.testing.assert_allclose(together(stack), expected, rtol=1e-13, atol=1e-13, strict=True)


@pytest.mark.parametrize("dtype", [tf.bfloat16, tf.float16, tf.float32, tf.float64, tf.complex128])
@pytest.mark.parametrize("op_type, y", [("SqrtGrad", 0.0), ("RsqrtGrad", np.inf), ("ReciprocalGrad", np.inf)])
def test_an_infinite_slope_without_a_cotangent_is_zero(op_type, y, dtype):
    """As the kernels of the ops say, and unlike 0·∞: the norm of a row of zeros has a gradient behind a bound."""
    given = tf.constant([[0.0, 0.0, 3.0], [0.0, 2.0, 0.0]], dtype)
    values = tf.cast([y, 0.5, 2.0], dtype)
    function = tf.function(lambda: vectorised_map(lambda u: [getattr(raw, op_type)(y=values, dy=u)], [given])[0])
    found, expected = function(), [getattr(raw, op_type)(y=values, dy=u) for u in given]
    assert np.all(np.isfinite(tf.cast(found, tf.complex128)))
    np.testing.assert_array_equal(tf.cast(found, tf.complex128), tf.cast(expected, tf.complex128))
