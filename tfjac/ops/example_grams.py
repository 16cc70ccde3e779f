"""Dense Jacobians to the normal equations of each example by itself."""

import tensorflow as tf

from tfjac.ops import _factors, _library, _products
from tfjac.types import Tensor, TensorLike


def example_grams(jacobian: TensorLike, residual: TensorLike) -> tuple[Tensor, Tensor]:
    """Compute JᵀJ and Jᵀr of each example.

        gram[n,i,j] = sum_m J[n,m,i] J[n,m,j],    gradient[n,i] = sum_m J[n,m,i] r[n,m]

    Args:
        jacobian: J, `[n,m,p]`, float32 or float64. Half precision is computed, and comes back, in float32.
        residual: r, `[n,m]`, of the same dtype.

    Returns:
        (gram, gradient): `[n,p,p]` and `[n,p]`.

    Raises:
        TypeError: if the dtypes are not both float32 or both float64.
        ValueError: if shapes that are known while tracing do not fit together.
        tf.errors.InvalidArgumentError: if shapes turn out not to fit when the op runs.

    Cost: n·m·p²/2 multiply-adds and one reading of J.
    Differentiable with respect to both, any number of times.
    """
    jacobian, residual = _factors.tensor(jacobian, 3), _factors.tensor(residual, 2)
    if jacobian.dtype != residual.dtype or jacobian.dtype not in _factors.DTYPES:
        raise TypeError(
            "`jacobian` and `residual` must both be float32, or both float64. "
            f"Received: {jacobian.dtype.name}, {residual.dtype.name}"
        )
    shapes = jacobian.shape, residual.shape
    if shapes[0].rank != 3 or shapes[1].rank != 2 or not shapes[0][:2].is_compatible_with(shapes[1]):
        raise ValueError(
            f"The shapes must be jacobian [n,m,p] and residual [n,m]. Received: {', '.join(map(str, shapes))}"
        )
    native = _library.native_op("example_grams")
    return tuple(native(jacobian=jacobian, residual=residual)) if native else twin(jacobian, residual)


def twin(jacobian, residual):
    """Compute `example_grams` in plain TensorFlow."""
    both = tf.concat([jacobian, residual[:, :, None]], axis=2)  # sizes that are open must agree: nothing broadcasts
    products = _products.matmul(jacobian, both, transpose_a=True)
    return products[:, :, :-1], products[:, :, -1]


@_library.register_gradient("TfjacExampleGrams")
def _gradient(op, to_gram, to_gradient):
    jacobian, residual = op.inputs
    through_gram = _products.matmul(jacobian, to_gram + tf.linalg.matrix_transpose(to_gram))
    return through_gram + residual[:, :, None] * to_gradient[:, None], _products.matvec(jacobian, to_gradient)
