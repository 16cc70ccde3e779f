"""The public checkers: they must find what is right right, and what is wrong wrong."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfjac
from tfjac import testing

pytestmark = pytest.mark.core

A = np.array([[1.0, 2.0, -1.0], [0.5, 0.0, 3.0]])


def test_differences_of_known_derivatives():
    x = np.array([[0.3, -1.2], [2.0, 40.0]])
    slopes = testing.finite_differences(tf.sin, x)
    expected = np.zeros((2, 2, 2, 2))
    for index in np.ndindex(2, 2):
        expected[index + index] = np.cos(x[index])
    np.testing.assert_allclose(slopes, expected, atol=1e-9)
    np.testing.assert_allclose(testing.finite_differences(lambda v: tf.linalg.matvec(A, v), A[0]), A, atol=1e-9)
    assert testing.finite_differences(tf.reduce_sum, A).shape == (2, 3)


def test_single_precision_keeps_two_thirds_of_its_digits():
    slopes = testing.finite_differences(tf.exp, np.array([1.0], np.float32))
    np.testing.assert_allclose(slopes, [[np.e]], rtol=1e-3)


@pytest.mark.parametrize("kind", [tf.Variable, lambda value: keras.Variable(value, dtype="float64")])
def test_variables_get_their_values_back(kind):
    variable = kind(A[0])
    slopes = testing.finite_differences(lambda: tf.convert_to_tensor(variable) ** 2, variable)
    np.testing.assert_allclose(slopes, np.diag(2 * A[0]), atol=1e-8)
    np.testing.assert_array_equal(tf.convert_to_tensor(variable), A[0])

    def broken():
        if tf.convert_to_tensor(variable)[0] > 1.0:
            raise RuntimeError
        return tf.convert_to_tensor(variable)

    with pytest.raises(RuntimeError):
        testing.finite_differences(broken, variable)


def test_integers_are_refused():
    with pytest.raises(TypeError, match=r"floating-point dtype.*Received: dtype int64"):
        testing.finite_differences(tf.square, np.array([1, 2]))


def test_a_jacobian_of_this_package():
    weight = tf.Variable(A)
    x = tf.constant([[0.1, 0.2], [0.3, -0.4]], tf.float64)

    def y():
        return tf.tanh(x @ weight)

    testing.assert_jacobian(y, weight, tfjac.jacobian(y, weight))


def test_a_wrong_jacobian_is_found():
    wrong = A.copy()
    wrong[1, 2] += 1e-3
    function = lambda v: tf.linalg.matvec(A, v)  # noqa: E731
    testing.assert_jacobian(function, A[0], A)
    with pytest.raises(AssertionError, match=r"1 of 6 entries, most at \(1, 2\): 3 was expected. Received: 3.001"):
        testing.assert_jacobian(function, A[0], wrong)
    with pytest.raises(AssertionError, match=r"shape of y, then that of x: \(2, 3\). Received: shape \(3, 2\)"):
        testing.assert_jacobian(function, A[0], A.T)
    with pytest.raises(AssertionError, match="Received: nan"):
        testing.assert_jacobian(function, A[0], A * np.nan)


def test_adjoint():
    forward = lambda v: tf.linalg.matvec(A, v)  # noqa: E731
    backward = lambda u: tf.linalg.matvec(A, u, transpose_a=True)  # noqa: E731
    testing.assert_adjoint(forward, backward, A[0], A[:, 0])
    with pytest.raises(AssertionError, match="backward is not the transpose of forward"):
        testing.assert_adjoint(forward, lambda u: 1.001 * backward(u), A[0], A[:, 0])
    with pytest.raises(AssertionError, match=r"forward must give shape \(3,\). Received: shape \(2,\)"):
        testing.assert_adjoint(forward, backward, A[0], A[0])


def test_adjoint_of_the_products():
    layer = keras.layers.Dense(2, "tanh", dtype="float64")
    x = tf.constant(A)
    layer.build(x.shape)
    kernel = layer.kernel

    testing.assert_adjoint(
        lambda v: tfjac.jvp(lambda: layer(x), kernel, v),
        lambda u: tfjac.vjp(lambda: layer(x), kernel, u),
        kernel.value,
        layer(x),
    )
