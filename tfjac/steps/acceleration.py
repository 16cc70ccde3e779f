"""Second order along the step: geodesic acceleration."""

import copy
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfjac.arguments import Configured, positive, resolve
from tfjac.linear.contracts import LinearModel
from tfjac.linear.solvers import Solver
from tfjac.steps.damping.base import Proposal
from tfjac.steps.damping.scaling import scaled_norm
from tfjac.steps.objective import Objective
from tfjac.types import Function, Tensor

ROUNDINGS = 32
"""Rounding errors of a residual, and of its change, that its second derivative must exceed."""


@keras.saving.register_keras_serializable("tfjac")
class GeodesicAcceleration(Configured):
    """Follows the curve of the model rather than its tangent, where residuals are bent: the step v + ½a,

        (JᵀJ + λD + Λ) v = −g,    (JᵀJ + λD + Λ) a = −Jᵀ d²r(w + t·v)/dt²

    The second derivative along v is a difference, 2(r(w + hv) − r(w) − h·Jv)/h². It says what the first tenth of the
    step is like, which a step as a whole does not. In it, what is rounding counts as zero. If a is too long for the
    parabola to be trusted, ‖D^½ a‖ > limit·‖D^½ v‖, or cannot be had, the step is v. The model that ρ compares with is
    that of v alone.

    Args:
        limit: α.
        difference: h, a part of v.

    Cost: for each attempt, one more solve, one evaluation of the residuals, and one product with each of J and Jᵀ.
    Reference: M. K. Transtrum, J. P. Sethna, "Improvements to the Levenberg-Marquardt algorithm for nonlinear
    least-squares minimization", 2012.
    """

    def __init__(self, limit: float = 0.75, difference: float = 0.1) -> None:
        self.limit, self.difference = positive("limit", limit), positive("difference", difference)
        self._where: Tensor | None = None

    def where(self, condition: Tensor) -> "GeodesicAcceleration":
        """Return the same where a condition holds, a scalar bool of the graph being traced, and none elsewhere."""
        other = copy.copy(self)
        other._where = condition
        return other

    def suits(self, solver: Solver, objective: Objective, model: LinearModel) -> bool | Tensor:
        """Return whether to bend the steps of a `Solver`: a bool, or a scalar tensor where the batch decides."""
        return True if self._where is None else self._where

    def bend(
        self, proposal: Proposal, solve: Function, residual: Tensor, change: Tensor, linear: Tensor, scaling: Tensor
    ) -> Tensor:
        """Return ½a `[p]`, or zeros if it is too long.

        Args:
            proposal: the `Proposal` of v.
            solve: what the `solver` of a `System` returned.
            residual: r(w), `[rows]`.
            change: r(w + hv) − r(w), `[rows]`.
            linear: Jv, `[rows]`.
            scaling: `[p]`, D.
        """
        bent = change - self.difference * linear
        rounding = ROUNDINGS * np.finfo(bent.dtype.as_numpy_dtype).eps * (tf.abs(residual) + tf.abs(change))
        half = tf.where(tf.abs(bent) > rounding, bent, tf.zeros_like(bent)) / self.difference**2
        bend, solved = solve(proposal.damping, half)
        short = solved & (2 * scaled_norm(bend, scaling) <= self.limit * proposal.length)
        return tf.where(short, bend, tf.zeros_like(bend))


@keras.saving.register_keras_serializable("tfjac")
class AutoAcceleration(GeodesicAcceleration):
    """Geodesic acceleration where it pays: for sums of squares, with solvers that factor a matrix and keep the factor.

    There another solve costs little beside J. Networks that solve equations, or that can meet their targets, take a
    fraction of the steps. For cross-entropies and robust losses, it gains nothing.

    Args:
        limit, difference: see `GeodesicAcceleration`.
        wide: whether to bend steps for fewer residuals than parameters, too. If each batch has other examples, these
            steps meet a batch too well.
    """

    def __init__(self, limit: float = 0.75, difference: float = 0.1, wide: bool = True) -> None:
        super().__init__(limit, difference)
        self.wide = bool(wide)

    def suits(self, solver: Solver, objective: Objective, model: LinearModel) -> bool | Tensor:
        """Return whether steps gain more than they cost when they are bent."""
        if not objective.sums_squares or not solver.solves_again_cheaply:
            return False
        if objective.is_shared and not self.wide:  # no worker knows the rows of all
            return False
        suits = self.wide or model.num_rows >= model.num_parameters
        return suits if suits is False or self._where is None else self._where & suits


def get_acceleration(acceleration: Any) -> GeodesicAcceleration | None:
    """Return the object that `acceleration` names, or itself, or None for none."""
    if acceleration is None:
        return None
    return resolve("acceleration", acceleration, {"auto": AutoAcceleration, "geodesic": GeodesicAcceleration})
