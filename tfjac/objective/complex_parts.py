"""Complex numbers as pairs of real ones: both parts of a residual are fitted, and each has its own deviation."""

from typing import Any

import numpy as np
import tensorflow as tf

from tfjac.types import Array


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
