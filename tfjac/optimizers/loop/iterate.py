"""A whole minimisation as functions of a graph: the start, and steps in a loop, until there is a reason to stop."""

from functools import partial
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from tfjac.graph import SMALL, as_tf_variable, while_loop
from tfjac.optimizers.columns import Columns
from tfjac.optimizers.conditions.conditions import Conditions
from tfjac.optimizers.conditions.coordinates import Coordinates
from tfjac.optimizers.loop.converge import first_cost_of, outcome_after, standing_of, status_after
from tfjac.optimizers.loop.native_steps import linearised_at, suits, take_native_steps
from tfjac.optimizers.loop.nonmonotone import Window
from tfjac.optimizers.loop.records import LONGEST_RECORD, Outcome, State, chosen, has_converged, row_of
from tfjac.optimizers.loop.step import Restrictions, take_step
from tfjac.optimizers.objective.residuals import objective_of_residuals, unit_of
from tfjac.optimizers.objective.robust import losses_of
from tfjac.optimizers.solvers.problem_sizes import ProblemSizes
from tfjac.optimizers.statuses import Status


class Invariants(NamedTuple):
    """What stays the same in all steps of one minimisation.

    Attributes:
        drawn: list of tensors, what `residuals.draw` returned.
        unit: scalar, what residuals are measured in, so that their squares are within the range of the dtype; so is
            what an `Outcome` says of the cost and the gradient.
        number: scalar int64, how many residuals there are.
        conditions: `Conditions`.
    """

    drawn: list
    unit: tf.Tensor
    number: tf.Tensor
    conditions: Conditions


class Back(NamedTuple):
    """Where to go back to if the last step led to where J is not finite, although the cost is.

    Attributes:
        known: scalar bool, whether there was such a step.
        cost: scalar, F there.
        values: list of tensors, what the variables held there.
        state: the `State` to go on with, more damped.
        window: the `Window` there, or an empty tuple.
    """

    known: tf.Tensor
    cost: tf.Tensor
    values: list
    state: State
    window: Any


class Progress(NamedTuple):
    """How far a minimisation has come: from here, it goes on as if it had never stopped.

    Attributes:
        outcome: an `Outcome` without `x`.
        state: a `State`.
        first_cost: scalar, `first_cost_of` the first step.
        moved: scalar bool, whether the gradient in `outcome` is that of another point than that where it would end now.
        window: a `Window`; an empty tuple where the cost never rises.
        back: a `Back`; an empty tuple where one op takes the steps.
    """

    outcome: Outcome
    state: State
    first_cost: tf.Tensor
    moved: tf.Tensor
    window: Any = ()
    back: Any = ()

    @property
    def running(self):
        """Whether there is no reason to stop yet."""
        return tf.equal(self.outcome.status, int(Status.RUNNING))


