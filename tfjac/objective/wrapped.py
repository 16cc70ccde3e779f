"""An objective that asks another one for all that a subclass does not change."""

import tensorflow as tf

from tfjac.linear.contracts import AS_FACTORS, Allowed, LinearModel
from tfjac.steps.objective import Objective
from tfjac.types import Tensor


class WrappedObjective(Objective):
    """The same as another `Objective`."""

    def __init__(self, objective: Objective) -> None:
        self._objective = objective
        self.cost, self.columns, self.variables = objective.cost, objective.columns, objective.variables
        self.is_shared, self.sums_squares = objective.is_shared, objective.sums_squares

    def values(self) -> list[Tensor]:
        return self._objective.values()

    def position(self, values: list[Tensor]) -> Tensor:
        """Return the place where the variables hold `values`, `[p]`."""
        return self._objective.position(values)

    def magnitude(self, values: list[Tensor]) -> Tensor:
        return self._objective.magnitude(values)

    def slope(self, gradient: Tensor) -> Tensor:
        return self._objective.slope(gradient)

    def linearise(self, allowed: Allowed = AS_FACTORS) -> LinearModel:
        return self._objective.linearise(allowed)

    def change_of_rows(self) -> Tensor:
        """Return how much more the tensors of the rows are now, `[rows]`."""
        return self._objective.change_of_rows()

    def move(self, start: list[Tensor], step: Tensor) -> None:
        self._objective.move(start, step)

    def move_to(self, start: list[Tensor], position: Tensor) -> None:
        """Assign `position` `[p]` to the variables."""
        self._objective.move_to(start, position)

    def evaluate(self) -> Tensor:
        """Return the cost at what the variables hold at this point of the program."""
        return self._objective.evaluate()

    def restore_unless(self, accepted: tf.Tensor, start: list[Tensor]) -> None:
        self._objective.restore_unless(accepted, start)
