"""The ways in which a step, or a whole minimisation, can end: named, never a bare number."""

import enum

_NUMERIC = ("b", "d", "n", "o", "x", "X")


class Status(enum.IntEnum):
    """How the last step of an optimizer ended, or why `least_squares` stopped.

    The integer is what is stored in the optimizer's variables, so the order is part of the saved format.
    """

    RUNNING = 0
    """No reason to stop: the last step was accepted, or none was taken yet."""

    REJECTED = 1
    """Every attempt of the last step was rejected; the variables are as they were, and the damping has grown."""

    NOT_FINITE = 2
    """The cost, the residuals or their Jacobian were not finite where the step would have started; nothing was changed.

    `least_squares` takes back a step to where they are not; so that this is where it started.

    A negative sample weight has the same effect: its residual is the root of a negative number.
    """

    GRADIENT_TOLERANCE = 3
    """Converged: the residuals are orthogonal to every column of the Jacobian to within `gtol`.

    Or no step lowers the cost where columns have vanished, and the cost is higher on both sides of these parameters.

    Of a single step: the gradient is exactly zero, or J is, as on a batch whose weights are all zero, whatever the
    regularisers say; nothing was changed.
    """

    COST_TOLERANCE = 4
    """Converged: the step that is proposed promises to lower the cost by no more than `ftol` times the cost.

    Or the cost is zero but for rounding.
    """

    STEP_TOLERANCE = 5
    """Converged: the step that is proposed is shorter than `xtol` times the variables, and promises little."""

    MAX_STEPS = 6
    """The number of steps allowed was used up."""

    STALLED = 7
    """No attempt lowered the cost, up to the largest damping: no further progress in this precision."""

    NO_RESIDUALS = 8
    """There was no residual at all, as for data of no rows; nothing was changed."""

    INFEASIBLE = 9
    """The variables were not within their bounds at the start, or equations contradict; nothing was changed."""

    TIME_LIMIT = 10
    """The time allowed was used up; the variables are at the best point found."""

    INTERRUPTED = 11
    """Ctrl-C was pressed; the variables are at the best point found."""

    STOPPED = 12
    """The callback asked to stop; the variables are at the best point found."""

    REMEASURED = 13
    """No attempt of the last step lowered the cost; the next one is tried with another D. `least_squares` goes on."""

    NOT_A_MINIMUM = 14
    """A tolerance was met at a maximum or a saddle point: the cost falls beside it."""

    ZERO_LEARNING_RATE = 15
    """The schedule of the learning rate is at zero; nothing was changed, and the damping is as it was."""

    def __str__(self) -> str:
        return self.name

    def __format__(self, spec: str) -> str:
        """Format the name, or by a numeric format, such as `"d"`, the integer."""
        return format(int(self) if spec[-1:] in _NUMERIC else self.name, spec)

    @property
    def converged(self) -> bool:
        """Whether one of the three tolerances was met."""
        return self in (Status.GRADIENT_TOLERANCE, Status.COST_TOLERANCE, Status.STEP_TOLERANCE)

    @property
    def message(self) -> str:
        """One sentence for people."""
        return _MESSAGES[self]


_MESSAGES = {
    Status.RUNNING: "The last step was accepted.",
    Status.REMEASURED: "Every attempt was rejected; the next step is tried with another D.",
    Status.REJECTED: "Every attempt was rejected; the variables are as they were.",
    Status.NOT_FINITE: (
        "The cost, the residuals or their Jacobian are not finite at the variables (or a weight is negative)."
    ),
    Status.GRADIENT_TOLERANCE: "Converged: the residuals are orthogonal to the Jacobian's columns to within gtol.",
    Status.COST_TOLERANCE: (
        "Converged: the next step would lower the cost by less than ftol times the cost, or the cost is mere rounding."
    ),
    Status.STEP_TOLERANCE: "Converged: the next step is shorter than xtol times the variables.",
    Status.MAX_STEPS: "Stopped after max_steps steps, before any tolerance was met.",
    Status.STALLED: "Stopped: no step lowers the cost, up to the largest damping.",
    Status.ZERO_LEARNING_RATE: "The learning rate is zero; nothing was changed.",
    Status.NO_RESIDUALS: "There are no residuals, so that nothing can be minimised.",
    Status.INFEASIBLE: "The variables started outside of their bounds, or equations contradict; nothing was changed.",
    Status.TIME_LIMIT: "Stopped: time_limit was used up, before any tolerance was met.",
    Status.INTERRUPTED: "Stopped by an interrupt (Ctrl-C), at the best point found.",
    Status.STOPPED: "Stopped by the callback, at the best point found.",
    Status.NOT_A_MINIMUM: (
        "Stopped at a maximum or a saddle point: a tolerance was met, but the cost falls on both sides of parameters "
        "that have hardly moved, or that a bound leaves without effect. Start elsewhere, as from small random numbers."
    ),
}
