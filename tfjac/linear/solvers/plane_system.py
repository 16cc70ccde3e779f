"""Any solver, for steps in a plane N p = 0."""

import numpy as np
import tensorflow as tf

from tfjac.linear.contracts import LinearModel
from tfjac.linear.model import Frame, PlaneLinearisation
from tfjac.linear.solvers.base import Solve, Solved, Solver, System, finite_or_zeros
from tfjac.linear.solvers.precision import prepared
from tfjac.types import GramDType, Tensor


class PlaneSystem(System):
    """(JᵀJ + λD + Λ) p + Nᵀμ = −g, N p = 0.

    Its gradient is g − Nᵀμ, with the multipliers that leave least of it measured by the columns of J: zero at a minimum
    in the plane.

    Args:
        linearisation: `Linearisation`.
        normals: `[k, p]`, N.
        gram_dtype: as for `prepared`.
    """

    def __init__(
        self, solver: Solver, linearisation: LinearModel, normals: Tensor, gram_dtype: GramDType | None
    ) -> None:
        self._solver, self._linearisation, self._gram_dtype = solver, linearisation, gram_dtype
        self._normals, self.diagonal = normals, linearisation.diagonal()
        metric = self.diagonal + linearisation.prior.precision
        self._free = linearisation.only_free(tf.ones_like(metric))
        frame = Frame(normals, tf.where(metric > 0, metric, tf.ones_like(metric)), self._free)
        self.gradient = linearisation.only_free(frame.cotangent(linearisation.gradient()))

    def solver(self, scaling: Tensor) -> Solve:
        frame = Frame(self._normals, scaling, self._free)
        system = prepared(self._solver, PlaneLinearisation(self._linearisation, frame), self._gram_dtype)
        solve = system.solver(tf.ones_like(scaling))
        # Across the plane there is nothing but rounding, which without damping would be solved for.
        rounding = np.finfo(scaling.dtype.as_numpy_dtype).eps
        least = rounding * tf.reduce_max((self.diagonal + self._linearisation.prior.precision) / scaling)

        def solve_in_plane(damping: Tensor, residual: Tensor | None = None) -> Solved:
            damping = tf.maximum(damping, least)
            if residual is not None and not self._linearisation.prior.is_zero:
                residual = tf.concat([residual, tf.zeros_like(scaling)], axis=0)
            vector, solved = solve(damping, residual)
            return finite_or_zeros(frame.forward(vector), solved)

        return solve_in_plane

    def quadratic(self, step: Tensor) -> Tensor:
        return self._linearisation.quadratic(step)
