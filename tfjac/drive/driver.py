"""The loop of steps, until there is a reason to stop: step, ask whether it has converged, go on or go back.

The driver knows neither what a step costs nor who takes it. Two kinds of `Carrier` do: in a graph, steps are ops, and
the loop is one of the graph; outside, the loop is one of Python, and the steps are calls.
"""

import abc
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, Protocol

import tensorflow as tf

from tfjac.drive.options import Settings
from tfjac.linear import arrays
from tfjac.steps.converge import Tolerances, standing_of
from tfjac.steps.nonmonotone import Window
from tfjac.steps.progress import Allowance, Progress, Tried, gone_on, taken_back
from tfjac.steps.records import Report, State
from tfjac.steps.statuses import Status
from tfjac.steps.step import Restrictions, Step
from tfjac.types import Tensor


class Request(NamedTuple):
    """What one step is asked for.

    Attributes:
        state, first_cost, stands, window: those of the `Progress`.
        running: scalar bool, whether there is no reason to stop; if there is one, the point is only linearised.
        is_long: scalar bool, see `Stretch`.
        may_step: scalar bool, whether one more step is allowed: else it is proposed, for the status, and not tried.
    """

    state: State
    first_cost: tf.Tensor
    stands: tf.Tensor
    window: Window | tuple[()]
    running: tf.Tensor
    is_long: tf.Tensor
    may_step: tf.Tensor

    @classmethod
    def of(cls, progress: Progress, may_step: Tensor) -> "Request":
        known = progress.state, progress.first_cost, progress.stands, progress.window, progress.running
        return cls(*known, progress.stretch.is_long, may_step)

    def restrictions(self, settings: Settings, cost: Tensor, restrictions: Restrictions) -> Restrictions:
        """Return all that restricts the step from a point of `cost`, given the `Restrictions` of the variables."""
        if self.window:
            leeway, is_usual = self.window.leeway(cost), settings.window is None
            restrictions = restrictions._replace(leeway=leeway, leeway_is_usual=is_usual)
        judges = partial(standing_of, limits=settings.limits, first_cost=self.first_cost, is_long=self.is_long)
        return restrictions._replace(begins=self.running, judges=judges, ends=self.stands, tries=self.may_step)


class Carrier(Protocol):
    """Who takes the steps, and where the variables are meanwhile."""

    is_small: bool
    """As of `tfjac.graph.while_loop`."""

    @abc.abstractmethod
    def values(self) -> list:
        """What the variables hold, a list of arrays."""

    @abc.abstractmethod
    def write(self, values: list) -> list:
        """Let the variables hold `values`, and return them."""

    @abc.abstractmethod
    def position(self) -> Any:
        """The same as `values`, as one vector of all elements."""

    @abc.abstractmethod
    def go_to(self, position: Any) -> Any:
        """Let the variables hold the elements of a vector, and return it."""

    @abc.abstractmethod
    def take(self, request: Request) -> Step:
        """Take the step of a `Request` from where the variables are."""


class Driver:
    """Takes the steps of a `Carrier` until there is a reason to stop.

    Args:
        note: called with the `Report` of each step that was taken, outside of graphs.
    """

    def __init__(
        self,
        carrier: Carrier,
        limits: Tolerances,
        allowance: Allowance,
        note: Callable[[Report], Any] | None = None,
    ) -> None:
        self._carrier, self._limits, self._allowance, self._note = carrier, limits, allowance, note

    def run(self, progress: Progress) -> Progress:
        """Return the `Progress` after the steps from the one so far."""
        small = self._carrier.is_small
        (end,) = arrays.loop(self._is_unfinished, lambda each: (self._step(each),), (progress,), small=small)
        return end

    def _is_unfinished(self, progress: Progress) -> Tensor:
        """Return whether to go on: at the last point allowed, to its status; at the end, to its gradient."""
        until, max_steps, finish = self._allowance
        more = (progress.outcome.steps < until) | progress.stands | (until >= max_steps)
        return (progress.running & more) | (~progress.running & progress.moved & finish)

    def _step(self, progress: Progress) -> Progress:
        values = self._carrier.values()
        self._go_to_start(progress)
        may_step = progress.outcome.steps < arrays.minimum(self._allowance.until, self._allowance.max_steps)
        after, report = self._follow(progress, self._carrier.take(Request.of(progress, may_step)), values)
        if self._note is not None and after.outcome.steps > progress.outcome.steps:
            self._note(report)
        return after

    def _go_to_start(self, progress: Progress) -> None:
        """Move the variables to the best point of the window, if the next step starts there."""
        window = progress.window
        if window:
            stays = progress.running & ~window.returns
            arrays.branch(stays, lambda: window.best, lambda: self._carrier.go_to(window.best))

    def _follow(self, progress: Progress, step: Step, values: list) -> tuple[Progress, Report]:
        position, back = self._carrier.position() if progress.window else None, progress.back
        going_on = gone_on(progress, Tried(step, values, position), self._limits, self._allowance.max_steps)
        lost = arrays.equal(step.report.status, int(Status.NOT_FINITE)) & back.known
        arrays.branch(lost, lambda: self._carrier.write(back.values), lambda: back.values)
        return arrays.choice_of(lost, lambda: taken_back(progress, step.report), lambda: (going_on, step.report))
