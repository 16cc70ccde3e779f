"""The loop of steps, until there is a reason to stop: step, ask whether it has converged, go on or go back."""

from typing import cast

import tensorflow as tf

from tfjac.graph import while_loop
from tfjac.optimizers.loop.converge import standing_of
from tfjac.optimizers.loop.problem import Problem
from tfjac.optimizers.loop.progress import Allowance, Back, Invariants, Progress, Tried, gone_on, taken_back
from tfjac.optimizers.loop.records import LONGEST_RECORD, Report, chosen, has_converged, row_of
from tfjac.optimizers.loop.step import Step, take_step
from tfjac.optimizers.solvers.problem_sizes import ProblemSizes
from tfjac.optimizers.statuses import Status
from tfjac.types import Tensor


class Driver:
    """Takes the steps of a `Problem` in a loop of the graph.

    Args:
        problem: a `Problem`.
        data: list of tensors like `residuals.specs`.
        invariants: `Invariants`.
        allowance: an `Allowance`.
    """

    def __init__(self, problem: Problem, data: list[Tensor], invariants: Invariants, allowance: Allowance) -> None:
        self._problem, self._settings, self._placed = problem, problem.settings, (data, invariants)
        self._allowance = allowance

    def run(self, progress: Progress, record: bool, small: bool) -> tuple[Progress, Tensor, ProblemSizes]:
        """Take steps; see `Minimisation.advance`.

        Args:
            progress: the `Progress` so far.
            record: whether to write down each step.
            small: as of `while_loop`.
        """
        first, sizes = progress.outcome.steps, []

        def step(progress: Progress, doubtful: Tensor, rows: Tensor) -> tuple[Progress, Tensor, Tensor]:
            values = self._problem.values()
            self._go_to_start(progress)
            taken = self._take_step(progress, doubtful)
            sizes.append(taken.sizes)
            after, doubtful, report = self._follow(progress, taken, values, doubtful)
            return after, doubtful, _recorded(rows, first, progress, after, report) if record else rows

        rows = tf.zeros([LONGEST_RECORD + 1 if record else 0, 7], self._problem.dtype)
        start = progress, tf.constant(False), rows
        progress, _, rows = while_loop(self._is_unfinished, step, start, small=small)
        return progress, rows, sizes[-1]

    def _is_unfinished(self, progress: Progress, doubtful: Tensor, rows: Tensor) -> Tensor:
        more = progress.running & ((progress.outcome.steps < self._allowance.until) | doubtful)
        return more | (~progress.running & progress.moved & self._allowance.finish)

    def _go_to_start(self, progress: Progress) -> None:
        """Move the variables to the best point of the window, if the next step starts there."""
        window = progress.window
        if window:
            stays = progress.running & ~window.returns
            tf.cond(stays, lambda: window.best, lambda: self._problem.go_to(window.best))

    def _take_step(self, progress: Progress, doubtful: Tensor) -> Step:
        """Take a step, or where there is a reason to stop a mere linearisation.

        If the step before is `doubtful`, the step is only looked at where its promise says that its start is a minimum.
        """
        objective, restrictions = self._problem.objective(*self._placed)
        if progress.window:
            leeway, is_usual = progress.window.leeway(objective.cost), self._settings.window is None
            restrictions = restrictions._replace(leeway=leeway, leeway_is_usual=is_usual)
        may_step = progress.outcome.steps < tf.minimum(self._allowance.until, self._allowance.max_steps)

        def looks(report: Report) -> Tensor:
            standing = standing_of(report, self._settings.limits, progress.first_cost)
            return doubtful & (~may_step | has_converged(standing))

        method = self._settings.method
        method = method._replace(max_attempts=tf.where(progress.running, method.max_attempts, 0))
        return take_step(objective, progress.state, method, restrictions._replace(looks=looks))

    def _follow(
        self, progress: Progress, step: Step, values: list[Tensor], doubtful: Tensor
    ) -> tuple[Progress, Tensor, Report]:
        """Return the `Progress` after a `Step` from `values`, whether that is doubtful, and the `Report`."""
        position = self._problem.position() if progress.window else None
        tried = Tried(step, values, position, doubtful)
        going_on, still_doubtful = gone_on(progress, tried, self._settings.limits, self._allowance.max_steps)
        back = cast(Back, progress.back)  # there is one wherever this loop takes the steps
        lost = tf.equal(step.report.status, int(Status.NOT_FINITE)) & back.known
        returned, report = taken_back(progress, back, step.report, self._allowance.max_steps)
        tf.cond(lost, lambda: self._problem.write(back.values), lambda: back.values)
        return chosen(lost, returned, going_on), still_doubtful & ~lost, chosen(lost, report, step.report)


def _recorded(rows: Tensor, first: Tensor, before: Progress, after: Progress, report: Report) -> Tensor:
    """Return `rows` with that of a step, if one was taken; `first`: how many there were before the first row."""
    stepped = after.outcome.steps > before.outcome.steps
    index = tf.where(stepped, after.outcome.steps - first, LONGEST_RECORD + 1) - 1
    return tf.tensor_scatter_nd_update(rows, [[index]], row_of(report)[None])
