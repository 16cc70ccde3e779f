"""The standard deviations of data, or their covariance."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tfjac.arguments import as_numbers, described_value
from tfjac.types import Array


@dataclasses.dataclass(frozen=True, eq=False)
class Deviations:
    """The standard deviations of data; of complex ones `[...]`, those of their parts `[..., 2]`.

    Attributes:
        scale: one number, an array that broadcasts to the shape of the data, or the Cholesky factor
            `[values, values]` of their covariance.
        correlated: whether it is the latter.
    """

    scale: np.ndarray
    correlated: bool

    def divide(self, values: Array) -> Array:
        """Return values of the shape of the data in units of their deviations, uncorrelated, as a vector."""
        if self.correlated:
            return np.linalg.solve(self.scale, values.ravel())
        return (values / self.scale).ravel()

    def whiten(self, left: Any, scale: Any) -> Any:
        """Return a tensor of differences in units of their deviations, uncorrelated.

        Args:
            left: `[...]`.
            scale: the tensor of `scale`.
        """
        if self.correlated:
            return tf.linalg.triangular_solve(scale, tf.reshape(left, [-1, 1]))[:, 0]
        return left / scale

    def of_each(self, shape: Sequence[int]) -> Array:
        """Return the standard deviation of each of the data, which are of `shape`."""
        return np.linalg.norm(self.scale, axis=1).reshape(shape) if self.correlated else self.scale


def deviations_of(sigma: Any, y: Array) -> "Deviations":
    """Return the `Deviations` of data `y`, real or complex, that the argument `sigma` says.

    Real ones are those of both parts of complex data; complex ones say those of the real and of the imaginary parts.

    Raises:
        ValueError: for another shape, or deviations that are not positive.
    """
    if sigma is None:
        return Deviations(np.ones([]), False)
    is_complex = y.dtype.kind == "c"
    sigma = as_numbers("sigma", sigma, complex_too=is_complex)
    if sigma.size == 1 and sigma.shape != y.shape and not (sigma.ndim == 2 and y.ndim < 2):  # a matrix is a covariance
        sigma = sigma.reshape([])
    if sigma.shape in (y.shape, ()):
        scale = parts_of(sigma) if sigma.dtype.kind == "c" else sigma
        if not np.all(scale > 0):
            raise ValueError(
                f"sigma holds standard deviations, which are positive. Received: sigma, the least {scale.min()}"
            )
        return Deviations(scale[..., None] if is_complex and scale is sigma and scale.ndim else scale, False)
    return Deviations(_factor(_covariance(sigma, y), sigma), True)


def _covariance(sigma: Any, y: Array) -> Array:
    """The covariance of all values; of complex ones, that of both parts of the first, of the second, and so on."""
    count = y.size
    if sigma.shape == (count, count) and y.dtype.kind != "c":
        return sigma
    if sigma.shape == (count, count) and sigma.dtype.kind != "c":
        return np.kron(sigma, np.eye(2))
    if sigma.shape == (2 * count, 2 * count) and y.dtype.kind == "c" and sigma.dtype.kind != "c":
        return sigma.reshape(2, count, 2, count).transpose(1, 0, 3, 2).reshape(sigma.shape)
    of_parts = (
        "; of complex data a real matrix is the covariance of either part, and one of twice as many rows and columns "
        "that of all real parts, and of all imaginary parts after them"
    )
    raise ValueError(
        "sigma has the shape of ydata (standard deviations), or is a matrix of one row and column for each value "
        f"(their covariance){of_parts * (y.dtype.kind == 'c')}. "
        f"Received: sigma of shape {sigma.shape}, ydata of shape {y.shape}"
    )


def _factor(covariance: Array, sigma: Any) -> Array:
    try:
        if np.allclose(covariance, covariance.T, rtol=1e-6, atol=1e-12 * np.abs(covariance).max()):
            return np.linalg.cholesky(covariance)
    except np.linalg.LinAlgError:
        pass
    raise ValueError(
        "sigma, a covariance matrix, must be symmetric and positive definite. "
        f"Received: sigma, {described_value(sigma)}"
    )


def parts_of(values: Any) -> Any:
    """Return real and imaginary parts `[..., 2]` of complex values `[...]`, a tensor or an array of NumPy."""
    if isinstance(values, np.ndarray):
        return np.stack([values.real, values.imag], axis=-1)
    return tf.stack([tf.math.real(values), tf.math.imag(values)], axis=-1)


def of_parts(parts: Array) -> Array:
    """Return the complex values `[...]` whose parts are an array `[..., 2]`."""
    return parts[..., 0] + 1j * parts[..., 1]


def complex_dtype(dtype: tf.DType) -> tf.DType:
    """Return the complex dtype whose parts have `dtype`, of TensorFlow."""
    return tf.complex64 if dtype == tf.float32 else tf.complex128
