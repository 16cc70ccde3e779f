"""Levenberg–Marquardt by hand: a loop in Python around whatever engine sums up the parts of the data."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from tfjac.arguments import as_numbers, positive_integer
from tfjac.drive.interrupts import Interrupts
from tfjac.drive.streamed.attempts import Start, judged, propose
from tfjac.drive.streamed.sums import Equations
from tfjac.fits.normal_equations import NormalEquations
from tfjac.fits.parts_conditions import PartsConditions
from tfjac.steps.converge import Stretch, first_cost_by, standing_of, status_after, tolerances
from tfjac.steps.method import DampingLike, Method, ScalingLike
from tfjac.steps.records import Outcome, State
from tfjac.steps.statuses import Status
from tfjac.types import Array, ArrayLike, Pair


def least_squares_by_parts(
    total: Callable[[Array], NormalEquations],
    start: ArrayLike,
    max_steps: int = 1000,
    ftol: float | None = None,
    xtol: float | None = None,
    gtol: float | None = None,
    damping: DampingLike = "nielsen",
    scaling: ScalingLike = "more",
    min_gain: float = 1e-3,
    callback: Callable[[int, Array, float], Any] | None = None,
    bounds: Pair | None = None,
    prior: Pair | None = None,
) -> Outcome:
    """Minimise ½‖r‖² where JᵀJ, Jᵀr and the cost come from elsewhere, as sums over parts of the data.

        def total(position):
            return sum(worker.normal_equations_at(position) for worker in workers)

        result = tfjac.least_squares_by_parts(total, start)

    Every step takes one call of `total`, which linearises where it evaluates; after a rejected step the JᵀJ there is
    is solved again with more damping.

    Args:
        total: function from the parameters `[p]`, NumPy, to the `NormalEquations` of all data there.
        start: `[p]`, float32 or float64 (other numbers become float64).
        max_steps: at most so many steps, accepted or not.
        ftol, xtol, gtol: as for `least_squares`; where None, √ε of the coarsest dtype among start and parts.
        damping, scaling, min_gain: as for `least_squares`.
        callback: function of the number of steps, the parameters and the cost, called after each step; training ends
            where it returns True, or raises StopIteration. None for none.
        bounds: `(lower, upper)`, each None, a number or an array `[p]`, within which all steps stay, as the start must.
        prior: `(mean, deviation)`, each a number or an array `[p]`, as for `least_squares`. It is added here, once.

    A robust loss is of each residual, so that the parts know it: `normal_equations(..., loss="huber")`.

    Ctrl-C ends it after the step under way, pressed again at once, with the best point and the status INTERRUPTED.

    Returns:
        An `Outcome` of NumPy numbers: x `[p]`, cost, gradient_norm, status, steps, evaluations and the like.

    Raises:
        TypeError: where `total` returns anything but `NormalEquations`.
        ValueError: for bad options, or normal equations of another number of parameters, or at another point.
    """
    position = as_numbers("start", start).astype(np.float32 if np.asarray(start).dtype == np.float32 else np.float64)
    if position.ndim != 1 or not position.size:
        raise ValueError(f"start must be a vector of parameters. Received: an array of shape {position.shape}")
    tolerances(ftol, xtol, gtol, tf.as_dtype(position.dtype))
    method = Method.of(damping, scaling, "cholesky", 1, min_gain)
    descent = _Descent(total, method, (ftol, xtol, gtol), callback, PartsConditions(position, bounds, prior))
    with Interrupts() as interrupts:
        return descent.run(position, positive_integer("max_steps", max_steps), interrupts)


class _Descent:
    def __init__(
        self, total: Callable, method: Method, asked: tuple, callback: Callable | None, conditions: PartsConditions
    ) -> None:
        self._conditions = conditions
        self._total, self._method, self._asked, self._callback = total, method, asked, callback
        self.steps = self.accepted = 0

    def run(self, position: Array, max_steps: int, interrupts: Interrupts) -> Outcome:
        """Take steps until a tolerance is met, or `Interrupts` are pending, and return the `Outcome`."""
        here = self._at(position)
        ftol, xtol, gtol = self._asked
        limits = tolerances(ftol, xtol, gtol, _coarsest(position, here.gram, here.position))
        state = State((tf.zeros([], position.dtype),) * len(self._method.damping.state_names), tf.zeros_like(position))
        first_cost, status, stands = np.nan, Status.RUNNING, False
        rejected = promised = tf.zeros([], position.dtype)
        stretch = Stretch.begun(promised)
        while status is Status.RUNNING:
            free = self._conditions.free(here, position)
            start = _start(free, position)
            awaited, state, usable, report = propose(start, state, self._method, rejected, promised)
            step = self._conditions.within(free, position, awaited.step.numpy())
            awaited = awaited._replace(step=tf.constant(step, position.dtype))
            if not usable:
                status = Status(int(report.status))
                break
            if not rejected:
                standing = Status(int(standing_of(report, limits, first_cost, stretch.is_long)))
            if self.steps == max_steps or (standing.converged and stands and not rejected):
                status = standing if standing.converged else Status.MAX_STEPS
                break
            end = position + awaited.step.numpy()
            try:
                there, self.steps = self._at(end), self.steps + 1
            except KeyboardInterrupt:
                status, interrupts.pending = Status.INTERRUPTED, False
                break
            gain = here.cost - there.cost if _is_finite(there) else -np.inf
            cost, gain = (tf.constant(each, position.dtype) for each in (there.cost, gain))
            state, report, promised = judged(start, awaited, state, self._method, cost, gain)
            first_cost = first_cost_by(first_cost, report)
            stretch = stretch.after(report, limits)
            status = Status(int(status_after(report, np.int32(standing), limits)))
            if status is Status.STALLED:
                status = Status.STALLED if int(report.status) == Status.STALLED else Status.RUNNING
            if report.accepted:
                position, here, self.accepted = end, there, self.accepted + 1
            stands = bool(report.accepted) and standing.converged
            rejected = rejected * 0 if report.accepted else rejected + 1
            if self._stops(position, here.cost):
                status = Status.STOPPED
            if interrupts.pending and status is Status.RUNNING:
                status, interrupts.pending = Status.INTERRUPTED, False
        norm = np.abs(self._conditions.free(here, position).gradient).max()
        damping = float(state.damping[self._damping_at()])
        calls = self.steps + 1
        return Outcome(position, here.cost, norm, status, self.steps, self.steps, calls, damping)

    def _stops(self, position: Array, cost: float) -> Any:
        try:
            return self._callback is not None and self._callback(self.steps, position.copy(), cost)
        except StopIteration:
            return True

    def _at(self, position: Array) -> NormalEquations:
        found = self._total(position.copy())
        if not isinstance(found, NormalEquations):
            raise TypeError(
                "total must return the sum of what tfjac.normal_equations returns for the parts of the data. "
                f"Received: {found!r}"
            )
        if found.num_parameters != position.size:
            raise ValueError(
                f"total must return normal equations in the {position.size} parameters it was given. "
                f"Received: those in {found.num_parameters}"
            )
        if not found.is_at(position):
            raise ValueError(
                "total must return normal equations at the parameters it was given: assign them to the variables of "
                f"all parts before. Received: those at {found.position}, for the parameters {position}"
            )
        return self._conditions.with_prior(found, position)

    def _damping_at(self) -> int:
        return self._method.damping.state_names.index("damping")


def _is_finite(equations: NormalEquations) -> bool:
    return bool(np.isfinite(equations.gram).all() and np.isfinite(equations.gradient).all())


def _coarsest(*arrays: Array | None) -> tf.DType:
    """Return the dtype, TensorFlow's, of fewest digits among those of arrays, and of None."""
    dtypes = [array.dtype for array in arrays if array is not None]
    return tf.as_dtype(min(dtypes, key=lambda dtype: dtype.itemsize))


def _start(here: NormalEquations, position: Array) -> Start:
    gram = tf.constant(here.gram)
    rows = tf.constant(here.num_residuals, tf.float64)
    equations = Equations(gram, tf.constant(here.gradient), tf.zeros_like(gram[0]), rows)
    return Start(equations, tf.constant(position), tf.constant(here.cost, position.dtype))
