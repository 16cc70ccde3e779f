"""An objective in units of the targets: weights that residuals are linear in may go as far as these ask.

A step of damped least squares is short in each weight, as its model holds nearby only. With D = I all weights are as
short. That suits networks whose targets are of size one. Targets that are 78 times as far apart ask for a last layer
that is 78 times as large. There the model is exact, as residuals are linear in its weights; but they move as little as
all others, so the layers below saturate instead. So weights that residuals are linear in together are measured in

    u = √(v / d)

v is the variance of r − J w in the first batch, about the mean of each output, J and w those of these weights: what is
left to explain if they were zero. d is the largest of what one unit of them explains: diag(JᵀJ), added up over the last
axis of a weight, which is that of outputs. Up to two, u is one: it makes no difference there, and targets that are
standardised are trained as with D = I. Targets that are tiny ask for a tiny u, d being that of the variable of which
one unit explains least, as the bias: other columns of J would vanish beside those of these weights, and float32 would
lose them. But only if the outputs are no larger than the targets: else these weights have to shrink first. u stays what
it is from the first batch on, as what earlier batches said is remembered in these units. A network that is trained with
another unit of its targets then takes the same steps, if its last layer begins in proportion.
"""

from typing import Any

import tensorflow as tf

from tfjac.graph import cond
from tfjac.linear.contracts import AS_FACTORS, Allowed, LinearModel
from tfjac.linear.model import Units, square_and_variance
from tfjac.objective.wrapped import WrappedObjective
from tfjac.types import Tensor

AS_THEY_ARE = 2.0
"""Units up to which variables keep their own."""

_TINY = 0.1
"""Units down to which they do."""

_NEAR = 4.0
"""Tiny units are taken if the first batch has at most so many times the square that it has without these weights."""


def in_units(objective: Any, kept: Any) -> Any:
    """Return a `SummedObjective` in units of the targets; as it is where that makes no difference.

    That is where it adds up no squares, is linear in no variables, or in all, or other processes have a part of it.
    Bounds of a Keras model are zero, which is zero in any unit; other constraints are on the values themselves.

    Args:
        objective: `SummedObjective`, of the graph being traced.
        kept: scalar variable of the optimizer that keeps u, zero before the first batch; None for none.
    """
    possible = kept is not None and objective.sums_squares and not objective.is_shared
    linear = tuple(objective.linear_variables()) if possible else ()
    some = 0 < len(linear) < len(objective.variables)
    return ObjectiveInUnits(objective, linear, kept) if some else objective


class ObjectiveInUnits(WrappedObjective):
    """A `SummedObjective` in other units of some variables.

    Args:
        objective: `SummedObjective`.
        changed: tuple of the indices of the variables.
        kept: scalar variable of the optimizer that keeps their unit, zero before the first batch.

    Attributes:
        inner: the objective, as given.
    """

    def __init__(self, objective: Any, changed: tuple, kept: Any) -> None:
        super().__init__(objective)
        self.inner, self._changed, self._kept = objective, changed, kept
        self._units: Any = None
        self.half, self.num_parts = objective.half, objective.num_parts
        self.rows, self.terms, self.gradients = objective.rows, objective.terms, objective.gradients

    def linear_variables(self) -> list[int]:
        """Return the indices of the variables that residuals are seen to be linear in together."""
        return list(self._changed)

    def linearise(self, allowed: Allowed = AS_FACTORS) -> LinearModel:
        """Return r to first order, with J as is `Allowed`, in the units that the first batch asks for."""
        model: Any = self._objective.linearise(allowed)
        if self._units is None:
            self._units = self._units_of(model)
        return model.in_units(self._units.cast(model.dtype))

    def _units_of(self, model: LinearModel) -> Units:
        """Return the `Units` that are kept, or those of the first batch, and keep them."""
        kept = self._kept.value.value()
        unit = cond(kept > 0, lambda: kept, lambda: tf.cast(self._unit_of(model), kept.dtype))
        self._kept.value.assign(unit)
        return Units.of(self.columns, tf.cast(tf.where(unit > 0, unit, tf.ones_like(unit)), model.dtype), self._changed)

    def _unit_of(self, model: LinearModel) -> Tensor:
        """Return u of a batch; zero for one that says nothing of it."""
        jacobian: Any = model.jacobian
        some = jacobian.only(self._changed)
        chosen, jacobian = (range(len(self.variables)), jacobian) if some is None else (self._changed, some)
        diagonal = dict(zip(chosen, jacobian.columns.split(jacobian.column_norms_squared())))
        explained = tf.stack([_over_outputs(diagonal[k]) for k in self._changed])
        values = self.values()
        weights = [values[k] if k in self._changed else tf.zeros_like(values[k]) for k in chosen]
        to_explain = model.residual - jacobian.matvec(tf.cast(jacobian.columns.flatten(weights), model.dtype))
        square, variance = square_and_variance(model, self.num_parts, to_explain)
        spread = tf.where(variance > 0, variance, square)  # of one example alone
        unit, tiny = tf.sqrt(spread / tf.reduce_max(explained)), tf.sqrt(variance / tf.reduce_min(explained))
        is_near = tf.reduce_sum(tf.square(model.residual)) <= _NEAR * variance
        other = tf.where(is_near & (tiny < _TINY), tiny, tf.ones_like(unit))
        counts = tf.math.is_finite(unit) & (unit > 0)
        return tf.where(counts, tf.where(unit > AS_THEY_ARE, unit, other), tf.zeros_like(unit))

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


def _over_outputs(diagonal: Tensor) -> Tensor:
    """Return the largest sum over the last axis, a scalar, of what belongs to the elements of a variable."""
    return tf.reduce_max(diagonal if diagonal.shape.rank == 0 else tf.reduce_sum(diagonal, axis=-1))
