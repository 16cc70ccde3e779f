"""A whole minimisation as functions of a graph: the start, and steps in a loop, until there is a reason to stop."""

from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from tfjac.graph import as_tf_variable, while_loop
from tfjac.optimizers.linearisation import Columns
from tfjac.optimizers.minimisation.conditions import Conditions
from tfjac.optimizers.minimisation.convergence import status_after
from tfjac.optimizers.minimisation.history import LONGEST, row_of
from tfjac.optimizers.minimisation.window import Window
from tfjac.optimizers.problem.coordinates import Coordinates
from tfjac.optimizers.problem.residuals import problem_of_residuals
from tfjac.optimizers.problem.robust import losses_of
from tfjac.optimizers.statuses import Status
from tfjac.optimizers.steps.records import Outcome, State
from tfjac.optimizers.steps.step import take_step


class Setting(NamedTuple):
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


class Progress(NamedTuple):
    """How far a minimisation has come: from here, it goes on as if it had never stopped.

    Attributes:
        outcome: an `Outcome` without `x`.
        state: a `State`.
        first_cost: scalar, F at the start.
        moved: scalar bool, whether the gradient in `outcome` is that of another point than that where it would end now.
        window: a `Window`; an empty tuple where the cost never rises.
    """

    outcome: Outcome
    state: State
    first_cost: tf.Tensor
    moved: tf.Tensor
    window: Any = ()

    @property
    def running(self):
        """Whether there is no reason to stop yet."""
        return tf.equal(self.outcome.status, int(Status.RUNNING))


