"""Products of matrices in the precision of their dtype, which TensorFlow's are not on a GPU: there it rounds to TF32.

TF32 keeps 10 of the 23 bits of a float32's mantissa. Each factor x is split into two numbers that TF32 holds: high,
which is x rounded, and low, the rest, at most 2⁻¹¹ of it. Then

    x y = high high' + high low' + low high'    up to 2⁻²¹ of |x| |y|

where each product is exact in TF32, and added up in float32. A GPU cuts sums off as it adds: over 20,000 products the
error was 3e-5 of the largest sum on an NVIDIA H200, where that of float32 was 1e-6.
"""

import tensorflow as tf

from tfjac.ops import _gpu

_LOW_BITS = 23 - 10
"""Of a float32, those that TF32 does not have."""

_LARGEST = 2.0**128 - 2.0**117
"""Of the numbers that TF32 holds."""


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
    if dtype != tf.float32 or not tf.config.experimental.tensor_float_32_execution_enabled():
        return False
    return bool(tf.config.get_visible_devices("GPU")) and not _gpu.tf32_wanted() and not _gpu.runs_on_cpu()


def _exact(equation, x, y):
    of_x, of_y, of_product = equation.replace("->", ",").split(",")

    @tf.custom_gradient
    def product(x, y):
        (high, low), (other_high, other_low) = _split(x), _split(y)
        small = tf.einsum(equation, high, other_low) + tf.einsum(equation, low, other_high)
        large = tf.einsum(equation, _with_infinities(high, x), _with_infinities(other_high, y))

        def gradient(cotangent):
            return (
                _exact(f"{of_product},{of_y}->{of_x}", cotangent, y),
                _exact(f"{of_product},{of_x}->{of_y}", cotangent, x),
            )

        return large + _finite(small), gradient  # symmetric to the last bit where the exact product is

    return product(x, y)


def _split(x):
    """Give two parts that TF32 holds, of float32: high, rounded, and low, cut off; zeros of infinity and of NaN."""
    x = _finite(x)
    bits = tf.bitcast(tf.clip_by_value(x, -_LARGEST, _LARGEST), tf.int32)
    high = _cut_off(bits + (1 << (_LOW_BITS - 1)))
    return high, _cut_off(tf.bitcast(x - high, tf.int32))


def _cut_off(bits):
    return tf.bitcast(tf.bitwise.bitwise_and(bits, -(1 << _LOW_BITS)), tf.float32)


def _finite(x):
    """Zeros for infinity and NaN; products of high parts have them, and so say what comes of them and of overflow."""
    return tf.where(tf.math.is_finite(x), x, tf.zeros_like(x))


def _with_infinities(high, x):
    return tf.where(tf.math.is_finite(x), high, x)
