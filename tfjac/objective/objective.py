"""The function that a step lowers: where it is, and how to go elsewhere.

F(w) = ½‖r(w)‖² + ½ (w−w₀)ᵀΛ(w−w₀), or a sum of convex functions instead of the squares, which then are a model of it.
"""

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from tfjac.graph import as_tf_variable, cond, replay, stays, verified
from tfjac.jacobians.rows import examples_mix, multiplies_often, stacked_jacobian, stacked_rows
from tfjac.linear.columns import Columns
from tfjac.linear.contracts import AS_FACTORS, Allowed, JacobianRows, LinearModel
from tfjac.linear.model import Linearisation, VerifiedLinearisation
from tfjac.objective.conditions.coordinates import positions_of, sources_of
from tfjac.objective.linear_variables import linear_variables
from tfjac.objective.reference_gradients import gradients_of
from tfjac.objective.variables import variable_name
from tfjac.steps.objective import SummedObjective
from tfjac.types import Tensor, Variable


class LocalObjective(SummedObjective):
    """F, the variables that it is a function of, its linearisation where they are, and its value elsewhere.

    Args:
        cost: scalar tensor, F as the graph computes it.
        rows: list of pairs of a tensor whose Jacobian is a part of J, and the part of r that belongs to these rows, of
            the same shape. Where the squares of r are what F adds up, both are the same tensor.
        prior: a `Prior`, the part with Λ.
        variables: the variables, `tf.Variable` or `keras.Variable`, in the order of the columns of J.
        gradients: list of a `ReferenceGradient` for each variable, so that J is verified when the graph runs; or None.
        terms: list of the terms of a loss that gave the rows; empty where squares of r are summed as they are.
        sources: what J is taken with respect to, where that is not the variables themselves.
        sums_squares: whether F adds up the squares of r, if the tensors of the rows are r; they may have weights.
        half: the first op that computes in bfloat16, or None.
        parts: what stands for the variables in J, in the order of its columns; `sources` where left out.

    Attributes:
        columns: the `Columns` of J.
        is_shared: whether it is the sum over several processes, of which this one has its own rows alone.
        num_parts: of how many problems it is the sum, an integer.
    """

    num_parts = 1
    is_shared = False

    def __init__(
        self,
        cost: Tensor,
        rows: list,
        prior: Any,
        variables: Sequence[Variable],
        gradients: list | None = None,
        terms: Sequence = (),
        sources: Any = None,
        sums_squares: bool = True,
        half: tf.Operation | None = None,
        parts: list | None = None,
    ) -> None:
        self.half = half
        self.cost, self.rows, self.prior, self.variables = cost, list(rows), prior, list(variables)
        self._sources = self.variables if sources is None else sources
        self._parts = self._sources if parts is None else parts
        self.columns, self.gradients, self.terms = Columns(self._sources), gradients, list(terms)
        self.sums_squares = sums_squares and all(tensor is part for tensor, part in self.rows)

    def with_parts(self, change: Callable) -> SummedObjective:
        """Return the problem that `change` makes of this one, or of each of those that this is the sum of."""
        return change(self)

    def values(self) -> list[Tensor]:
        return [as_tf_variable(variable).value() for variable in self.variables]

    def position(self, values: list[Tensor]) -> Tensor:
        """Return the place where the variables hold `values` in the coordinates of J, `[p]`."""
        return self.columns.flatten(values)

    def linearise(self, allowed: Allowed = AS_FACTORS) -> LinearModel:
        """Return the `Linearisation` of r at the values that the graph computed F from."""
        rows = self.rows
        if allowed.farther is not None and self.terms:
            rows = [term.rows(allowed.farther) for term in self.terms]
        jacobian, residual = stacked_jacobian(rows, self._parts, Columns(self._parts), self.cost.dtype, allowed)
        slope = self.columns.flatten(gradients_of(self.cost, self._sources)) if allowed.by_drawn else None
        if self.gradients is None:
            return Linearisation(jacobian, residual, self.prior, slope)
        what = "evaluated again where it was, the cost, which must not draw random numbers nor have a state, differs"
        verified(self.evaluate(), self.cost, tf.abs(self.cost), what)
        names = [variable_name(variable) for variable in self.variables]
        magnitude = tf.norm([tf.norm(residual), *(term.magnitude() for term in self.terms)])
        return VerifiedLinearisation(jacobian, residual, self.prior, self.gradients, names, magnitude, slope)

    def jacobian_in(self, chosen: Sequence[int]) -> tuple[JacobianRows, Tensor]:
        """Return J of some of the variables as factors, and the residuals in the order of its rows."""
        parts = [self._parts[k] for k in chosen]
        return stacked_jacobian(self.rows, parts, Columns(parts), self.cost.dtype)

    def examples_mix(self) -> bool:
        """Return whether residuals of an example depend on other examples, or may do so."""
        return any(examples_mix(tensor, self._sources) for tensor, _ in self.rows)

    def multiplies_often(self) -> bool:
        """Return whether residuals come about by more products than there are variables."""
        return multiplies_often([tensor for tensor, _ in self.rows], self._sources)

    def linear_variables(self) -> list[int]:
        return linear_variables([tensor for tensor, _ in self.rows], self._sources)

    def places_of_rows(self) -> Tensor:
        """Return where each row of J is among the elements of all residuals, tensor by tensor: `[rows]`, int32."""
        tensors, places, before = [tensor for tensor, _ in self.rows], [], 0
        for tensor in tensors:
            places.append(before + tf.reshape(tf.range(tf.size(tensor)), tf.shape(tensor)))
            before += tf.size(tensor)
        return stacked_rows(list(zip(tensors, places)), self._parts)

    def change_of_rows(self) -> Tensor:
        """Return how much more the tensors of the rows are at what the variables hold now, `[rows]`.

        What no gradient passes stays as it was, such as the weights of the rows of a convex loss: so it is in J.
        """
        tensors = [tensor for tensor, _ in self.rows]
        now = replay(tensors, reread=self.variables, constant=stays)
        return stacked_rows([(old, new - old) for old, new in zip(tensors, now)], self._parts)

    def move(self, start: list[Tensor], step: Tensor) -> None:
        """Assign `start` + `step` to the variables, projected by the constraints that Keras variables may have."""
        self._assign([value + change for value, change in zip(start, self.columns.split(step))])

    def move_to(self, start: list[Tensor], position: Tensor) -> None:
        """Assign `position` `[p]`, in the coordinates of J at `start`, to the variables, projected likewise."""
        self._assign(self.columns.split(position))

    def _assign(self, values: list[Tensor]) -> None:
        constraints = [getattr(variable, "constraint", None) for variable in self.variables]
        self.write([value if project is None else project(value) for value, project in zip(values, constraints)])

    def write(self, values: list[Tensor]) -> None:
        """Assign `values`, tensors of the variables' shapes, as they are."""
        for variable, value in zip(self.variables, values):
            as_tf_variable(variable).assign(value)

    def evaluate(self) -> Tensor:
        """Return F at what the variables hold at this point of the program: a replay of the graph of the cost."""
        return tf.ensure_shape(replay([self.cost], reread=self.variables)[0], [])

    def restore_unless(self, accepted: Tensor, start: list[Tensor]) -> None:

        def restore() -> bool:
            self.write(start)
            return False

        cond(accepted, lambda: True, restore)


