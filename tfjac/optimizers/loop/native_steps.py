"""Steps of a small problem, all in one op: what the loop of `Iteration` does, without its hundreds of ops a step.

That op and that loop take the same steps to rounding. The op knows the default method for few parameters alone, in
float64, and with bounds at most; the loop knows all others.
"""

import numpy as np
import tensorflow as tf

from tfjac.graph import as_tf_variable, verification_wanted
from tfjac.ops import StepProgress, StepRules, has_native_steps, least_squares_steps
from tfjac.optimizers.columns import Columns
from tfjac.optimizers.conditions.coordinates import Standing
from tfjac.optimizers.damping import TrustRegionDamping
from tfjac.optimizers.damping.scaling import MoreScaling
from tfjac.optimizers.objective.residuals import objective_of_residuals
from tfjac.optimizers.solvers import AutoSolver, QRSolver

PARAMETERS, ELEMENTS, NUMBERS = 64, 2**16, 2**20
"""Of so many parameters, numbers of J, and numbers between data and residuals at most, one thread is fast enough."""

_ELSEWHERE = {
    "If", "StatelessIf", "Case", "StatelessCase", "While", "StatelessWhile", "PyFunc", "PyFuncStateless", "EagerPyFunc",
    "Assert", "Print", "PrintV2",
}  # fmt: skip
"""Ops of residuals that may take long, or that act on the world: J is computed at each trial point, kept or not."""


def suits(residuals, variables, settings):
    """Return whether the op takes the steps that `settings` ask for.

    Args:
        residuals: `TracedResiduals`.
        variables: list of the variables.
        settings: `Settings`.
    """
    method, conditions, columns = settings.method, settings.conditions, Columns(variables).total
    is_default = (
        type(method.damping) is TrustRegionDamping
        and type(method.scaling) is MoreScaling
        and type(method.solver) in (AutoSolver, QRSolver)
        and method.gram_dtype is None
        and method.acceleration is None
        and not method.evidence
        and settings.window == 1
        and not settings.jit_compile
    )
    is_plain = not (conditions.prior or conditions.equality or any(settings.manifolds) or verification_wanted(None))
    is_small = 0 < columns <= PARAMETERS and columns <= residuals.num_rows <= ELEMENTS / columns
    return (
        is_default
        and is_plain
        and is_small
        and residuals.num_numbers <= NUMBERS
        and all(as_tf_variable(variable).dtype == tf.float64 for variable in variables)
        and not any(getattr(variable, "constraint", None) for variable in variables)
        and residuals.can_stand_at_values()
        and residuals.first_op(_ELSEWHERE) is None
        and has_native_steps()
    )


def take_native_steps(evaluate, position, progress, settings, box, until, max_steps, finish, record):
    """Take steps from `position` `[p]`; return where they lead, the `Progress`, and the record of each, `[record, 7]`.

    Args:
        evaluate: function from a position to the cost, the residuals `[m]` and J `[m, p]`.
        position: `[p]`.
        progress: a `Progress`.
        settings: `Settings`, such as the op knows.
        box: a `Box`, or None.
        until, max_steps, finish: as of `Iteration.advance`.
        record: integer.
    """
    outcome, state = progress.outcome, progress.state
    numbers = [*state.damping, progress.first_cost, outcome.cost, outcome.gradient_norm, outcome.damping]
    counts = [outcome.status, outcome.steps, outcome.evaluations, outcome.jacobians, tf.cast(progress.moved, tf.int32)]
    given = StepProgress(position, state.scaling, tf.stack(numbers), tf.stack(counts))
    rules = _rules(settings)
    after, rows = least_squares_steps(evaluate, given, rules, box, until, max_steps, finish, record)
    radius, damping, first_cost, cost, gradient_norm, last = tf.unstack(after.numbers)
    status, steps, evaluations, jacobians, moved = tf.unstack(after.counts)
    progress = progress._replace(
        outcome=outcome._replace(
            cost=cost,
            gradient_norm=gradient_norm,
            status=status,
            steps=steps,
            evaluations=evaluations,
            jacobians=jacobians,
            damping=last,
        ),
        state=state._replace(damping=(radius, damping), scaling=after.scaling),
        first_cost=first_cost,
        moved=moved > 0,
    )
    return after.position, progress, rows


def _rules(settings):
    damping, epsilon = settings.method.damping, np.finfo(np.float64).eps
    return StepRules(
        cost_tolerance=settings.limits.cost,
        step_tolerance=settings.limits.step,
        gradient_tolerance=settings.limits.gradient,
        min_gain=settings.method.min_gain,
        factor=damping.factor,
        lowest=epsilon**2 if damping.minimum is None else damping.minimum,
        highest=1 / epsilon if damping.maximum is None else damping.maximum,
        max_attempts=settings.method.max_attempts,
    )


def linearised_at(position, residuals_at, variables, losses, unit):
    """Return the cost at `position` `[p]`, and the `LinearModel` there.

    Args:
        position: tensor.
        residuals_at: function from what stands for the variables, a list, to the list of residuals.
        variables: list of the variables.
        losses: as of `objective_of_residuals`.
        unit: what residuals are measured in.
    """
    standing = [Standing(value) for value in Columns(variables).split(position)]
    objective = objective_of_residuals(residuals_at(standing), variables, losses=losses, unit=unit, charts=standing)
    return objective.cost, objective.linearise()
