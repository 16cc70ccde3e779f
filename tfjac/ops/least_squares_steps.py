"""Steps of the Levenberg-Marquardt method for a small problem, in one op rather than hundreds."""

from collections.abc import Sequence
from typing import NamedTuple

import tensorflow as tf

from tfjac.ops import _library
from tfjac.types import Function, Tensor


class StepRules(NamedTuple):
    """What `least_squares_steps` goes by, numbers in the order in which the op takes them.

    Attributes:
        cost_tolerance, step_tolerance, gradient_tolerance: when to stop; zero switches one off.
        min_gain: a step is kept if its gain ratio exceeds this.
        factor: the first radius, as a multiple of ‖D^½ x‖.
        lowest, highest: bounds of λ as multiples of max diag(D⁻¹ JᵀJ).
        max_attempts: of a step.
    """

    cost_tolerance: float
    step_tolerance: float
    gradient_tolerance: float
    min_gain: float
    factor: float
    lowest: float
    highest: float
    max_attempts: int


class StepProgress(NamedTuple):
    """Where steps stand; every field goes in and comes out, so that many short runs do as one long run does.

    Attributes:
        position: x, `[p]`.
        scaling: D, `[p]`; zeros before the first step.
        numbers: `[6]`: radius, λ of the next attempt, first cost, cost, gradient norm, λ of the last step.
        counts: `[6]`, int32: `Status`, steps, evaluations, linearisations, whether x has moved since the gradient, and
            whether the model with the curvature of the residuals is the better one.
        curvature: `[p + 3, p]`: the estimate of that curvature, the last step, g where it started, and JᵀJ times it;
            `[0, p]` where it is not estimated.
    """

    position: Tensor
    scaling: Tensor
    numbers: Tensor
    counts: Tensor
    curvature: Tensor


def has_native_steps() -> bool:
    """Return whether there is a native op here; without it the loop of TensorFlow's ops, its twin, does the same."""
    return _library.native_op("least_squares_steps") is not None


def least_squares_steps(
    evaluate: Function,
    progress: StepProgress,
    rules: StepRules,
    bounds: tuple[Tensor, Tensor] | None,
    until: Tensor,
    max_steps: Tensor,
    finish: Tensor,
    record: int,
    given: Sequence[Tensor] = (),
) -> tuple[StepProgress, Tensor]:
    """Take steps until there is a reason to stop, by damping "trust_region", scaling "more" and solver "qr".

    For graphs alone: in no eager call, and not under XLA. The twin is the loop of `tfjac.optimizers.loop`, which takes
    its place where `has_native_steps` says no; it has the formulas, and says why they are as they are.

    Args:
        evaluate: function from x, `[p]` float64, to the cost `[]`, residuals `[m]` and their Jacobian `[m, p]`, m ≥ p.
            It may use tensors of the graph around it. Or a `tf.ConcreteFunction`, from x and then `given`.
        progress: a `StepProgress`, float64 but for the counts.
        rules: `StepRules`.
        bounds: lower and upper bounds, `[p]` each, or None. Equal ones fix a parameter.
        until, max_steps: scalar int32: after how many steps to return, and to stop for good.
        finish: scalar bool, whether to evaluate once more where steps ended, for the gradient there.
        record: of how many steps to write down what happened, an integer.
        given: tensors that a `tf.ConcreteFunction` takes after x.

    Returns:
        The progress, and `[record, 7]`: for each step cost, reduction, gain ratio, λ, gradient norm, attempts, and
        whether it was kept.

    Raises:
        tf.errors.OpError: when the op runs, what `evaluate` raises, or if its results have other shapes.

    Cost: an evaluation and 4p³ flops for each attempt, 2mp² for each step, by one thread.
    """
    concrete = evaluate
    if not isinstance(evaluate, tf.types.experimental.ConcreteFunction):
        traced = tf.function(evaluate, autograph=False)
        concrete = traced.get_concrete_function(tf.TensorSpec(progress.position.shape, tf.float64))
    lower, upper = bounds or (tf.zeros([0], tf.float64),) * 2
    *after, rows = _library.native_op("least_squares_steps")(
        **progress._asdict(),
        rules=tf.constant(rules, tf.float64),
        lower=lower,
        upper=upper,
        until=until,
        max_steps=max_steps,
        finish=finish,
        captured=[*given, *concrete.captured_inputs],
        evaluate=concrete,
        record=record,
    )
    return StepProgress._make(after), rows
