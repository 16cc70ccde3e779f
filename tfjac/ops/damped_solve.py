"""Symmetric matrices, right-hand sides and dampings to the damped solutions."""

import tensorflow as tf

from tfjac.ops import _factors, _library
from tfjac.types import Tensor, TensorLike


def damped_solve(
    matrix: TensorLike, rhs: TensorLike, scaling: TensorLike, damping: TensorLike
) -> tuple[Tensor, Tensor]:
    """Solve (A + λ diag(s)) x = b by Cholesky factorisation, for one λ or for several, or many such systems.

    Never raises for numbers: where the matrix is not positive definite, or anything going in or coming out is not
    finite, `success` is False and the solution is zero.

    Args:
        matrix: A, `[p,p]`, or `[k,p,p]` for k systems, float32 or float64; only its lower triangle is read. Half
            precision is computed, and comes back, in float32; so for all four.
        rhs: b, `[p]`, or `[k,p]` for k systems.
        scaling: s, `[p]`, or `[k,p]`.
        damping: λ, `[]` or `[k]`; `[k]` for k systems.

    Returns:
        (solution, success): `[p]` and a bool `[]`, or `[k,p]` and bools `[k]`.

    Raises:
        TypeError: if the dtypes are not all float32 or all float64.
        ValueError: if shapes that are known while tracing do not fit together.
        tf.errors.InvalidArgumentError: if shapes turn out not to fit when the op runs.

    Cost: k·p³/6 multiply-adds. The native op makes one copy of one A, whatever k is; twin and gradients make k.
    Differentiable with respect to all four (A taken as symmetric), any number of times; where the solution failed, the
    gradient is zero.
    """
    matrix = _factors.tensor(matrix, 2)
    rhs, scaling = (_factors.tensor(x, matrix.shape.rank - 1) for x in (rhs, scaling))
    damping = _factors.tensor(damping)
    _check(matrix, rhs, scaling, damping)
    native = _library.native_op("damped_solve")
    return (
        tuple(native(matrix=matrix, rhs=rhs, scaling=scaling, damping=damping))
        if native
        else twin(matrix, rhs, scaling, damping)
    )


def _check(matrix, rhs, scaling, damping):
    dtypes = [x.dtype for x in (matrix, rhs, scaling, damping)]
    if len(set(dtypes)) > 1 or dtypes[0] not in _factors.DTYPES:
        raise TypeError(
            "`matrix`, `rhs`, `scaling` and `damping` must all be float32, or all float64. "
            f"Received: {[dtype.name for dtype in dtypes]}"
        )
    shapes = [x.shape for x in (matrix, rhs, scaling, damping)]
    if not (_fit_one(*shapes) or _fit_many(*shapes)):
        raise ValueError(
            "The shapes must be matrix [p,p], rhs [p], scaling [p] and damping [] or [k]; or matrix [k,p,p], rhs "
            f"[k,p], scaling [k,p] and damping [k]. Received: {', '.join(str(shape) for shape in shapes)}"
        )


def _fit_one(matrix, rhs, scaling, damping):
    if matrix.rank != 2 or rhs.rank != 1 or damping.rank not in (None, 0, 1):
        return False
    return scaling.is_compatible_with(rhs) and matrix.is_compatible_with(rhs.concatenate(rhs))


def _fit_many(matrix, rhs, scaling, damping):
    if matrix.rank != 3 or rhs.rank != 2 or damping.rank not in (None, 1):
        return False
    square = rhs.concatenate(rhs[1:])
    return scaling.is_compatible_with(rhs) and damping.is_compatible_with(rhs[:1]) and matrix.is_compatible_with(square)


def twin(matrix, rhs, scaling, damping):
    """Compute `damped_solve` in plain TensorFlow."""
    rhs, scaling = tf.unstack(tf.stack([rhs, scaling]), num=2)  # open sizes must agree: nothing broadcasts
    if matrix.shape.rank == 3:
        return _solve(matrix, rhs, scaling, tf.reshape(damping, _factors.axes(rhs)[:1]))
    if damping.shape.rank is None:
        tf.debugging.assert_rank_in(damping, (0, 1), "`damping` must be [] or [k]")
    several = tf.reshape(damping, [-1])
    solution, success = _solve(*_for_each(several, matrix, rhs, scaling), several)
    shape = tf.shape(damping)
    return tf.reshape(solution, tf.concat([shape, _factors.axes(rhs)], axis=0)), tf.reshape(success, shape)


