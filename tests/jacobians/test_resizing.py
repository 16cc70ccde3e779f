"""Resizing of images by every method, in every dtype: TensorFlow computes it in float32, whatever it is given."""

import numpy as np
import pytest
import tensorflow as tf

import tfjac

METHODS = ["bilinear", "bicubic", "nearest", "area", "lanczos3", "gaussian", "mitchellcubic"]


@pytest.mark.by_day(one_in=4)
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
@pytest.mark.parametrize("size", [(2, 3), (7, 4)])
@pytest.mark.parametrize("method", METHODS)
def test_the_columns_are_what_it_makes_of_single_pixels(method, size, dtype, rng):
    x = tf.cast(tf.constant(rng.normal(size=(2, 4, 3, 1))), dtype)

    def resized(image):
        return tf.image.resize(image, size, method=method)

    columns = [resized(tf.constant(pixel, tf.float32)).numpy() for pixel in np.eye(12).reshape(12, 1, 4, 3, 1)]
    expected = np.stack([column[0] for column in columns], -1).reshape(*size, 1, 4, 3, 1)
    tolerance = 1e-5 if dtype != "bfloat16" else 2e-2
    blocks = tfjac.batch_jacobian(lambda: resized(x), x)
    np.testing.assert_allclose(tf.cast(blocks, tf.float32), [expected] * 2, rtol=tolerance, atol=tolerance)
    if dtype == "float64":
        forward = tfjac.jvp(lambda: resized(x), x, x)
        np.testing.assert_allclose(forward, np.tensordot(x, expected, [[1, 2, 3], [3, 4, 5]]), rtol=1e-4, atol=1e-5)
        full = tfjac.jacobian(lambda: resized(x), x, mode="reverse")
        np.testing.assert_allclose(full[1, ..., 1, :, :, :], expected, rtol=1e-5, atol=1e-5)


def test_areas_with_aligned_corners_are_refused_by_name():
    x = tf.ones([1, 4, 4, 1])
    with pytest.raises(LookupError, match=r"aligned corners.*of type ResizeArea"):
        tfjac.vjp(lambda: tf.compat.v1.image.resize_area(x, [2, 3], align_corners=True), x)


def test_a_model_of_float64_is_fitted(rng):
    """Its upsampling computes in float32, as it always does; the steps are those of the products by hand."""
    x, y = rng.normal(size=(6, 2, 2, 1)), rng.normal(size=(6, 4, 4, 1))
    w = tf.Variable([0.3, -0.2], dtype=tf.float64)

    def residuals():
        image = tf.cast(tf.image.resize(w[0] * x + w[1], [4, 4]), tf.float64)
        return tf.reshape(image - y, [-1])

    result = tfjac.least_squares(residuals, [w], max_steps=20)
    columns = [tf.image.resize(x, [4, 4]).numpy().ravel(), np.ones(x.size * 4)]
    expected = np.linalg.lstsq(np.stack(columns, 1), y.ravel(), rcond=None)[0]
    assert result.success
    np.testing.assert_allclose(w, expected, rtol=1e-4, atol=1e-5)
