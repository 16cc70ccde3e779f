"""An objective in units of the targets: weights that residuals are linear in begin in them, and may go as far.

Weights and outputs of a new network are of size one, and with D = I all weights are as short of a step. That suits
targets that are standardised. Others ask for a last layer of another size, and for offsets. Residuals are linear in
these weights, so no step is too long there for the model of the loss. But if all weights explain the mean of the
targets, or their size, the layers below saturate. So there are a start and a unit. With J and w of the weights that
residuals are linear in together, r − J w is what there is to explain, and v its square beside offsets, which are the
vectors among these weights:

    b = −Jᵀ(r − J w) / diag(JᵀJ),    v = ‖r − J w + J b‖²

The *start* takes the place of the step on one of the first batches, if it leaves a fifth of the squares or less. The
weights are multiplied by s, so that outputs deviate no more than targets, and b is added. The next batch begins again:

    w ← s w + b,    s = min(1, √(v / ‖J w‖²))

The *unit* is what these weights are measured in, from the first batch on that needs no start:

    u = √(v / d)

d is the largest of what one unit of them explains: diag(JᵀJ), added up over the last axis of a weight, which is that of
outputs. From a tenth to two, u is one: targets that are standardised are trained as with D = I. u stays what it is, as
what earlier batches said is remembered in these units. So a network takes the same steps in any unit of its targets.
Losses need to be of errors: squares, or less than squares far off, as Huber's. Then r says where the targets are.
"""

from typing import Any

import numpy as np
import tensorflow as tf

from tfjac.graph import cond
from tfjac.linear.contracts import AS_FACTORS, Allowed, LinearModel
from tfjac.linear.model import Units
from tfjac.objective.terms import are_errors
from tfjac.objective.wrapped import WrappedObjective
from tfjac.steps.records import Report
from tfjac.steps.statuses import Status
from tfjac.types import Tensor

LARGE, TINY = 2.0, 0.1
"""Variables keep their own unit up to the first, and down to the second."""

FAR = 5.0
"""The start is taken if it divides the squares of a batch by so much."""

FIRST = 3
"""Batches that may have a start. Outputs that are linear need one; `softplus` and `relu`, up to three."""


ROUNDING = 1e-12
"""What is so small a part of the squares is rounding."""


def in_units(objective: Any, kept: Any, steps: Tensor) -> Any:
    """Return a `SummedObjective` in units of the targets; as it is where that makes no difference.

    That is where targets have no unit, as classes, where it is linear in no variables, or in all, or other processes
    have a part of it. Bounds of a Keras model are zero, which is zero in any unit; other constraints are on the values
    themselves.

    Args:
        objective: `SummedObjective`, of the graph being traced.
        kept: scalar variable of the optimizer that keeps u, zero before it is known; None for none.
        steps: scalar, how many steps there were before.
    """
    possible = kept is not None and are_errors(objective) and not objective.is_shared
    linear = tuple(objective.linear_variables()) if possible else ()
    some = 0 < len(linear) < len(objective.variables)
    return ObjectiveInUnits(objective, linear, kept, steps) if some else objective


def report_of(objective: Any, report: Report) -> Report:
    """Return the `Report` of a step on what `in_units` returned, or that of going to the start instead."""
    if not isinstance(objective, ObjectiveInUnits):
        return report
    fallen, before = objective.fallen, objective.before
    return report._replace(
        cost=tf.where(fallen > 0, before - fallen, report.cost),
        reduction=tf.where(fallen > 0, fallen, report.reduction),
        status=tf.where(fallen > 0, int(Status.RUNNING), report.status),
    )


