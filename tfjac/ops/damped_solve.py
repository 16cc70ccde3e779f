"""A symmetric matrix, a right-hand side and dampings to the damped solutions."""

import tensorflow as tf

from tfjac.ops import _factors, _library


def damped_solve(matrix, rhs, scaling, damping):
    """Solve (A + λ diag(s)) x = b by Cholesky factorisation, for one λ or for several.

    Never raises for numbers: where the matrix is not positive definite, or anything going in or coming out is not
    finite, `success` is False and the solution is zero.

    Args:
        matrix: A, `[p,p]`, float32 or float64; only its lower triangle is read.
        rhs: b, `[p]`.
        scaling: s, `[p]`.
        damping: λ, `[]` or `[k]`.

    Returns:
        (solution, success): `[p]` and a bool `[]`, or `[k,p]` and bools `[k]`.

    Raises:
        TypeError: if the dtypes are not all float32 or all float64.
        ValueError: if shapes that are known while tracing do not fit together.
        tf.errors.InvalidArgumentError: if shapes turn out not to fit when the op runs.

    Cost: k·p³/6 multiply-adds. The native op makes one copy of A, whatever k is, as does the twin.
    Differentiable with respect to all four (A taken as symmetric); where the solution failed, the gradient is zero.
    """
    matrix, rhs, scaling, damping = (tf.convert_to_tensor(x) for x in (matrix, rhs, scaling, damping))
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
    p = shapes[1]
    square = p.concatenate(p) if p.rank == 1 else None
    if (
        p.rank not in (None, 1)
        or shapes[3].rank not in (None, 0, 1)
        or not shapes[2].is_compatible_with(p)
        or not shapes[0].is_compatible_with(square)
    ):
        raise ValueError(
            "The shapes must be matrix [p,p], rhs [p], scaling [p] and damping [] or [k]. "
            f"Received: {', '.join(str(shape) for shape in shapes)}"
        )


def twin(matrix, rhs, scaling, damping):
    """Compute `damped_solve` in plain TensorFlow."""
    if damping.shape.rank == 0:
        return _solve_one(matrix, rhs, scaling, damping)
    if damping.shape[0] == 0:  # XLA refuses a loop over nothing
        return tf.zeros([0, *_factors.axes(rhs)], rhs.dtype), tf.zeros([0], tf.bool)
    return tf.map_fn(
        lambda one: _solve_one(matrix, rhs, scaling, one),
        damping,
        fn_output_signature=(tf.TensorSpec(rhs.shape, rhs.dtype), tf.TensorSpec([], tf.bool)),
    )


def _solve_one(matrix, rhs, scaling, damping):
    lower = tf.linalg.band_part(matrix, -1, 0)
    diagonal = tf.linalg.diag_part(matrix) + damping * scaling
    symmetric = tf.linalg.set_diag(lower + tf.transpose(lower), diagonal)  # both halves: the gradient looks at them
    factor = tf.linalg.cholesky(symmetric)  # NaN where it fails
    solution = tf.linalg.cholesky_solve(factor, rhs[:, None])[:, 0]
    # An infinite entry can leave a finite solution behind it, so what goes in is looked at as well.
    success = _all_finite(lower) & _all_finite(diagonal) & _all_finite(rhs) & _all_finite(solution)
    return tf.where(success, solution, tf.zeros_like(solution)), success


def _all_finite(x):
    return tf.reduce_all(tf.math.is_finite(x))


@_library.register_gradient("TfjacDampedSolve")
def _gradient(op, to_solution, _):
    """With M = A + λ diag(s) and w = M⁻¹ x̄:  b̄ = w,  M̄ = -w xᵀ."""
    matrix, _, scaling, damping = op.inputs
    solution, success = op.outputs
    if damping.shape.rank == 0:
        w = tf.where(success, damped_solve(matrix, to_solution, scaling, damping)[0], 0)[None]
        solution = solution[None]
    else:
        w = tf.map_fn(
            lambda one: damped_solve(matrix, one[0], scaling, one[1])[0],
            (to_solution, damping),
            fn_output_signature=tf.TensorSpec(scaling.shape, scaling.dtype),
        )
        w = tf.where(success[:, None], w, 0)
    product = -tf.matmul(w, solution, transpose_a=True)
    to_matrix = (product + tf.transpose(product)) / 2
    along = tf.reshape(damping, [-1, 1])
    to_damping = tf.reshape(-tf.reduce_sum(w * solution * scaling, axis=-1), tf.shape(damping))
    return to_matrix, tf.reduce_sum(w, 0), -tf.reduce_sum(along * w * solution, 0), to_damping
