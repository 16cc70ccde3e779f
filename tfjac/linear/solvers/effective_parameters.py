"""The effective number of parameters, γ = tr(JᵀJ (JᵀJ + Λ)⁻¹): how many the residuals determine, not the prior."""

import tensorflow as tf

from tfjac.types import Tensor


def of_gram(matrix: Tensor, precision: Tensor) -> Tensor:
    """Return γ = p − tr(Λ (JᵀJ + Λ)⁻¹), from JᵀJ + Λ `[p, p]` and Λ `[p]`.

    Computed in float64; NaN where the matrix is not positive definite. Cost: about p³ flops.
    """
    return _of_triangle(tf.linalg.cholesky(tf.cast(matrix, tf.float64)), precision, matrix.dtype)


def of_kernel(kernel: Tensor) -> Tensor:
    """Return γ = N − tr((I + K)⁻¹), from K = J Λ⁻¹ Jᵀ `[N, N]`."""
    ones = tf.ones_like(kernel[0])
    return of_gram(kernel + tf.linalg.diag(ones), ones)


def of_rows(rows: Tensor, precision: Tensor) -> Tensor:
    """Return γ from rows R, `[k, p]`, with RᵀR = JᵀJ, which is not formed: [R; √Λ] is factored."""
    rows, root = tf.cast(rows, tf.float64), tf.sqrt(tf.cast(precision, tf.float64))
    _, triangle = tf.linalg.qr(tf.concat([rows, tf.linalg.diag(root)], axis=0))
    return _of_triangle(tf.transpose(triangle), precision, precision.dtype)


def _of_triangle(triangle: Tensor, precision: Tensor, dtype: tf.DType) -> Tensor:
    """Return γ = p − ‖L⁻¹ √Λ‖² for L Lᵀ = JᵀJ + Λ."""
    root = tf.linalg.diag(tf.sqrt(tf.cast(precision, tf.float64)))
    finite = tf.reduce_all(tf.math.is_finite(triangle)) & tf.reduce_all(tf.linalg.diag_part(triangle) != 0)
    safe = tf.where(finite, triangle, tf.eye(tf.shape(root)[0], dtype=tf.float64))
    held = tf.reduce_sum(tf.square(tf.linalg.triangular_solve(safe, root)))
    number = tf.cast(tf.shape(root)[0], tf.float64) - held
    return tf.cast(tf.where(finite, number, tf.constant(float("nan"), tf.float64)), dtype)
