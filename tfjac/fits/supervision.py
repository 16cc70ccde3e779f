"""Minimisations that take long: they are watched, may be stopped, and are found again after a break.

Python sees a run after each step.
"""

import time
from collections.abc import Sequence
from typing import Any, NamedTuple

from tfjac.arguments import positive
from tfjac.drive.interrupts import Interrupts
from tfjac.fits.checkpoints import Checkpoint
from tfjac.fits.traced import Run
from tfjac.steps.statuses import Status
from tfjac.types import Array, Function


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
        began = time.monotonic()
        with Interrupts() as interrupts:
            try:
                while run.running:
                    steps = run.steps
                    run.advance(finish=self._checkpoint is None)
                    reason = self._look(run, began) if run.steps > steps else None
                    self._save(run, overdue=not run.running)
                    reason = Status.INTERRUPTED if interrupts.pending else reason
                    if reason is None and self._time_limit is not None:
                        reason = Status.TIME_LIMIT if time.monotonic() - began >= self._time_limit else None
                    if reason is not None and run.running:
                        run.stop(reason)
                        interrupts.pending = False
            except KeyboardInterrupt:
                if not run.running:
                    raise
                run.stop(Status.INTERRUPTED)
            finally:
                run.assign()
            self._save(run, overdue=True)
            run.finish()

    def tell(self, result: Any) -> None:
        """Print how it ended, where that was asked for."""
        if self._verbose:
            print(
                f"{result.message} Cost {result.cost:.6g}, {result.steps} steps, {result.evaluations} evaluations, "
                f"largest gradient {result.gradient_norm:.3g}."
            )

    def _save(self, run: Run, overdue: bool) -> None:
        if self._checkpoint:
            run.assign()
            self._checkpoint.save(run, overdue)

    def _look(self, run: Run, began: float) -> Status | None:
        """Show the last step to whom it may concern; return why to stop, or None."""
        if self._callback is None and self._verbose < 2:
            return None
        run.assign()
        step = run.last_step
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
