"""Steps of a small problem, all in one op: what the `Driver` does, without its hundreds of ops a step.

That op and that loop take the same steps to rounding. The op knows the default method for few parameters alone, in
float64, and with bounds at most; the loop knows all others. The op judges each step alone and the loop the last ones,
too (`converge.Stretch`): so tolerances of which tens of steps might gain much are for the loop.
"""

from typing import cast

import numpy as np
import tensorflow as tf

from tfjac.graph import as_tf_variable, verification_wanted
from tfjac.ops import StepProgress, StepRules, has_native_steps, least_squares_steps
from tfjac.optimizers.columns import Columns
from tfjac.optimizers.damping import TrustRegionDamping
from tfjac.optimizers.damping.scaling import MoreScaling
from tfjac.optimizers.loop.converge import LITTLE
from tfjac.optimizers.loop.options import Settings
from tfjac.optimizers.loop.problem import Problem
from tfjac.optimizers.loop.progress import Allowance, Invariants, Progress
from tfjac.optimizers.loop.records import State
from tfjac.optimizers.loop.residual_curvature import Secant
from tfjac.optimizers.solvers import AutoSolver, QRSolver
from tfjac.optimizers.solvers.problem_sizes import ProblemSizes
from tfjac.optimizers.tracing.traced_residuals import TracedResiduals
from tfjac.types import Tensor, Variable

PARAMETERS, ELEMENTS, NUMBERS = 64, 2**16, 2**20
"""Of so many parameters, numbers of J, and numbers between data and residuals at most, one thread is fast enough."""

_ELSEWHERE = {
    "If", "StatelessIf", "Case", "StatelessCase", "While", "StatelessWhile", "PyFunc", "PyFuncStateless", "EagerPyFunc",
    "Assert", "Print", "PrintV2",
}  # fmt: skip
"""Ops of residuals that may take long, or that act on the world: J is computed at each trial point, kept or not."""


def suits(residuals: TracedResiduals, variables: list[Variable], settings: Settings) -> bool:
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
    is_tight = max(settings.limits.cost, settings.limits.step) <= LITTLE
    is_small = 0 < columns <= PARAMETERS and columns <= residuals.num_rows <= ELEMENTS / columns
    return (
        is_default
        and is_plain
        and is_tight
        and is_small
        and residuals.num_numbers <= NUMBERS
        and all(as_tf_variable(variable).dtype == tf.float64 for variable in variables)
        and not any(getattr(variable, "constraint", None) for variable in variables)
        and residuals.can_stand_at_values()
        and residuals.first_op(_ELSEWHERE) is None
        and has_native_steps()
    )


class Evaluation:
    """Cost, residuals and J of a small problem as one function, traced once: steps call it, and so may their result.

    Args:
        problem: a `Problem`.
        data: list of tensors like `residuals.specs`.
        invariants: the `Invariants`.

    Attributes:
        function: `tf.ConcreteFunction` of x `[p]` and of what `given` returns: the cost, r `[m]` and J `[m, p]`, in the
            unit that is given.
        sizes: the `ProblemSizes`.
    """

    def __init__(self, problem: Problem, data: list[Tensor], invariants: Invariants) -> None:
        sizes: list[ProblemSizes] = []

        def evaluate(position: Tensor, *given: Tensor) -> tuple[Tensor, Tensor, Tensor]:
            own, drawn, unit = given[: len(data)], list(given[len(data) : -1]), given[-1]
            cost, model = problem.linearised_at(position, list(own), invariants._replace(drawn=drawn, unit=unit))
            sizes.append(ProblemSizes.of(model, one_scale=False))
            return cost, model.residual, model.jacobian.to_dense()

        specs = [tf.TensorSpec(each.shape, each.dtype) for each in self.given(data, invariants.drawn, invariants.unit)]
        traced = tf.function(evaluate, autograph=False)  # not in tf.init_scope, where tapes of a loss see nothing
        self.function = traced.get_concrete_function(tf.TensorSpec([problem.columns.total], tf.float64), *specs)
        self.sizes = sizes[-1]

    @staticmethod
    def given(data: list[Tensor], drawn: list[Tensor], unit: Tensor) -> list[Tensor]:
        """Return what the function takes after x, a list of tensors."""
        return [*data, *drawn, unit]


def take_native_steps(
    evaluation: Evaluation,
    problem: Problem,
    data: list[Tensor],
    invariants: Invariants,
    progress: Progress,
    allowance: Allowance,
    record: int,
) -> tuple[Progress, Tensor, ProblemSizes]:
    """Take steps from where the variables are, and leave them where these lead.

    Args:
        evaluation: the `Evaluation` of the problem.
        problem: a `Problem` with settings that the op knows.
        data, invariants, progress, allowance: as of `Minimisation.advance`.
        record: so many steps are written down.

    Returns:
        The `Progress`, the record of each step, `[record, 7]`, and the `ProblemSizes`.
    """
    rules, box = _rules(problem.settings), invariants.conditions.box or None
    given = _given(progress, problem.position())
    about = evaluation.given(data, invariants.drawn, invariants.unit)
    after, rows = least_squares_steps(evaluation.function, given, rules, box, *allowance, record, about)
    problem.go_to(after.position)
    return _progress_after(progress, after), rows, evaluation.sizes


def _given(progress: Progress, position: Tensor) -> StepProgress:
    """Return a `Progress` in the form that the op takes."""
    outcome, state = progress.outcome, progress.state
    numbers = [*state.damping, progress.first_cost, outcome.cost, outcome.gradient_norm, outcome.damping]
    better = state.secant.better if state.secant else tf.constant(False)
    flags = [tf.cast(flag, tf.int32) for flag in (progress.moved, better)]
    counts = [outcome.status, outcome.steps, outcome.evaluations, outcome.jacobians, *flags]
    return StepProgress(position, state.scaling, tf.stack(numbers), tf.stack(counts), _rows(state, position))


def _rows(state: State, position: Tensor) -> Tensor:
    """Return what a `State` knows of the curvature of residuals, `[p + 3, p]`, or `[0, p]`."""
    if not state.secant:
        return tf.zeros([0, position.shape[0]], position.dtype)
    matrix, *vectors, _ = state.secant
    return tf.concat([matrix, tf.stack(vectors)], axis=0)


def _secant(rows: Tensor, better: Tensor) -> Secant | tuple[()]:
    """Return a `Secant` from such rows."""
    if rows.shape[0] == 0:
        return ()
    step, gradient, product = tf.unstack(rows[-3:])
    return Secant(rows[:-3], step, gradient, product, better > 0)


def _progress_after(progress: Progress, after: StepProgress) -> Progress:
    """Return a `Progress` after what the op returned."""
    radius, damping, first_cost, cost, gradient_norm, last = tf.unstack(after.numbers)
    status, steps, evaluations, jacobians, moved, better = tf.unstack(after.counts)
    return progress._replace(
        outcome=progress.outcome._replace(
            cost=cost,
            gradient_norm=gradient_norm,
            status=status,
            steps=steps,
            evaluations=evaluations,
            jacobians=jacobians,
            damping=last,
        ),
        state=State((radius, damping), after.scaling, _secant(after.curvature, better)),
        first_cost=first_cost,
        moved=moved > 0,
    )


def _rules(settings: Settings) -> StepRules:
    damping, epsilon = cast(TrustRegionDamping, settings.method.damping), np.finfo(np.float64).eps  # as `suits` says
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
