"""Products of matrices in the precision of their dtype, which TensorFlow's are not on a GPU: there it rounds to TF32.

TF32 keeps 10 of the 23 bits of a float32's mantissa. Each factor x is split, x = high + low: the high part is rounded
to what TF32 holds, so that products of it are exact, and the low part is at most 2⁻¹¹ of it. Then

    x y = high high' + high low' + low high'    up to 2⁻²¹ of |x| |y|

each of the three a product in TF32, added up in float32.
"""

import tensorflow as tf

from tfjac.ops import _gpu

_LOW_BITS = 23 - 10
"""Of a float32, those that TF32 does not have."""


def einsum(equation, x, y):
    """Compute `tf.einsum` of two tensors; every index is in two of the three terms of the equation at least."""
    return _exact(equation, x, y) if _would_round(x.dtype) else tf.einsum(equation, x, y)


def matmul(x, y, transpose_a=False, transpose_b=False):
    """Compute `tf.linalg.matmul` of two tensors of one rank."""
    if not _would_round(x.dtype):
        return tf.linalg.matmul(x, y, transpose_a=transpose_a, transpose_b=transpose_b)
    return _exact(f"...{'ji' if transpose_a else 'ij'},...{'kj' if transpose_b else 'jk'}->...ik", x, y)


def matvec(x, y, transpose_a=False):
    """Compute `tf.linalg.matvec` of a matrix and a vector, or as many of both."""
    if not _would_round(x.dtype):
        return tf.linalg.matvec(x, y, transpose_a=transpose_a)
    return _exact(f"...{'ji' if transpose_a else 'ij'},...j->...i", x, y)


def _would_round(dtype):
    """Whether TensorFlow may round factors of this dtype where the product that is traced, or called, here will run."""
    if dtype != tf.float32 or _gpu.tf32_wanted() or not tf.config.experimental.tensor_float_32_execution_enabled():
        return False
    return bool(tf.config.get_visible_devices("GPU")) and not _gpu.runs_on_cpu()


def _exact(equation, x, y):
    of_x, of_y, of_product = equation.replace("->", ",").split(",")

    @tf.custom_gradient
    def product(x, y):
        (high, low), (other_high, other_low) = _split(x), _split(y)
        small = tf.einsum(equation, _finite(high), other_low) + tf.einsum(equation, low, _finite(other_high))

        def gradient(cotangent):
            return (
                _exact(f"{of_product},{of_y}->{of_x}", cotangent, y),
                _exact(f"{of_product},{of_x}->{of_y}", cotangent, x),
            )

        return tf.einsum(equation, high, other_high) + small, gradient  # symmetric where x y is, to the last bit

    return product(x, y)


def _split(x):
    """Give the high part of float32, rounded to TF32, and the low part: zero of infinity, and NaN of NaN."""
    bits = tf.bitcast(x, tf.int32)
    truncated, rounded = (_without_low_bits(each) for each in (bits, bits + (1 << (_LOW_BITS - 1))))
    high = tf.where(tf.math.is_finite(rounded), rounded, truncated)  # the largest numbers would be rounded to infinity
    return high, tf.where(x == high, tf.zeros_like(x), x - high)


def _without_low_bits(bits):
    return tf.bitcast(tf.bitwise.bitwise_and(bits, -(1 << _LOW_BITS)), tf.float32)


def _finite(high):
    """Zeros for infinity and NaN, which are in the product of the high parts: infinity times zero would be NaN."""
    return tf.where(tf.math.is_finite(high), high, tf.zeros_like(high))
