"""Minimisations that take long: they are watched, may be stopped, and are found again after a break.

Python sees a run between calls of its graph, of one step each where every step is to be seen, and else of as many as
take about a fifth of a second. The steps are the same bits either way.
"""

import time
from collections.abc import Sequence
from typing import Any, NamedTuple

from tfjac.arguments import positive
from tfjac.optimizers.fitting.checkpoints import Checkpoint
from tfjac.optimizers.fitting.traced import Run
from tfjac.optimizers.interrupts import Interrupts
from tfjac.optimizers.statuses import Status
from tfjac.types import Array, Function

PATIENCE = 0.2
"""Seconds that a call of the graph may take, where it is not a single step."""


class LeastSquaresState(NamedTuple):
    """What a callback is told after each step.

    Attributes:
        steps: number of steps so far, accepted or not.
        evaluations: number of evaluations of the residuals at trial points.
        x: the values of the variables, NumPy arrays in their nest, copies.
        cost: F there.
        reduction, ratio, damping, gradient_norm, attempts, accepted: of this step, see `History`.
        elapsed: seconds since the first step began.
    """

    steps: int
    evaluations: int
    x: Any
    cost: float
    reduction: float
    ratio: float
    damping: float
    gradient_norm: float
    attempts: int
    accepted: bool
    elapsed: float


class Supervisor:
    """What looks after a run.

    Args:
        callback: callable of a `LeastSquaresState`, called after each step; it stops the run by returning True or
            raising StopIteration.
        verbose: 0 for silence, 1 for a line at the end, 2 for one a step.
        time_limit: seconds; None for none.
        checkpoint: path of a file to go on from, and to keep up to date; None for none.
        equations: list of the arrays of equations between parameters, which a checkpoint belongs to.
    """

    def __init__(
        self,
        callback: Function | None = None,
        verbose: int = 0,
        time_limit: float | None = None,
        checkpoint: Any = None,
        equations: Sequence[Array] = (),
    ) -> None:
        if callback is not None and not callable(callback):
            raise TypeError(f"callback must be a function of a LeastSquaresState. Received: callback={callback!r}")
        if verbose not in (0, 1, 2):
            raise ValueError(f"verbose must be 0, 1 or 2. Received: verbose={verbose!r}")
        self._callback, self._verbose = callback, int(verbose)
        self._time_limit = None if time_limit is None else positive("time_limit", time_limit)
        self._checkpoint = None if checkpoint is None else Checkpoint(checkpoint, equations)

    @property
    def is_needed(self) -> bool:
        """Whether anything was asked for that a graph cannot do."""
        return bool(self._callback or self._verbose or self._time_limit or self._checkpoint)

    def watch(self, run: Run) -> None:
        """Take a `Run` to its end."""
        if self._checkpoint:
            self._checkpoint.restore(run)
        each, began = self._callback is not None or self._verbose > 1, time.monotonic()
        count = 1 if each or run.pace is None else self._count(run.pace, began)
        with Interrupts() as interrupts:
            try:
                while run.running:
                    before, at = run.steps, time.monotonic()
                    run.advance(count, finish=self._checkpoint is None)
                    run.pace = (time.monotonic() - at) / max(run.steps - before, 1)
                    reason = self._look(run, began) if each else None
                    self._save(run, overdue=not run.running)
                    left = self._left(began)
                    reason = Status.INTERRUPTED if interrupts.pending else reason
                    reason = Status.TIME_LIMIT if left <= 0 and reason is None else reason
                    if reason is not None and run.running:
                        run.stop(reason)
                        interrupts.pending = False
                    count = 1 if each else self._count(run.pace, began)
            except KeyboardInterrupt:
                if not run.running:
                    raise
                run.stop(Status.INTERRUPTED)
            self._save(run, overdue=True)
            run.finish()

    def tell(self, result: Any) -> None:
        """Print how it ended, where that was asked for."""
        if self._verbose:
            print(
                f"{result.message} Cost {result.cost:.6g}, {result.steps} steps, {result.evaluations} evaluations, "
                f"largest gradient {result.gradient_norm:.3g}."
            )

    def _count(self, pace: float, began: float) -> int:
        """Return how many steps to take at once, where one takes `pace` seconds."""
        return int(max(1, min(PATIENCE, self._left(began)) / pace))

    def _left(self, began: float) -> float:
        return float("inf") if self._time_limit is None else self._time_limit - (time.monotonic() - began)

    def _save(self, run: Run, overdue: bool) -> None:
        if self._checkpoint:
            self._checkpoint.save(run, overdue)

    def _look(self, run: Run, began: float) -> Status | None:
        """Show the last step to whom it may concern; return why to stop, or None."""
        step = [column[-1].item() for column in run.history]
        evaluations = int(run.progress.outcome.evaluations)
        state = LeastSquaresState._make([run.steps, evaluations, run.x, *step, time.monotonic() - began])
        if self._verbose > 1:
            print(_line(state))
        if self._callback is None:
            return None
        try:
            return Status.STOPPED if self._callback(state) else None
        except StopIteration:
            return Status.STOPPED
        except Exception:
            run.go_to_best()
            raise


_WIDTHS = (5, 11, 14, 12, 9, 10, 12)


def _line(state: LeastSquaresState) -> str:
    """Return a line of the table, after the first step with the head above it."""
    texts = (
        f"{state.steps}", f"{state.evaluations}", f"{state.cost:.6e}", f"{state.reduction:.2e}", f"{state.ratio:.3f}",
        f"{state.damping:.2e}", f"{state.gradient_norm:.2e}",
    )  # fmt: skip
    line = "  ".join(text.rjust(width) for text, width in zip(texts, _WIDTHS)) + (
        "" if state.accepted else "  rejected"
    )
    heads = ("step", "evaluations", "cost", "reduction", "ratio", "damping", "gradient")
    head = "  ".join(text.rjust(width) for text, width in zip(heads, _WIDTHS))
    return f"{head}\n{line}" if state.steps == 1 else line
