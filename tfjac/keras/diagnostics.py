"""What users read of a `LevenbergMarquardt` optimizer: how training goes."""

from typing import Literal

import keras

from tfjac.drive.bayesian import Precisions
from tfjac.keras.memory import MemoryOptions
from tfjac.keras.state import StateVariables
from tfjac.steps.method import Method
from tfjac.steps.records import Report
from tfjac.steps.statuses import Status


class StepDiagnostics:
    """Properties of an optimizer that keeps `StateVariables` as `_state` once it is `built`, and what it was given."""

    built: bool
    iterations: keras.Variable
    _state: StateVariables
    _method: Method
    _remembers: MemoryOptions
    _steps_per_batch: int

    @property
    def status(self) -> Status:
        """How the last step ended, a `Status`."""
        return self._state.status if self.built else Status.RUNNING

    @property
    def last_report(self) -> Report | None:
        """The `Report` of the last step, of NumPy numbers, infinite for NaN; None before the first."""
        return self._state.report if self.num_steps else None

    @property
    def num_steps(self) -> int:
        """Number of steps since the optimizer was built, accepted or not."""
        return int(self.iterations.numpy()) if self.built else 0

    @property
    def current_damping(self) -> float:
        """λ for the next step, a float; zero before the first."""
        return self._state.damping if self.built else 0.0

    @property
    def last_ratio(self) -> float:
        """Actual over predicted reduction of the last attempt, a float; −inf where anything was not finite."""
        return float(self._state.report.ratio) if self.built else 0.0

    @property
    def num_accepted(self) -> int:
        """Number of accepted steps since the optimizer was built."""
        return self._state.accepted if self.built else 0

    @property
    def num_attempts(self) -> int:
        """Number of linear solves with an evaluation since the optimizer was built."""
        return self._state.attempts if self.built else 0

    @property
    def precisions(self) -> Precisions | None:
        """`Precisions`: α, β and γ of Bayesian regularisation, floats; None without it, and before the first step."""
        known = self._state.precisions if self.built else None
        return known if known is not None and known.weights > 0 else None

    @property
    def effective_parameters(self) -> float | None:
        """γ, how many parameters the data determine, a float; None without Bayesian regularisation."""
        return None if self.precisions is None else self.precisions.effective

    @property
    def noise_level(self) -> float | None:
        """σ = β^(−½), the standard deviation of residuals, a float; None without Bayesian regularisation."""
        return None if self.precisions is None else self.precisions.noise**-0.5

    @property
    def solver_used(self) -> str | None:
        """Name of the solver; for `"auto"` the one of the last step, None before the first."""
        names = self._method.solver.names
        if len(names) == 1:
            return names[0]
        return None if self.last_report is None else names[self.last_report.solver]

    @property
    def steps_per_batch(self) -> int:
        """How many steps are taken on each batch, as the optimizer was given it."""
        return self._steps_per_batch

    @property
    def memory(self) -> Literal["auto", "epoch"] | float | int | None:
        """What is remembered of earlier batches, as the optimizer was given it."""
        return self._remembers.given

    @property
    def sums_batches(self) -> bool:
        """Whether a step is taken on the sum of several batches."""
        return self._remembers.sums