class Minimisation:
    """Functions to be traced that move variables to a minimum.

    Args:
        residuals: `TracedResiduals`.
        variables: list of variables.
        settings: `Settings`.

    Attributes:
        sizes: the `ProblemSizes`, once a step was traced.
    """

    sizes = None

    def __init__(self, residuals, variables, settings):
        self._residuals, self._variables, self._settings = residuals, variables, settings
        self._dtype = as_tf_variable(variables[0]).dtype
        self._losses = losses_of(settings.losses, residuals.num_tensors)
        self._coordinates = Coordinates(variables, settings.manifolds)

    def start(self, data, conditions):
        """Return the `Setting` and the `Progress` before the first step.

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
        setting = Setting(drawn, unit_of([*tensors, *pulls], self._dtype), number, conditions)
        size = self._settings.window
        return setting, Progress(outcome, state, zero, moved, Window.empty(size, values) if size > 1 else ())

    def _project(self, equality, values):
        """Move the variables to the nearest point that fulfils the equations, where there is one, and return it."""
        values = tf.where(equality.has_solution, equality.project(values), values)
        self._assign(values)
        return values

    def _assign(self, values):
        for variable, part in zip(self._variables, Columns(self._variables).split(values)):
            as_tf_variable(variable).assign(part)
        return values

    def advance(self, data, setting, progress, until, max_steps, finish, record=False):
        """Take steps.

        Args:
            data: list of tensors like `residuals.specs`.
            setting, progress: what `start`, or `advance`, returned.
            until: scalar int32, how many steps there may be by then.
            max_steps: scalar int32, after how many steps to stop for good.
            finish: scalar bool, whether to linearise once more at the end, for the gradient there, where there is one.
            record: whether to write down each step, a Python bool; at most `LONGEST` of them then.

        Returns:
            The `Progress`, and what was written down, `[LONGEST, 7]`.
        """
        first = progress.outcome.steps

        def unfinished(progress, rows):
            more = progress.running & (progress.outcome.steps < until)
            return more | (~progress.running & progress.moved & finish)

        def step(progress, rows):
            running = progress.running
            progress, report = self._step(data, setting, progress, max_steps)
            if record:
                index = tf.where(running, progress.outcome.steps - first, LONGEST + 1) - 1
                rows = tf.tensor_scatter_nd_update(rows, [[index]], row_of(report)[None])
            return progress, rows

        rows = tf.zeros([LONGEST + 1 if record else 0, 7], self._dtype)
        return while_loop(unfinished, step, (progress, rows))

    def whole(self, data, conditions, max_steps):
        """Return the `Outcome` of all steps, with `x`, and the `Setting`."""
        setting, progress = self.start(data, conditions)
        progress, _ = self.advance(data, setting, progress, max_steps, max_steps, tf.constant(True))
        return progress.outcome._replace(x=self.values()), setting

    def _values_of(self, charts):
        """Return what stands for each variable that the residuals read; None for what it holds."""
        values = [None] * len(self._residuals.handles)
        for position, chart in zip(self._residuals.positions, charts):
            if chart is not None and position is not None:
                values[position] = chart.value
        return values

    def values(self):
        """Return what the variables hold, a list of tensors."""
        return [as_tf_variable(variable).read_value() for variable in self._variables]

    def _step(self, data, setting, progress, max_steps):
        method, running, window = self._settings.method, progress.running, progress.window
        if window:
            tf.cond(running, lambda: window.best, lambda: self._assign(window.best))
        charts = self._coordinates.charts()
        tensors = self._residuals.place_at(data, setting.drawn, self._values_of(charts))
        tensors = [tf.cast(tensor, self._dtype) / setting.unit for tensor in tensors]
        box, prior, equality = self._coordinates.conditions(setting.conditions)
        prior = prior and prior.in_units(setting.unit)
        uniform = self._settings.prior_is_uniform
        problem = problem_of_residuals(
            tensors, self._variables, None, self._losses, setting.unit, prior, uniform, charts
        )
        attempts = tf.where(running, method.max_attempts, 0)
        method = method._replace(max_attempts=attempts)
        leeway = window.leeway(problem.cost) if window else None
        state, report = take_step(problem, progress.state, method, box or None, equality or None, leeway)
        self.sizes = problem.sizes
        first_cost = tf.where(tf.equal(progress.outcome.steps, 0), report.cost_before, progress.first_cost)
        status = status_after(report, self._settings.limits, first_cost)
        outcome = outcome_after(progress.outcome, running, report, status, max_steps)
        moved = report.accepted
        if window:
            window = window.after(report, Columns(self._variables).flatten(self.values()))
            moved |= running & (window.lowest < report.cost)  # at its best point, it differs by rounding at most
        return Progress(outcome, state, first_cost, moved, window), report


def unit_of(residuals, dtype):
    """Return the unit to measure residuals in, a scalar: 1 where they are of ordinary size.

    Else the power of two next to the root of the largest. Their squares are then within the range of the dtype, and so
    are those of J, whether it is as large or as small as they are, or about 1.
    """
    sizes = [tf.reduce_max(tf.abs(tf.cast(residual, dtype))) for residual in residuals]
    return units_of(tf.stack(sizes))


def units_of(residuals):
    """Return the `unit_of` each row of residuals `[..., m]`."""
    half = tf.math.log(tf.reduce_max(tf.abs(residuals), axis=-1)) / (2 * np.log(2))
    extreme = (tf.abs(half) > 16) & tf.math.is_finite(half)
    return tf.where(extreme, tf.pow(tf.constant(2, residuals.dtype), tf.round(half)), tf.ones_like(half))


def outcome_after(outcome, running, report, status, max_steps):
    """Return the outcome after a step, or after a mere linearisation where it is not `running` any more."""
    steps = outcome.steps + tf.cast(running, tf.int32)
    status = tf.where(tf.equal(status, int(Status.RUNNING)) & (steps >= max_steps), int(Status.MAX_STEPS), status)
    return Outcome(
        x=(),
        cost=report.cost,
        gradient_norm=report.gradient_norm,
        status=tf.where(running, status, outcome.status),
        steps=steps,
        evaluations=outcome.evaluations + report.attempts,
        jacobians=outcome.jacobians + 1,
        damping=tf.where(running, report.damping, outcome.damping),
    )
