"""Steps on mini-batches: what earlier batches said is remembered, and fades; where data come again, nothing is.

Three rules make up `memory="auto"`; `memory=β` has the last two. They were chosen by trials on ten tables with networks
of 36 to 1,800 weights and batches of 8 to 256 examples, beside Adam; see `benchmarks/any_batch.py`.

*How long.* N residuals are remembered, β = 1 − rows/N. With noise σ², a fit to N residuals costs about σ²p/N of excess
error; without noise, old batches are wrong about the curvature. So N begins at twice the number of weights, and grows
with what was seen: N = max(2p, 300, seen/10). A batch with as many residuals is taken alone.

*How far.* λ is never less than what `least_damping.py` says. Kronecker factors have other rules, see `kronecker.py`.

*How often.* With JᵀJ of many weights a step is taken for several batches, see `FadingModel.begins`.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from tfjac.drive.streamed.kronecker import KroneckerMemory, named
from tfjac.drive.streamed.least_damping import LeastDamping
from tfjac.drive.streamed.recalling import BatchMemory, LinearisedObjective, News, RecallingObjective
from tfjac.graph import ExamplesMix, cond, eager_creation
from tfjac.jacobians.passes.linearise import NoForwardMode
from tfjac.linear import arrays
from tfjac.linear.contracts import AS_FACTORS, LinearModel
from tfjac.linear.solvers import ConjugateGradientSolver
from tfjac.linear.solvers.base import zeros_unless
from tfjac.linear.solvers.plan import Plan
from tfjac.linear.solvers.problem_sizes import ProblemSizes
from tfjac.objective.reached_variables import refuse_precision
from tfjac.steps.damping import NielsenDamping
from tfjac.steps.method import Method
from tfjac.steps.objective import SummedObjective
from tfjac.steps.records import Report, State
from tfjac.steps.statuses import Status
from tfjac.steps.step import Restrictions, Step, take_step
from tfjac.types import Tensor

_SAME_LOSS = 1e-3
"""Relative difference of the loss up to which a batch may be that of the step before."""

WITHOUT_SCHEDULE = (
    "A schedule of learning_rate scales steps with Kronecker factors alone; damping sets the length of others. They "
    "are kept with memory, solver and scaling as they are by default, of networks as in "
    "docs/explanation/memory_of_mini_batches.md: leave learning_rate out. "
)
"""Why it is refused."""

REPEATS = 3
"""After so many steps on the same data one after the other, nothing is remembered any more."""


def is_same_loss(loss: Tensor, before: Tensor) -> Tensor:
    """Return whether two losses may be those of the same data at the same weights, a bool tensor; not if one is NaN."""
    return tf.abs(loss - before) <= _SAME_LOSS * tf.maximum(tf.abs(loss), tf.abs(before))


class Memory:
    """Remembers where data are new, by the rules above, and takes plain steps where they are those of the step before.

    The loss at the start of a step tells: on the same data it is the loss at the end of the step before. If the
    variables are not where that step left them, it does not tell, and all begins again.

    Args:
        add: function from a name, a shape and a dtype to a new variable of the optimizer.
        size: number of parameters.
        dtype: of what is remembered.
        add_late: the same as `add`, for variables that are made while the first batch is traced.
        choose: function that returns a `BatchMemory`, which makes its variables.
        wants_factors: function from an `Objective` and a `Method` to whether Kronecker factors are to be kept instead.
        share: function without arguments that returns by what steps with them are scaled, from 0 to 1; or None.

    Attributes:
        data_stream: function without arguments that returns, while a step is traced, whether data are known to be new
            with each step.
        keeps_nothing: whether the graph that was traced last remembers nothing, whatever the data.
        taken: list of the bytes of each variable that it made.
    """

    taken: list[int]

    may_be_half = True
    """Whether a model may compute in bfloat16: Kronecker factors are kept then."""

    def __init__(
        self,
        add: Callable,
        size: int,
        dtype: tf.DType,
        add_late: Callable,
        choose: Callable,
        wants_factors: Callable,
        share: Callable | None = None,
    ) -> None:
        self.model: Any = None  # the `BatchMemory`, or `KroneckerMemory`, from the first batch on
        self._add_late, self._wants_factors, self._share = add_late, wants_factors, share
        self._choose, self._dtype, self.keeps_nothing = choose, dtype, False
        self.data_stream: Callable[[], bool] = lambda: False
        self._loss, self._seen = add("loss_after_step", (), "float64"), add("residuals_seen", (), "float64")
        self._steps, self._repeats = add("steps_so_far", (), "int64"), add("steps_on_same_data", (), "int64")
        self._least = LeastDamping(add)
        self._streams, self._left = add("data_are_new", (), "int64"), add("position_after_step", (size,), dtype)

    def take_step(
        self, objective: SummedObjective, state: State, method: Method, restrictions: Restrictions, weight: Tensor
    ) -> Step:
        """Take a step on a batch and what is remembered, remember the batch, and return the `Step`; or a plain one.

        The cost that is reported is that of both, of which what is remembered is zero before the step. A batch that is
        not finite changes nothing.

        Several workers take plain steps: each of them would have to remember what all have summed up. So do steps by
        products with J: JᵀJ would take a pass for each residual of an example.

        Args:
            objective: `Objective` of the batch.
            state: a `State`; method: a `Method`.
            restrictions: `Restrictions`, of which bounds are known.
            weight: scalar, d: what the batch counts for.
        """
        allowed = method.allowed()
        if self._wants_factors(objective, method):
            at_once = self._news(objective, at_once=True)
            drawn = self._drawn(objective, method, at_once)
            if drawn is not None:
                return self._step_with_factors(objective, drawn, at_once, state, method, restrictions, weight)
        if objective.half is not None:
            refuse_precision(objective.half, objective.cost.dtype)
        if self._share is not None:
            raise ValueError(WITHOUT_SCHEDULE + f"Received: {objective.columns.total:,} weights without such factors")
        news = None if objective.sums_squares or objective.is_shared else self._news(objective)
        batch = objective.linearise(allowed if news is None else allowed._replace(farther=news.are_new))
        start = LinearisedObjective(objective, batch)
        sizes = ProblemSizes.of(batch, method.gram_dtype, method.scaling.is_one_number, allowed.budget)
        if objective.is_shared or sizes.by_products or isinstance(self.model, KroneckerMemory):
            return take_step(start, state, method, restrictions)
        if self.model is None:
            with eager_creation():
                self.model = self._choose()
        news = news or self._news(objective)
        stayed, streams = news.stayed, news.streams
        self._keep_news(news)
        self._least.look(objective, batch, stayed)
        takes = self.model.takes(batch)
        self.keeps_nothing = takes is False
        names = [solver.name for solver in method.solver.choose(sizes).solvers]
        if takes is True and (streams is None or names == [self.model.solver.name]):  # the same step, with zeros for H
            step, loss = self._step_on_new_data(objective, batch, state, method, restrictions, weight, news)
            self._note(objective, loss)
            return step

        def remember() -> tuple:
            streaming = news._replace(streams=None)
            step, loss = self._step_on_new_data(objective, batch, state, method, restrictions, weight, streaming)
            return step.state, step.report, loss

        def plain() -> tuple:
            self._seen.value.assign(0.0)
            begun = state
            if takes is not True:
                diagonal = batch.diagonal()  # outside of the condition it is the one that the step needs anyway
                damped = lambda: self._least.raised(state, method, objective, batch, diagonal, self.model.most_share)  # noqa: E731
                begun = damped() if streams is None else cond(streams, damped, lambda: state)
            step = take_step(start, begun, method, restrictions)
            return step.state, step.report, tf.cast(step.report.cost, tf.float64)

        state, report, loss = plain() if takes is False else cond(news.are_new & takes, remember, plain)
        self._note(objective, loss)
        return Step(state, report, sizes, batch.num_rows, tf.constant(int(Status.RUNNING)), state)

    def _drawn(self, objective: SummedObjective, method: Method, news: News) -> LinearModel | None:
        """Return the linear model of a batch with rows drawn by the number of the step; None where there is none.

        Nor is there where those rows are over the memory budget. Of what is left of it, factors take no more.
        """
        try:
            drawn = objective.linearise(
                AS_FACTORS._replace(drawn=news.steps, by_drawn=news.streams is None, farther=news.are_new)
            )
        except (ExamplesMix, NoForwardMode):
            return None
        sizes = ProblemSizes.of(drawn, method.gram_dtype, method.scaling.is_one_number)
        left = method.allowed().budget - (0.0 if sizes.rows is None else float(sizes.held()))
        if left < 0:
            return None
        if not isinstance(self.model, KroneckerMemory):
            self.model = KroneckerMemory.of(self._add_late, objective.columns, drawn, left, self._share)
        return drawn

    def _step_with_factors(
        self,
        objective: SummedObjective,
        drawn: LinearModel,
        news: News,
        state: State,
        method: Method,
        restrictions: Restrictions,
        weight: Tensor,
    ) -> Step:
        """Take a step with Kronecker factors, or by conjugate gradients if the data are those of the steps before.

        In bfloat16 it is the former always: iterations would end at the rounding of products.
        """
        self.keeps_nothing = False
        self._keep_news(news)

        def remember(streams: Tensor | None = None) -> tuple:
            given = objective, drawn, state, method, restrictions, weight
            return self.model.take_step(*given, news._replace(streams=streams))

        def iterate() -> tuple:
            solver, start = ConjugateGradientSolver(), LinearisedObjective(objective, drawn)
            step = take_step(start, state, method._replace(solver=solver, acceleration=None), restrictions)
            return step.state, named(step.report, method, solver), tf.cast(step.report.cost, tf.float64)

        if objective.half is not None:
            state, report, loss = remember()
        elif news.streams is None or (type(method.damping) is NielsenDamping and method.gram_dtype is None):
            state, report, loss = remember(news.streams)
        else:
            state, report, loss = cond(news.streams, remember, iterate)
        self._note(objective, loss)
        sizes = ProblemSizes.of(drawn, method.gram_dtype, method.scaling.is_one_number, method.allowed().budget)
        return Step(state, report, sizes, drawn.num_rows, tf.constant(int(Status.RUNNING)), state)

    def plan(self, sizes: ProblemSizes) -> Plan | None:
        """Return the `Plan` of the steps on batches of `ProblemSizes` with Kronecker factors; None without these."""
        return self.model.plan(sizes) if isinstance(self.model, KroneckerMemory) else None

    def _note(self, objective: SummedObjective, loss: Tensor) -> None:
        """Remember the loss after a step, and where it led, `[p]`, whatever the units of the targets are."""
        self._loss.value.assign(tf.where(tf.math.is_finite(loss), loss, np.inf))
        self._left.value.assign(tf.cast(objective.columns.flatten(objective.values()), self._dtype))

    def _news(self, objective: SummedObjective, at_once: bool = False) -> "News":
        """Return what is new: always, if a `fit` tells so; else by the loss at the start, and not at the first step.

        Args:
            objective: `SummedObjective` of the batch.
            at_once: whether data are new until they repeat, at the first step as well.
        """
        held = tf.cast(objective.columns.flatten(objective.values()), self._dtype)
        stayed = tf.reduce_all(tf.equal(held, self._left.value.value()))
        steps = tf.where(stayed, self._steps.value.value(), 0)
        if self.data_stream():
            return News(stayed, None, tf.zeros([], tf.int64), steps)
        same = is_same_loss(tf.cast(objective.cost, tf.float64), self._loss.value.value())
        repeats = tf.where(same, self._repeats.value.value() + 1, 0)
        streams = tf.where(self._streams.value.value() > 0, repeats < REPEATS, ~same)
        return News(stayed, (repeats < REPEATS) if at_once else streams & (steps > 0), repeats, steps)

    def _keep_news(self, news: "News") -> None:
        """Keep what the next step needs of them, and count the step."""
        self._repeats.value.assign(news.repeats)
        self._streams.value.assign(tf.cast(news.are_new, tf.int64))
        self._steps.value.assign(news.steps + 1)

    def _step_on_new_data(
        self,
        objective: SummedObjective,
        batch: LinearModel,
        state: State,
        method: Method,
        restrictions: Restrictions,
        weight: Tensor,
        news: News,
    ) -> tuple[Step, Tensor]:
        """Return the `Step`, and the loss of the batch after it.

        If data are not new, nothing is recalled nor remembered; if the variables were moved, nothing is recalled.
        """
        streams, seen = news.streams, zeros_unless(news.stayed, self._seen.value.value())
        rows = tf.cast(batch.num_rows, tf.float64)
        model, bend = self.model, method.acceleration
        decay, seen = tf.cast(model.decay(seen, rows), self._dtype), seen + rows
        if streams is not None:
            decay, seen = zeros_unless(streams, decay), zeros_unless(streams, seen)
        self._seen.value.assign(seen)
        bend = None if streams is None or bend is None else bend.where(~streams)
        asked, method = method, method._replace(solver=model.solver, acceleration=bend)
        position = objective.position(objective.values())
        recalled, diagonal = model.recalled(objective, batch, position, decay, weight)
        damped = self._least.raised(state, method, objective, batch, diagonal, model.most_share, streams)
        begins = None if streams is not None else model.begins(news.steps, batch, objective.num_parts)
        step = take_step(recalled, damped, method, restrictions._replace(begins=begins))
        step, loss = _remembered(step, recalled, objective, model, state, weight, streams)
        return step._replace(report=named(step.report, asked, model.solver)), tf.cast(loss, tf.float64)


def _remembered(
    step: Step,
    recalling: RecallingObjective,
    objective: SummedObjective,
    model: BatchMemory,
    state: State,
    weight: Tensor,
    streams: Tensor | None = None,
) -> tuple[Step, Tensor]:
    """Remember a batch after a step, and return the `Step`, and the loss of the batch after it.

    `state`, that of before, stays where there was no step to take, and where a step was
    judged by rounding alone, as where a stream has nothing new to say: else damping would have grown beyond all measure
    when the stream changes. Nothing of this is so where data do not stream, if that is given.
    """
    report = step.report
    after = objective.position(objective.values())
    is_idle = tf.equal(report.status, int(Status.NOT_FINITE)) | tf.equal(report.status, int(Status.GRADIENT_TOLERANCE))
    moved, position = (tf.cast(each, model.dtype) for each in (after - recalling.start, after))
    wanted, stays = ~is_idle & (weight > 0), is_idle | _within_rounding(report)
    if streams is not None:
        wanted, stays = streams & wanted, streams & stays
    model.remember(recalling, wanted, moved, position, weight)
    kept = step._replace(state=arrays.choice(stays, state, step.state))
    return kept, report.cost - recalling.remembered(after)


def _within_rounding(report: Report) -> Tensor:
    """Return whether a step promised no more than the rounding of residuals, which are as large as J times w."""
    rounding = np.finfo(report.cost.dtype.as_numpy_dtype).eps * report.length
    return report.promised <= rounding * (rounding + tf.sqrt(2 * tf.abs(report.cost_before)))