class Iteration:
    """Functions to be traced that move variables to a minimum.

    Args:
        residuals: `TracedResiduals`.
        variables: list of variables.
        settings: `Settings`.
        alone: whether the graphs that they are traced in hold nothing else.

    Attributes:
        sizes: the `ProblemSizes`, once a step was traced.
    """

    sizes = None

    def __init__(self, residuals, variables, settings, alone=False):
        self._residuals, self._variables, self._settings = residuals, variables, settings
        self._takes_native_steps = alone and suits(residuals, variables, settings)
        self._is_small = alone and not settings.jit_compile and self._num_numbers() <= SMALL
        self._dtype = as_tf_variable(variables[0]).dtype
        self._losses = losses_of(settings.losses, residuals.num_tensors)
        self._coordinates = Coordinates(variables, settings.manifolds)

    def _num_numbers(self):
        """Return about how many numbers a step is made of: JᵀJ, J, and what residuals are computed by, per column.

        Row by row, where examples mix, it is once per row: of these, 16 times as many still are far from 200 MB.
        """
        columns, rows = Columns(self._variables).total, self._residuals.num_rows
        return columns**2 + columns * rows + (1 + max(columns, rows / 16)) * self._residuals.num_numbers

    def start(self, data, conditions):
        """Return the `Invariants` and the `Progress` before the first step.

        Args:
            data: list of tensors like `residuals.specs`.
            conditions: `Conditions`.
        """
        drawn = self._residuals.draw(data)
        tensors = self._residuals.place(data, drawn)
        number = tf.add_n([tf.size(tensor, tf.int64) for tensor in tensors])
        values = Columns(self._variables).flatten(self.values())
        status = tf.where(number > 0, int(Status.RUNNING), int(Status.NO_RESIDUALS))
        if conditions.box:
            status = tf.where(conditions.box.contains(values), status, int(Status.INFEASIBLE))
        if conditions.equality:
            values = self._project(conditions.equality, values)
            status = tf.where(conditions.equality.has_solution, status, int(Status.INFEASIBLE))
        zero, none = tf.zeros([], self._dtype), tf.constant(0)
        scaling = tf.zeros([self._coordinates.columns.total], self._dtype)
        state = State(tuple(zero for _ in self._settings.method.damping.state_names), scaling)
        outcome = Outcome((), zero, zero, status, none, none, none, zero)
        moved = tf.equal(status, int(Status.RUNNING))
        pulls = [conditions.prior.residuals(values)] if conditions.prior else []
        invariants = Invariants(drawn, unit_of([*tensors, *pulls], self._dtype), number, conditions)
        size = self._settings.window or self._settings.method.solver.usual_window
        window = Window.empty(size, values) if size > 1 else ()
        back = () if self._takes_native_steps else Back(tf.constant(False), zero, self.values(), state, window)
        return invariants, Progress(outcome, state, zero, moved, window, back)

    def _project(self, equality, values):
        """Move the variables to the nearest point that fulfils the equations, where there is one, and return it."""
        values = tf.where(equality.has_solution, equality.project(values), values)
        self._assign(values)
        return values

    def _assign(self, values):
        self._write(Columns(self._variables).split(values))
        return values

    def _write(self, values):
        for variable, value in zip(self._variables, values):
            as_tf_variable(variable).assign(value)
        return values

    def advance(self, data, invariants, progress, until, max_steps, finish, record=False):
        """Take steps.

        Args:
            data: list of tensors like `residuals.specs`.
            invariants, progress: what `start`, or `advance`, returned.
            until: scalar int32, how many steps there may be by then.
            max_steps: scalar int32, after how many steps to stop for good.
            finish: scalar bool, whether to linearise once more at the end, for the gradient there, where there is one.
            record: whether to write down each step, a Python bool; at most `LONGEST_RECORD` of them then.

        Returns:
            The `Progress`, and what was written down, `[LONGEST_RECORD, 7]`.
        """
        if self._takes_native_steps:
            return self._advance_in_one_op(data, invariants, progress, until, max_steps, finish, record)
        first = progress.outcome.steps

        def unfinished(progress, doubtful, rows):
            more = progress.running & ((progress.outcome.steps < until) | doubtful)
            return more | (~progress.running & progress.moved & finish)

        def step(progress, doubtful, rows):
            before = progress.outcome.steps
            progress, doubtful, report = self._step(data, invariants, progress, doubtful, until, max_steps)
            if record:
                stepped = progress.outcome.steps > before
                index = tf.where(stepped, progress.outcome.steps - first, LONGEST_RECORD + 1) - 1
                rows = tf.tensor_scatter_nd_update(rows, [[index]], row_of(report)[None])
            return progress, doubtful, rows

        rows = tf.zeros([LONGEST_RECORD + 1 if record else 0, 7], self._dtype)
        start = progress, tf.constant(False), rows
        progress, _, rows = while_loop(unfinished, step, start, small=self._is_small)
        return progress, rows

    def _advance_in_one_op(self, data, invariants, progress, until, max_steps, finish, record):
        """Take steps as `advance` does, see `native_steps`."""

        def evaluate(position):
            residuals_at = partial(self._residuals_at, data, invariants)
            cost, model = linearised_at(position, residuals_at, self._variables, self._losses, invariants.unit)
            self.sizes = ProblemSizes.of(model, one_scale=False)
            return cost, model.residual, model.jacobian.to_dense()

        position, progress, rows = take_native_steps(
            evaluate,
            Columns(self._variables).flatten(self.values()),
            progress,
            self._settings,
            invariants.conditions.box or None,
            until,
            max_steps,
            finish,
            LONGEST_RECORD if record else 0,
        )
        self._assign(position)
        return progress, rows

    def whole(self, data, conditions, max_steps):
        """Return the `Outcome` of all steps, with `x`, and the `Invariants`."""
        invariants, progress = self.start(data, conditions)
        outcome = progress.outcome
        ended = progress.running & (max_steps < 1)
        progress = progress._replace(
            outcome=outcome._replace(status=tf.where(ended, int(Status.MAX_STEPS), outcome.status))
        )
        progress, _ = self.advance(data, invariants, progress, max_steps, max_steps, tf.constant(True))
        return progress.outcome._replace(x=self.values()), invariants

    def values(self):
        """Return what the variables hold, a list of tensors."""
        return [as_tf_variable(variable).read_value() for variable in self._variables]

    def _step(self, data, invariants, progress, doubtful, until, max_steps):
        """Take a step, or where there is a reason to stop a mere linearisation.

        Args:
            data, invariants, progress, until, max_steps: as of `advance`.
            doubtful: scalar bool, whether the last step met a tolerance, and it is to be seen if its end does.

        Returns:
            The `Progress`, whether that is `doubtful`, and the `Report`.
        """
        running, window, values = progress.running, progress.window, self.values()
        if window:
            stays = running & ~window.returns
            tf.cond(stays, lambda: window.best, lambda: self._assign(window.best))
        objective, restrictions = self._objective(data, invariants)
        if window:
            restrictions = restrictions._replace(
                leeway=window.leeway(objective.cost), leeway_is_usual=self._settings.window is None
            )
        may_step = progress.outcome.steps < tf.minimum(until, max_steps)

        def looks(report):
            standing = standing_of(report, self._settings.limits, progress.first_cost)
            return doubtful & (~may_step | has_converged(standing))

        method = self._settings.method
        method = method._replace(max_attempts=tf.where(running, method.max_attempts, 0))
        step = take_step(objective, progress.state, method, restrictions._replace(looks=looks))
        self.sizes = step.sizes
        return self._after(progress, step, values, doubtful, max_steps)

    def _after(self, progress, step, values, doubtful, max_steps):
        """Return what `_step` does, after a `Step` from `values`."""
        going_on, still_doubtful = self._gone_on(progress, step, values, doubtful, max_steps)
        lost = tf.equal(step.report.status, int(Status.NOT_FINITE)) & progress.back.known
        taken_back, report = self._taken_back(progress, step.report, max_steps)
        tf.cond(lost, lambda: self._write(progress.back.values), lambda: progress.back.values)
        return chosen(lost, taken_back, going_on), still_doubtful & ~lost, chosen(lost, report, step.report)

    def _gone_on(self, progress, step, values, doubtful, max_steps):
        """Return the `Progress` after a step that is not taken back, and whether it is doubtful."""
        running, window, report, moved = progress.running, progress.window, step.report, step.report.accepted
        first_cost = tf.where(tf.equal(progress.outcome.steps, 0), first_cost_of(report), progress.first_cost)
        status = status_after(report, self._settings.limits, first_cost)
        status = tf.where(step.looked, standing_of(report, self._settings.limits, first_cost), status)
        if window:
            left = running & window.is_left(report) & tf.not_equal(status, int(Status.RUNNING))
            status = tf.where(left, int(Status.RUNNING), status)
        stepped = ~step.looked & ~(doubtful & tf.equal(report.attempts, 0))
        doubtful = running & moved & has_converged(status)
        status = tf.where(doubtful, int(Status.RUNNING), status)
        outcome = outcome_after(progress.outcome, running, report, status, max_steps, stepped, doubtful)
        back = Back(moved, report.cost_before, values, step.refused, window)
        if window:
            window = window.after(report, Columns(self._variables).flatten(self.values()), left)
            moved |= running & (window.lowest < report.cost)  # at its best point, it differs by rounding at most
        return Progress(outcome, step.state, first_cost, moved, window, back), doubtful

    def _taken_back(self, progress, report, max_steps):
        """Return the `Progress` where the last step is taken back, as if it had been rejected, and the `Report`."""
        back, running = progress.back, progress.running
        report = report._replace(
            cost=back.cost,
            reduction=back.cost - report.cost,
            ratio=tf.constant(-np.inf, self._dtype),
            damping=progress.outcome.damping,
            gradient_norm=progress.outcome.gradient_norm,
            status=tf.constant(int(Status.REJECTED)),
        )
        outcome = outcome_after(progress.outcome, running, report, tf.constant(int(Status.RUNNING)), max_steps)
        back, moved = back._replace(known=tf.constant(False)), tf.constant(False)
        return Progress(outcome, back.state, progress.first_cost, moved, back.window, back), report

    def _objective(self, data, invariants):
        """Return what is minimised, where the variables are, and the `Restrictions` of a step from there."""
        charts = self._coordinates.charts()
        tensors = self._residuals_at(data, invariants, charts)
        box, prior, equality = self._coordinates.conditions(invariants.conditions)
        objective = objective_of_residuals(
            tensors,
            self._variables,
            losses=self._losses,
            unit=invariants.unit,
            prior=prior and prior.in_units(invariants.unit),
            prior_is_uniform=self._settings.prior_is_uniform,
            charts=charts,
        )
        return objective, Restrictions(box or None, equality or None)

    def _residuals_at(self, data, invariants, charts):
        """Return the residuals, a list of tensors, where charts stand for variables; None for what they hold."""
        tensors = self._residuals.place_at(data, invariants.drawn, self._values_of(charts))
        return [tf.cast(tensor, self._dtype) / invariants.unit for tensor in tensors]

    def _values_of(self, charts):
        """Return what stands for each variable that the residuals read; None for what it holds."""
        values = [None] * len(self._residuals.handles)
        for position, chart in zip(self._residuals.positions, charts):
            if chart is not None and position is not None:
                values[position] = chart.value
        return values
