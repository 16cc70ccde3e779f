"""What a minimisation found."""

import dataclasses
from typing import Any

from .statuses import Status


@dataclasses.dataclass(frozen=True)
class LeastSquaresResult:
    """The result of ``least_squares``.

    Attributes:
      x: the values found, NumPy arrays in the nest of the variables; the variables hold them too.
      cost: F = ½‖r‖² there.
      gradient_norm: max |∂F/∂x| there.
      status: a ``Status``, why it stopped.
      steps: number of steps, accepted or not.
      evaluations: number of evaluations of the residuals at trial points.
      jacobians: number of linearisations.
      damping: λ of the last step.
    """

    x: Any
    cost: float
    gradient_norm: float
    status: Status
    steps: int
    evaluations: int
    jacobians: int
    damping: float

    @property
    def success(self):
        """Whether a tolerance was met."""
        return self.status.converged

    @property
    def message(self):
        """One sentence on why it stopped."""
        return self.status.message

    def __str__(self):
        return (
            f"{self.message}\n"
            f"status {self.status.name}, cost {self.cost:.10g}, largest gradient {self.gradient_norm:.3g}, "
            f"{self.steps} steps, {self.evaluations} evaluations, {self.jacobians} Jacobians, "
            f"damping {self.damping:.3g}"
        )
