"""What a minimisation is about, in the graph that is being traced: the variables, and the residuals where they are."""

import tensorflow as tf

from tfjac.drive.options import Settings
from tfjac.graph import as_tf_variable
from tfjac.linear.columns import Columns
from tfjac.linear.contracts import LinearModel
from tfjac.linear.solvers import AutoSolver, CholeskySolver, QRSolver
from tfjac.linear.solvers.problem_sizes import SMALL
from tfjac.objective.conditions.coordinates import Coordinates, Standing
from tfjac.objective.residuals import objective_of_residuals
from tfjac.objective.robust import losses_of
from tfjac.objective.tracing.traced_residuals import TracedResiduals
from tfjac.steps.conditions import Box
from tfjac.steps.damping import TrustRegionDamping
from tfjac.steps.objective import Objective
from tfjac.steps.progress import Invariants
from tfjac.steps.step import Restrictions
from tfjac.types import Tensor, Variable


class Problem:
    """Residuals of some variables, and what is asked of both.

    Attributes:
        dtype: of the variables.
        columns: `Columns`, those of J.
        estimates_curvature: whether steps estimate the curvature of the residuals.
    """

    def __init__(self, residuals: TracedResiduals, variables: list[Variable], settings: Settings) -> None:
        self.residuals, self.variables, self.settings = residuals, variables, settings
        self.dtype = as_tf_variable(variables[0]).dtype
        self._losses = losses_of(settings.losses, residuals.num_tensors)
        self._coordinates, self._elements = Coordinates(variables, settings.manifolds), Columns(variables)
        self.columns = self._coordinates.columns
        self.estimates_curvature = estimates_curvature(settings, self.columns.total)

    # -------------------------------------------------------------- the variables

    def values(self) -> list[Tensor]:
        """Return what the variables hold."""
        return [as_tf_variable(variable).read_value() for variable in self.variables]

    def position(self) -> Tensor:
        """Return the same as one vector of all elements."""
        return self._elements.flatten(self.values())

    def write(self, values: list[Tensor]) -> list[Tensor]:
        """Assign `values`, and return them."""
        for variable, value in zip(self.variables, values):
            as_tf_variable(variable).assign(value)
        return values

    def go_to(self, position: Tensor) -> Tensor:
        """Assign a vector of all elements, and return it."""
        self.write(self._elements.split(position))
        return position

    def travelled(self, first: list[Tensor]) -> tuple[Tensor, Tensor]:
        """Return what `Coordinates.travelled` says of the way from `first` to what the variables hold."""
        return self._coordinates.travelled(first, self.values())

    def box(self, invariants: Invariants) -> Box | tuple[()]:
        """Return the `Box` of the coordinates of J; an empty tuple without bounds."""
        return self._coordinates.conditions(invariants.conditions).box

    # -------------------------------------------------------------- what is minimised

    def objective(self, data: list[Tensor], invariants: Invariants) -> tuple[Objective, Restrictions]:
        """Return what is minimised, where the variables are, and the `Restrictions` of a step from there."""
        charts = self._coordinates.charts()
        tensors = self._residuals_at(data, invariants, charts)
        box, prior, equality = self._coordinates.conditions(invariants.conditions)
        objective = objective_of_residuals(
            tensors,
            self.variables,
            losses=self._losses,
            unit=invariants.unit,
            prior=prior and prior.in_units(invariants.unit),
            prior_is_uniform=self.settings.prior_is_uniform,
            charts=charts,
            by_parts=True,
        )
        return objective, Restrictions(box or None, equality or None)

    def linearised_at(self, position: Tensor, data: list[Tensor], invariants: Invariants) -> tuple[Tensor, LinearModel]:
        """Return the cost at `position` `[p]`, and the `LinearModel` there, without conditions and manifolds."""
        objective = self._objective_at(position, data, invariants)
        return objective.cost, objective.linearise()

    def cost_at(self, position: Tensor, data: list[Tensor], invariants: Invariants) -> Tensor:
        """Return the cost at `position` `[p]`, without conditions and manifolds."""
        return self._objective_at(position, data, invariants).cost

    def _objective_at(self, position: Tensor, data: list[Tensor], invariants: Invariants) -> Objective:
        standing = [Standing(value) for value in self._elements.split(position)]
        tensors = self._residuals_at(data, invariants, standing)
        kind = {"losses": self._losses, "unit": invariants.unit, "charts": standing}
        return objective_of_residuals(tensors, self.variables, **kind)

    def _residuals_at(self, data: list[Tensor], invariants: Invariants, charts: list) -> list[Tensor]:
        """Return the residuals, where charts stand for variables; None for what they hold."""
        values = [None] * len(self.residuals.handles)
        for position, chart in zip(self.residuals.positions, charts):
            if chart is not None and position is not None:
                values[position] = chart.value
        tensors = self.residuals.place_at(data, invariants.drawn, values)
        return [tf.cast(tensor, self.dtype) / invariants.unit for tensor in tensors]


def estimates_curvature(settings: Settings, num_parameters: int) -> bool:
    """Return whether the curvature of residuals is estimated: squares, few parameters, straight steps of a region.

    A trust region copes with a model that has no minimum, and a few hundred parameters are learnt in few steps.

    Args:
        num_parameters: how many columns J has.
    """
    method, losses, conditions = settings.method, settings.losses, settings.conditions
    return (
        isinstance(method.damping, TrustRegionDamping)
        and method.damping.residual_curvature
        and isinstance(method.solver, (AutoSolver, QRSolver, CholeskySolver))
        and num_parameters <= SMALL
        and settings.window == 1
        and not any(losses if isinstance(losses, tuple) else [losses])
        and not (method.acceleration or method.gram_dtype or method.evidence)
        and not (conditions.equality or any(settings.manifolds))
    )