class ObjectiveInUnits(WrappedObjective):
    """A `SummedObjective` in other units of some variables.

    Args:
        objective: `SummedObjective`.
        changed: tuple of the indices of the variables.
        kept: scalar variable of the optimizer that keeps their unit, zero before it is known.
        steps: scalar, how many steps there were before.

    Attributes:
        inner: the objective, as given.
        before, fallen: once linearised, F where the graph computed it, and by how much the start lowers it, if any.
    """

    def __init__(self, objective: Any, changed: tuple, kept: Any, steps: Tensor) -> None:
        super().__init__(objective)
        self.inner, self._changed, self._kept, self._steps = objective, changed, kept, steps
        self._units: Any = None
        self.half, self.num_parts = objective.half, objective.num_parts
        self.rows, self.terms, self.gradients = objective.rows, objective.terms, objective.gradients

    def linear_variables(self) -> list[int]:
        """Return the indices of the variables that residuals are seen to be linear in together."""
        return list(self._changed)

    def linearise(self, allowed: Allowed = AS_FACTORS) -> LinearModel:
        """Return r to first order, with J as is `Allowed`, in the units that are kept or that the batch asks for."""
        model: Any = self._objective.linearise(allowed)
        if self._units is None:
            some = None if allowed.by_drawn else model.jacobian.only(self._changed)
            pair = self.inner.jacobian_in(self._changed) if some is None else (some, model.residual)
            self._units = self._units_of(*pair)
        return model.in_units(self._units.cast(model.dtype))

    def _units_of(self, jacobian: Any, residual: Tensor) -> Units:
        """Return the `Units`, and keep them; from a start, which a cost without bounds is told of, no step is tried.

        Args:
            jacobian: J of the variables that may have another unit; residual: r, in the order of its rows.
        """
        kept = self._kept.value.value()
        unit, fallen = cond(kept > 0, lambda: (kept, tf.zeros_like(kept)), lambda: self._first(jacobian, residual))
        self._kept.value.assign(unit)
        unit = self._kept.value.value()  # as read it depends on no draw of rows: these are replayed
        self.before, self.fallen = self.cost, tf.cast(fallen, self.cost.dtype)
        self.cost = tf.where(fallen > 0, tf.constant(np.inf, self.cost.dtype), self.cost)
        return Units.of(
            self.columns, tf.cast(tf.where(unit > 0, unit, tf.ones_like(unit)), residual.dtype), self._changed
        )

    def _first(self, jacobian: Any, residual: Tensor) -> tuple[Tensor, Tensor]:
        """Go to the start if there is one; return u, or zero where a batch does not say it, and by how much F fell."""
        values = self.values()
        weights = [values[k] for k in self._changed]
        outputs = jacobian.matvec(tf.cast(jacobian.columns.flatten(weights), residual.dtype))
        apart = residual - outputs
        norms, slopes = jacobian.column_norms_squared(), jacobian.matvec(apart, adjoint=True)
        sizes = jacobian.columns.sizes
        is_offset = np.repeat([weight.shape.rank == 1 for weight in weights], sizes)
        shift = tf.where(is_offset, tf.math.divide_no_nan(-slopes, norms), 0.0)
        whole, apart = _square(apart), apart + jacobian.matvec(shift)
        variance = _square(apart)
        variance = tf.where(variance > ROUNDING * whole, variance, 0.0)  # as of one example alone
        factor = tf.sqrt(tf.minimum(tf.math.divide_no_nan(variance, _square(outputs)), 1.0))
        before, after = _square(residual), _square(apart + factor * outputs)
        begins = (before > FAR * after) & (variance > 0) & (self._steps < FIRST)
        largest = []
        for k, change, norm in zip(self._changed, jacobian.columns.split(shift), jacobian.columns.split(norms)):
            value, project = values[k], getattr(self.variables[k], "constraint", None)
            start = tf.cast(factor, value.dtype) * value + tf.cast(change, value.dtype)
            values[k] = tf.where(begins, start if project is None else project(start), value)
            largest.append(_over_outputs(norm))
        self.inner.write(values)
        unit = tf.sqrt(tf.where(variance > 0, variance, whole) / tf.reduce_max(largest))
        counts = tf.math.is_finite(unit) & (unit > 0) & ~begins
        unit = tf.where((unit > LARGE) | (unit < TINY), unit, 1.0)
        fallen = (before - after) / 2 if self.sums_squares else tf.cast(self.cost - self.evaluate(), residual.dtype)
        found = tf.where(counts, unit, 0.0), tf.where(begins, fallen, 0.0)
        return tf.cast(found[0], self._kept.dtype), tf.cast(found[1], self._kept.dtype)

    def position(self, values: list[Tensor]) -> Tensor:
        """Return the place where the variables hold `values`, `[p]`."""
        return self._objective.position(values) / self._vector()

    def magnitude(self, values: list[Tensor]) -> Tensor:
        """Return how large `values` are, `[p]`."""
        return self._objective.magnitude(values) / self._vector()

    def slope(self, gradient: Tensor) -> Tensor:
        """Return a gradient `[p]` as that by the values of the variables."""
        return self._objective.slope(gradient / self._vector())

    def move(self, start: list[Tensor], step: Tensor) -> None:
        """Assign `start` + `step` to the variables."""
        self._objective.move(start, step * self._vector())

    def move_to(self, start: list[Tensor], position: Tensor) -> None:
        """Assign `position` `[p]` to the variables."""
        self._objective.move_to(start, position * self._vector())

    def _vector(self) -> Tensor:
        """The unit of each parameter, `[p]`. There is one as soon as the step that is traced has a linear model."""
        return self._units.cast(self.cost.dtype).vector


def _square(rows: Tensor) -> Tensor:
    """Return ‖r‖²."""
    return tf.reduce_sum(tf.square(rows))


def _over_outputs(diagonal: Tensor) -> Tensor:
    """Return the largest sum over the last axis, a scalar, of what belongs to the elements of a variable."""
    return tf.reduce_max(diagonal if diagonal.shape.rank == 0 else tf.reduce_sum(diagonal, axis=-1))