def _for_each(damping, *tensors):
    """Repeat tensors for each of `damping[k]`."""
    return [tf.broadcast_to(tensor, [*_factors.axes(damping), *_factors.axes(tensor)]) for tensor in tensors]


def _solve(matrix, rhs, scaling, damping):
    """Solve k systems, with the gradient of the native op, not that of its steps.

    TensorFlow's own gradient of a factorisation that failed is NaN, also where nothing depends on it.
    """
    lower = tf.stop_gradient(tf.linalg.band_part(matrix, -1, 0))
    diagonal = tf.stop_gradient(tf.linalg.diag_part(lower) + damping[:, None] * scaling)
    factor = tf.linalg.cholesky(tf.linalg.set_diag(lower, diagonal))  # reads the lower triangle; NaN where it fails
    solution = tf.linalg.cholesky_solve(factor, tf.stop_gradient(rhs)[..., None])[..., 0]
    # An infinite entry can leave a finite solution behind it, so what goes in is looked at as well.
    success = _all_finite(lower, [-2, -1]) & _all_finite(diagonal) & _all_finite(rhs) & _all_finite(solution)
    solution = tf.where(success[:, None], solution, tf.zeros_like(solution))
    return _differentiable(matrix, rhs, scaling, damping, solution, success), success


def _differentiable(matrix, rhs, scaling, damping, solution, success):
    """Give `solution`, a constant, with its derivatives, which are made of what this gives in their turn."""

    @tf.custom_gradient
    def solved(matrix, rhs, scaling, damping):
        def gradient(cotangent):
            again = _solve(matrix, cotangent, scaling, damping)
            x = _differentiable(matrix, rhs, scaling, damping, solution, success)
            return _pull_back(scaling, damping, x, success, *again)

        return tf.identity(solution), gradient

    return solved(matrix, rhs, scaling, damping)


def _all_finite(x, axes=-1):
    return tf.reduce_all(tf.math.is_finite(x), axes)


@_library.register_gradient("TfjacDampedSolve")
def _gradient(op, to_solution, _):
    matrix, _, scaling, damping = op.inputs
    solution, success = op.outputs
    if matrix.shape.rank == 3:
        again = damped_solve(matrix, to_solution, scaling, damping)
        return _pull_back(scaling, damping, solution, success, *again)
    several = tf.reshape(damping, [-1])
    matrices, scalings = _for_each(several, matrix, scaling)
    solutions, cotangents = (tf.reshape(each, _factors.axes(scalings)) for each in (solution, to_solution))
    again = damped_solve(matrices, cotangents, scalings, several)
    *sums, to_damping = _pull_back(scalings, several, solutions, tf.reshape(success, [-1]), *again)
    return *(tf.reduce_sum(each, 0) for each in sums), tf.reshape(to_damping, tf.shape(damping))


def _pull_back(scaling, damping, solution, success, again, known):
    """With M = A + λ diag(s) and w = M⁻¹ x̄:  b̄ = w,  M̄ = -w xᵀ.

    Args:
        scaling: s, `[k,p]`.
        damping: λ, `[k]`.
        solution, success: x and whether it is one, `[k,p]` and `[k]`.
        again, known: w, and whether that is one: not where the cotangent x̄ is not finite.
    """
    w = tf.where(known[:, None], again, tf.constant(float("nan"), again.dtype))  # NaN where it is not known
    w = tf.where(success[:, None], w, tf.zeros_like(w))
    product = -w[:, :, None] * solution[:, None]
    to_matrix = (product + tf.linalg.matrix_transpose(product)) / 2
    return to_matrix, w, -damping[:, None] * w * solution, -tf.reduce_sum(w * solution * scaling, axis=1)
