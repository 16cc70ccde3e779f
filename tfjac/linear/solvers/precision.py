"""Any solver, in float64, for variables in float32: squaring J costs half of the digits, which then there are."""

from typing import Any

import tensorflow as tf

from tfjac.linear import arrays
from tfjac.linear.contracts import LinearModel
from tfjac.linear.solvers.base import Solve, Solved, Solver, System, finite_or_zeros
from tfjac.types import GramDType, Tensor


def prepared(solver: Solver, linearisation: LinearModel, gram_dtype: GramDType | None) -> System:
    """Return the `System` that a solver makes of a `Linearisation`, computed in `gram_dtype` where that is not None."""
    if gram_dtype is None or tf.as_dtype(gram_dtype) == linearisation.dtype:
        return solver.prepare(linearisation)
    return rounded(solver.prepare(linearisation.cast(tf.as_dtype(gram_dtype))), linearisation.dtype)


def rounded(system: System, dtype: tf.DType) -> System:
    """Return a `System` that is given and gives `dtype`, whatever it computes in."""
    return system if system.gradient.dtype == dtype else _Widened(system, dtype)


def checked_gram_dtype(value: Any) -> GramDType | None:
    """Return None or "float64", whichever was given; raise ValueError for anything else."""
    if value is None or value in ("float64", tf.float64):
        return value and "float64"
    raise ValueError(
        "gram_dtype must be None, to compute in the dtype of the variables, or 'float64'. "
        f"Received: gram_dtype={value!r}"
    )


class _Widened(System):
    """A system in more precision than what it is given and gives."""

    def __init__(self, system: System, dtype: tf.DType) -> None:
        self._system, self._dtype, self._wide = system, dtype, system.gradient.dtype
        self.gradient, self.diagonal = arrays.cast(system.gradient, dtype), arrays.cast(system.diagonal, dtype)

    def solver(self, scaling: Tensor) -> Solve:
        solve = self._system.solver(arrays.cast(scaling, self._wide))

        def solve_and_round(damping: Tensor, residual: Tensor | None = None) -> Solved:
            residual = None if residual is None else arrays.cast(residual, self._wide)
            step, solved = solve(arrays.cast(damping, self._wide), residual)
            return finite_or_zeros(arrays.cast(step, self._dtype), solved)

        return solve_and_round

    def effective_parameters(self) -> Tensor:
        return arrays.cast(self._system.effective_parameters(), self._dtype)

    def quadratic(self, step: Tensor) -> Tensor:
        return arrays.cast(self._system.quadratic(arrays.cast(step, self._wide)), self._dtype)
