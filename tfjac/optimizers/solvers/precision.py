"""Any solver, in float64, for variables in float32: squaring J costs half of the digits, which then there are."""

import tensorflow as tf

from tfjac.optimizers.contracts import LinearModel
from tfjac.optimizers.solvers.base import Solver, System, finite_or_zeros


def prepared(solver: Solver, linearisation: LinearModel, gram_dtype) -> System:
    """Return the `System` that a solver makes of a `Linearisation`, computed in `gram_dtype` where that is not None."""
    if gram_dtype is None or tf.as_dtype(gram_dtype) == linearisation.dtype:
        return solver.prepare(linearisation)
    return rounded(solver.prepare(linearisation.cast(tf.as_dtype(gram_dtype))), linearisation.dtype)


def rounded(system, dtype):
    """Return a `System` that is given and gives `dtype`, whatever it computes in."""
    return system if system.gradient.dtype == dtype else _Widened(system, dtype)


def checked_gram_dtype(value):
    """Return None or "float64", whichever was given; raise ValueError for anything else."""
    if value is None or value in ("float64", tf.float64):
        return value and "float64"
    raise ValueError(
        "gram_dtype must be None, to compute in the dtype of the variables, or 'float64'. "
        f"Received: gram_dtype={value!r}"
    )


class _Widened(System):
    """A system in more precision than what it is given and gives."""

    def __init__(self, system, dtype):
        self._system, self._dtype, self._wide = system, dtype, system.gradient.dtype
        self.gradient, self.diagonal = tf.cast(system.gradient, dtype), tf.cast(system.diagonal, dtype)

    def solver(self, scaling):
        solve = self._system.solver(tf.cast(scaling, self._wide))

        def solve_and_round(damping, residual=None):
            residual = None if residual is None else tf.cast(residual, self._wide)
            step, solved = solve(tf.cast(damping, self._wide), residual)
            return finite_or_zeros(tf.cast(step, self._dtype), solved)

        return solve_and_round

    def effective_parameters(self):
        return tf.cast(self._system.effective_parameters(), self._dtype)

    def quadratic(self, step):
        return tf.cast(self._system.quadratic(tf.cast(step, self._wide)), self._dtype)
