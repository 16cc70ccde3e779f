"""Checkers for users' own layers and functions: finite differences, and the adjoint test of products.

They use nothing of the rest of the package, so that they can judge it.
"""

import numpy as np
import tensorflow as tf

from tfjac.types import Array, Function, Tensor, TensorLike, Variable

__all__ = ["assert_adjoint", "assert_jacobian", "finite_differences"]


def finite_differences(function: Function, x: TensorLike, step: float | None = None) -> Array:
    """Return the Jacobian of `function` at x by central differences.

        J[i..., j...] ≈ (f(x + h e_j)[i...] − f(x − h e_j)[i...]) / 2h

    Args:
        function: from a tensor like x to a tensor; or, where x is a variable, a function without arguments that reads
            it. A variable is given its value back.
        x: array-like of a floating-point dtype, `tf.Variable` or `keras.Variable`.
        step: h; by default the cube root of the precision of x, times max(1, |x_j|), which balances rounding against
            truncation.

    Returns:
        NumPy array `[*y.shape, *x.shape]`, float64. About two thirds of the digits of the dtype are right: use float64.

    Raises:
        TypeError: for x that is not floating-point.

    Cost: two calls for each element of x.
    """
    value, evaluate = _as_function(function, x)
    if not np.issubdtype(value.dtype, np.floating):
        raise TypeError(f"x must be of a floating-point dtype to be moved a little. Received: dtype {value.dtype}")
    y = np.asarray(evaluate(value))
    columns = np.zeros((value.size, y.size))
    try:
        for index, at in enumerate(value.reshape(-1)):
            h = step if step is not None else np.cbrt(np.finfo(value.dtype).eps) * max(1.0, abs(float(at)))
            columns[index] = _slope(evaluate, value, index, h).reshape(-1)
    finally:
        evaluate(value)
    return columns.T.reshape(*y.shape, *value.shape)


def _slope(evaluate, value, index, h):
    ends, places = [], []
    for sign in (1, -1):
        moved = value.copy().reshape(-1)
        moved[index] += sign * h
        places.append(float(moved[index]))  # what rounding made of the step is part of the step
        ends.append(np.asarray(evaluate(moved.reshape(value.shape)), dtype=np.float64))
    return (ends[0] - ends[1]) / (places[0] - places[1])


def _as_function(function, x):
    if hasattr(x, "assign"):

        def evaluate(value):
            x.assign(value)
            return function()

        return np.array(tf.convert_to_tensor(x)), evaluate
    return np.array(x), lambda value: function(tf.constant(value))


def assert_jacobian(
    function: Function,
    x: TensorLike,
    jacobian: TensorLike,
    rtol: float = 1e-5,
    atol: float = 1e-7,
    step: float | None = None,
) -> None:
    """Check a Jacobian against finite differences.

    Args:
        function, x, step: as in `finite_differences`.
        jacobian: array-like `[*y.shape, *x.shape]`.
        rtol, atol: allowed relative and absolute error, for float64; in float32 about 1e-2.

    Raises:
        AssertionError: where the shapes differ, or an entry does by more than atol + rtol·|entry|, naming the worst.
    """
    expected, given = finite_differences(function, x, step), np.asarray(jacobian)
    if given.shape != expected.shape:
        raise AssertionError(
            f"The Jacobian must have the shape of y, then that of x: {expected.shape}. Received: shape {given.shape}"
        )
    error = np.abs(given - expected)
    excess = error - (atol + rtol * np.abs(expected))
    if expected.size and not np.all(excess <= 0):
        worst = np.unravel_index(np.argmax(np.where(np.isnan(excess), np.inf, excess)), excess.shape)
        raise AssertionError(
            f"The Jacobian differs from finite differences in {int(np.sum(~(excess <= 0)))} of {excess.size} entries, "
            f"most at {tuple(int(k) for k in worst)}: {expected[worst]:.6g} was expected. Received: {given[worst]:.6g}"
        )


def assert_adjoint(
    forward: Function,
    backward: Function,
    domain: Tensor | Variable | tf.TensorSpec,
    codomain: Tensor | Variable | tf.TensorSpec,
    rtol: float = 1e-8,
    trials: int = 3,
    seed: int = 0,
) -> None:
    """Check that two linear functions are each other's transpose: ⟨A v, u⟩ = ⟨v, Aᵀ u⟩ for random v and u.

    Args:
        forward: function of one tensor like `domain`, linear: v ↦ A v.
        backward: function of one tensor like `codomain`: u ↦ Aᵀ u.
        domain, codomain: tensors, variables or `tf.TensorSpec` of static shape, for shapes and dtypes.
        rtol: allowed error relative to ‖A v‖·‖u‖, for float64; in float32 about 1e-4.
        trials: number of random pairs.
        seed: of the random generator.

    Raises:
        AssertionError: where the products differ, with both.

    Example:
        assert_adjoint(lambda v: operator.matvec(v), lambda u: operator.matvec(u, adjoint=True), x, y)
    """
    rng = np.random.default_rng(seed)
    for _ in range(trials):
        v, u = (tf.constant(rng.normal(size=tuple(like.shape)), like.dtype) for like in (domain, codomain))
        pushed = _of_shape("forward", forward(v), codomain)
        pulled = _of_shape("backward", backward(u), domain)
        left, right = float(np.sum(pushed * u)), float(np.sum(pulled * v))
        scale = np.linalg.norm(pushed) * np.linalg.norm(u) + np.linalg.norm(pulled) * np.linalg.norm(v)
        if not abs(left - right) <= rtol * scale:
            raise AssertionError(
                "backward is not the transpose of forward: ⟨A v, u⟩ and ⟨v, Aᵀ u⟩ must agree. "
                f"Received: {left:.10g} and {right:.10g}"
            )


def _of_shape(name, result, like):
    result = np.asarray(result, np.float64)
    if result.shape != tuple(like.shape):
        raise AssertionError(f"{name} must give shape {tuple(like.shape)}. Received: shape {result.shape}")
    return result