class ObjectiveOnManifolds(LocalObjective):
    """An `Objective` whose J is that with respect to tangents, where variables have a chart.

    Args:
        charts: list of a `Chart`, or None, for each variable.
    """

    def __init__(
        self,
        cost: Tensor,
        rows: list,
        prior: Any,
        variables: Sequence[Variable],
        gradients: list | None,
        charts: list,
        sums_squares: bool = True,
    ) -> None:
        sources = sources_of(variables, charts)
        super().__init__(cost, rows, prior, variables, gradients, sources=sources, sums_squares=sums_squares)
        self._charts = charts

    def position(self, values: list[Tensor]) -> Tensor:
        """Return the place where the variables hold `values`, `[p]`; tangents are zero wherever that is."""
        return self.columns.flatten(positions_of(values, self._charts))

    def magnitude(self, values: list[Tensor]) -> Tensor:
        """Return how large `values` are, `[p]`; of a tangent, how large the point is that it moves."""
        pairs = zip(values, self._charts)
        return self.columns.flatten([value if chart is None else chart.magnitude(value) for value, chart in pairs])

    def move(self, start: list[Tensor], step: Tensor) -> None:
        """Assign `start` + `step`, or `start` ⊕ `step`."""
        parts = zip(self._charts, start, self.columns.split(step))
        self._assign([value + part if chart is None else chart.move(value, part) for chart, value, part in parts])

    def move_to(self, start: list[Tensor], position: Tensor) -> None:
        """Assign `position` `[p]`, or `start` ⊕ `position`."""
        parts = zip(self._charts, start, self.columns.split(position))
        self._assign([part if chart is None else chart.move(value, part) for chart, value, part in parts])
