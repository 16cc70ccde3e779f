"""A whole minimisation as one function of the data: steps in a loop of the graph, until there is a reason to stop."""

from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from tfjac.graph import as_tf_variable, verification_wanted
from tfjac.optimizers.convergence import Tolerances, status_after, tolerances
from tfjac.optimizers.damping import get_damping
from tfjac.optimizers.frozen import FrozenModel
from tfjac.optimizers.implicit import differentiable
from tfjac.optimizers.options import positive, positive_integer, recipe
from tfjac.optimizers.problem.residuals import problem_of_residuals
from tfjac.optimizers.problem.variables import nested_names
from tfjac.optimizers.records import Method, Outcome, State
from tfjac.optimizers.results import LeastSquaresResult
from tfjac.optimizers.scaling import get_scaling
from tfjac.optimizers.solvers import get_solver
from tfjac.optimizers.statuses import Status
from tfjac.optimizers.step import take_step


class Settings(NamedTuple):
    """What a minimisation is told besides its residuals and variables.

    Attributes:
        method: a `Method`.
        limits: `Tolerances`.
        max_steps: integer.
        jit_compile: bool.
        recipe: all of this in a form that can be compared; None where it cannot.
    """

    method: Method
    limits: Tolerances
    max_steps: int
    jit_compile: bool
    recipe: Any

    @classmethod
    def of(
        cls,
        variables,
        max_steps=1000,
        ftol=None,
        xtol=None,
        gtol=None,
        damping="nielsen",
        scaling="more",
        solver="auto",
        max_attempts=30,
        min_gain=1e-3,
        jit_compile=False,
    ):
        """Check the options of `least_squares`.

        Raises:
            ValueError, TypeError: for bad ones.
        """
        limits = tolerances(ftol, xtol, gtol, as_tf_variable(variables[0]).dtype)
        numbers = positive_integer("max_attempts", max_attempts), positive("min_gain", min_gain, below=1)
        method = Method(get_damping(damping), get_scaling(scaling), get_solver(solver), *numbers)
        rest = (limits, positive_integer("max_steps", max_steps), bool(jit_compile))
        return cls(method, *rest, recipe=recipe(method[:3], numbers, rest, verification_wanted(None)))


class Minimiser:
    """A minimisation, traced, of residuals with data left open.

    Args:
        residuals: `TracedResiduals`.
        variables: list of variables. They are not kept alive.
        settings: `Settings`.
    """

    def __init__(self, residuals, variables, settings):
        if settings.jit_compile:
            residuals.check_compiles()
        function = tf.function(
            minimisation(residuals, variables, settings), jit_compile=settings.jit_compile, autograph=False
        )
        self.residuals, self._frozen = residuals, FrozenModel(residuals)
        self._run = function.get_concrete_function(*residuals.specs)

    def __call__(self, data, variables):
        """Minimise, and leave the variables at the best point found, or as they were if the residuals raise.

        Args:
            data: list of tensors like `residuals.specs`.
            variables: nest of the variables.

        Returns:
            A `LeastSquaresResult`; where a graph is traced, an `Outcome`.
        """
        flat = [as_tf_variable(variable) for variable in tf.nest.flatten(variables)]
        if not tf.executing_eagerly():
            outcome, drawn, unit, _ = self._run(*data)
            return _packed(differentiable(outcome, self.residuals, flat, data, drawn, unit), variables)
        start = [variable.read_value() for variable in flat]
        try:
            outcome, drawn, unit, size = self._run(*data)
        except BaseException:
            for variable, value in zip(flat, start):
                variable.assign(value)
            raise
        read, names = self.residuals.read(), nested_names(variables)
        linearised = lambda: self._frozen(data, drawn, read)  # noqa: E731
        return LeastSquaresResult.of(_packed(outcome, variables), unit, int(size), names, linearised)


def _packed(outcome, variables):
    """Return the `Outcome` with `x` in the nest of `variables`."""
    return outcome._replace(x=tf.nest.pack_sequence_as(variables, outcome.x))


def minimisation(residuals, variables, settings):
    """Return the function to be traced, from data to an `Outcome`, what residuals drew, their unit and their number.

    Residuals are measured in a unit that keeps their squares within the range of the dtype; so is what the `Outcome`
    says of the cost and the gradient.

    Args:
        residuals: `TracedResiduals`.
        variables: list of variables, which the function moves to the best point found.
        settings: `Settings`.

    Returns:
        A function of tensors like `residuals.specs`; `x` of its `Outcome` is a list.
    """
    method, limits, max_steps = settings[:3]
    dtype = as_tf_variable(variables[0]).dtype
    size = sum(as_tf_variable(variable).shape.num_elements() for variable in variables)

    def minimise(*data):
        drawn = residuals.draw(data)
        at_start = residuals.place(data, drawn)
        unit, number = unit_of(at_start, dtype), tf.add_n([tf.size(tensor, tf.int64) for tensor in at_start])

        def unfinished(outcome, state, first_cost, moved):
            return _running(outcome) | moved  # once more after the last step, for the cost and the gradient there

        def advance(outcome, state, first_cost, moved):
            running = _running(outcome)
            problem = problem_of_residuals([tf.cast(r, dtype) / unit for r in residuals.place(data, drawn)], variables)
            attempts = tf.where(running, method.max_attempts, 0)
            state, report = take_step(problem, state, method._replace(max_attempts=attempts))
            first_cost = tf.where(tf.equal(outcome.steps, 0), report.cost_before, first_cost)
            status = status_after(report, limits, first_cost)
            return _after(outcome, running, report, status, max_steps), state, first_cost, report.accepted

        zero, none = tf.zeros([], dtype), tf.constant(0)
        state = State(tuple(zero for _ in method.damping.state_names), tf.zeros([size], dtype))
        start = Outcome((), zero, zero, tf.constant(int(Status.RUNNING)), none, none, none, zero)
        outcome, *_ = tf.while_loop(unfinished, advance, (start, state, zero, tf.constant(False)))
        values = [as_tf_variable(variable).read_value() for variable in variables]
        return outcome._replace(x=values), drawn, unit, number

    return minimise


def unit_of(residuals, dtype):
    """Return the unit to measure residuals in, a scalar: 1 where they are of ordinary size.

    Else the power of two next to the root of the largest. Their squares are then within the range of the dtype, and so
    are those of J, whether it is as large or as small as they are, or about 1.
    """
    sizes = [tf.reduce_max(tf.abs(tf.cast(residual, dtype))) for residual in residuals]
    half = tf.math.log(tf.reduce_max(sizes)) / (2 * np.log(2))
    extreme = (tf.abs(half) > 16) & tf.math.is_finite(half)
    return tf.where(extreme, tf.pow(tf.constant(2, dtype), tf.round(half)), tf.ones([], dtype))


def _running(outcome):
    return tf.equal(outcome.status, int(Status.RUNNING))


def _after(outcome, running, report, status, max_steps):
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
