"""One attempt: a step is proposed, what it gains is predicted, and it is judged when its cost is known.

`propose` comes before the cost is known, `judged` after. How the cost is found in between is for others: one problem
is evaluated at once, each of n fits next to the others, and a stream of batches a pass over the data later.

All of it is elementwise in what is a scalar for one problem: for n fits at once these are `[n]`, and vectors `[n, p]`.
"""

from typing import NamedTuple

import tensorflow as tf

from tfjac.linear import arrays
from tfjac.linear.prior import Prior
from tfjac.steps.beside import ROUNDINGS
from tfjac.steps.conditions import Box
from tfjac.steps.damping import Proposal, Verdict
from tfjac.steps.damping.scaling import scaled_norm
from tfjac.steps.method import Method
from tfjac.steps.records import Attempt, Leeway, Point, Report, State
from tfjac.steps.statuses import Status
from tfjac.types import Function, Tensor


class Candidate(NamedTuple):
    """A step that is to be tried.

    Attributes:
        proposal: the `Proposal` that the damping made.
        step: `[p]`, the step as it is taken: that of the proposal, or what bounds leave of it.
        predicted: scalar, by how much the model says that the step of the proposal lowers the cost; see `Report`.
        expected: scalar, the same for the step as it is taken, which ρ compares with.
    """

    proposal: Proposal
    step: tf.Tensor
    predicted: tf.Tensor
    expected: tf.Tensor


# ------------------------------------------------------------------ where attempts start


def point_at(
    position: Tensor,
    cost: Tensor,
    gradient: Tensor,
    diagonal: Tensor,
    state: State,
    method: Method,
    *,
    prior: Prior | None = None,
    has_residuals: bool = True,
) -> Point:
    """Return the `Point` that the attempts of a step start from.

    Args:
        position: `[p]`, w.
        cost: scalar, F there.
        gradient, diagonal: `[p]`, g and diag(JᵀJ) there.
        state: a `State`; method: a `Method`.
        prior: the `Prior` there; None for none.
        has_residuals: whether there is anything but a prior, a Python bool.
    """
    columns = diagonal if prior is None else diagonal + prior.precision
    data = columns if prior is not None and prior.is_data else diagonal
    scaling = method.scaling.update(state.scaling, data)
    metric = method.damping.metric(state.damping, scaling)
    curvature = arrays.reduce_max(data / metric, axis=-1)
    # A regulariser alone, of a batch without weight, would take all weights to its own minimum, in one step.
    counts = has_residuals or (prior is not None and prior.is_data)
    products = arrays.sqrt(columns) * arrays.sqrt(2 * arrays.absolute(cost))[..., None]
    length = scaled_norm(position, columns)
    return Point(
        scaling=scaling,
        metric=metric,
        curvature=curvature,
        radius=scaled_norm(position, metric),
        columns=columns,
        gradient_norm=largest(gradient),
        cosine=largest(arrays.divide_no_nan(gradient, products)),
        length=length,
        magnitude=length,
        finite=_all_finite(cost, curvature, gradient, position),
        stationary=_all_zero(gradient) | (_all_zero(data) if counts else arrays.zeros_like(cost, tf.bool)),
        highest=method.damping.bounds(curvature)[1],
    )


def _all_finite(cost: Tensor, curvature: Tensor, *vectors: Tensor) -> Tensor:
    known = [arrays.reduce_all(arrays.is_finite(vector), axis=-1) for vector in vectors]
    return arrays.all_of([arrays.is_finite(cost), arrays.is_finite(curvature), *known])


def _all_zero(vector: Tensor) -> Tensor:
    return arrays.reduce_all(arrays.equal(vector, 0), axis=-1)


# ------------------------------------------------------------------ before the cost is known


def propose(
    solve: Function, gradient: Tensor, reduction: Function, damping_state: tuple, point: Point, method: Method
) -> Candidate:
    """Return the `Candidate` that the damping proposes, without bounds.

    Args:
        solve: function from λ to p and whether it could be solved, see `System.solver`.
        gradient: `[p]`, g where the step starts.
        reduction: function from a step to the reduction of the cost that the quadratic model predicts.
        damping_state: tuple, the damping's own.
        point: the `Point` where the step starts.
        method: a `Method`.
    """

    def proposal(damping: Tensor) -> Proposal:
        step, solved = solve(damping)
        length = scaled_norm(step, point.metric)
        slope = arrays.reduce_sum(gradient * step, axis=-1)
        return Proposal(step, solved & arrays.is_finite(length), damping, length, slope)

    chosen = method.damping.propose(damping_state, proposal, point.curvature)
    predicted = reduction(chosen.step)
    return Candidate(chosen, chosen.step, predicted, predicted)


def within(box: Box, position: Tensor, candidate: Candidate, reduction: Function) -> tuple[Tensor, Candidate]:
    """Return the place within bounds that a `Candidate` leads to, and the candidate with the step that does.

    Args:
        box: a `Box`.
        position: where the step starts.
        candidate, reduction: as of `propose`.
    """
    full, short = box.project(position + candidate.step), box.truncate(position, candidate.step)
    gains = reduction(full - position), reduction(short - position)
    end = arrays.where((gains[0] >= gains[1])[..., None], full, short)
    return end, candidate._replace(step=end - position, expected=arrays.maximum(*gains))


# ------------------------------------------------------------------ once it is known


def proposed(last: Attempt, candidate: Candidate, point: Point) -> Attempt:
    """Return the `Attempt` after `last`, of a `Candidate` that is not tried yet; see `judged`."""
    proposal = candidate.proposal
    return last._replace(
        predicted=candidate.predicted,
        promised=arrays.where(arrays.equal(last.attempts, 0), candidate.predicted, last.promised),
        held=proposal.damping * arrays.square(proposal.length),
        step_length=scaled_norm(proposal.step, point.columns),
        damping=proposal.damping,
    )


def judged(
    seen: Attempt,
    candidate: Candidate,
    gradient: Tensor,
    point: Point,
    costs: tuple[Tensor, Tensor, Tensor],
    method: Method,
    leeway: Leeway | None = None,
    may_return: bool = False,
) -> Attempt:
    """Return an `Attempt` by what became of its candidate.

    Args:
        seen: the `Attempt` as it was `proposed`.
        candidate: a `Candidate`.
        gradient: `[p]`, g where it starts.
        point: the `Point` where it starts.
        costs: F there, F where the candidate leads to, and by how much that is less.
        method: a `Method`.
        leeway: a `Leeway`, or None where the cost must not rise.
        may_return: whether the step may be taken back later; so what `refused` is then.
    """
    (before, after, reduction), proposal = costs, candidate.proposal
    slope = arrays.reduce_sum(gradient * candidate.step, axis=-1)
    alone = _verdict(before, reduction, candidate.expected, slope, proposal.solved, method.min_gain)
    verdict = alone if leeway is None else _lenient(alone, candidate.expected, leeway, method.min_gain)
    state = refused = method.damping.update(seen.state, proposal, verdict, point.curvature)
    if may_return:
        refused = method.damping.update(seen.state, proposal, _refusal(verdict), point.curvature)
    return seen._replace(
        attempts=seen.attempts + 1,
        accepted=verdict.accepted,
        cost=arrays.where(verdict.accepted, after, before),
        reduction=verdict.reduction,
        ratio=alone.ratio,
        remeasured=~verdict.accepted & method.damping.remeasures(seen.state, state),
        state=state,
        refused=refused,
    )


def _verdict(
    cost: Tensor, reduction: Tensor, expected: Tensor, slope: Tensor, solved: Tensor, min_gain: float
) -> Verdict:
    """Compare the actual with the expected reduction; anything not finite is as bad as can be."""
    infinity = arrays.constant(float("inf"), reduction)
    reduction = arrays.where(arrays.is_finite(reduction), reduction, -infinity)
    sound = solved & (expected > 0) & arrays.is_finite(expected) & (reduction > -infinity)
    ratio = arrays.where(sound, reduction / expected, -infinity)
    return Verdict(accepted=ratio > min_gain, ratio=ratio, slope=slope, reduction=reduction, cost=cost)


def _refusal(verdict: Verdict) -> Verdict:
    """Return the verdict on a step to where nothing is finite."""
    worst = arrays.full_like(verdict.ratio, float("-inf"))
    return verdict._replace(accepted=arrays.zeros_like(verdict.accepted), ratio=worst, reduction=worst)


def _lenient(verdict: Verdict, expected: Tensor, leeway: Leeway, min_gain: float) -> Verdict:
    """Return the verdict by the reduction since an earlier point, where that is the more favourable."""
    since = (verdict.reduction + leeway.rise) / (expected + leeway.promised)
    ratio = arrays.where(arrays.is_finite(verdict.ratio), arrays.maximum(verdict.ratio, since), verdict.ratio)
    return verdict._replace(accepted=ratio > min_gain, ratio=ratio)


# ------------------------------------------------------------------ the end of a step


def is_decided(attempt: Attempt, point: Point, method: Method) -> Tensor:
    """Return whether a step is over, where there may have been no `Attempt` yet: nowhere to go, or as below."""
    return ~point.usable | ((attempt.attempts > 0) & is_over(attempt, point, method))


def is_over(attempt: Attempt, point: Point, method: Method) -> Tensor:
    """Return whether a step is over after an `Attempt`: accepted, hopeless, or tried often enough.

    From a point that meets a tolerance, one that changes the cost by rounding is enough.
    """
    rounding = ROUNDINGS * arrays.finfo(attempt.cost).eps * arrays.absolute(attempt.cost)
    drowned = arrays.not_equal(attempt.standing, int(Status.RUNNING)) & (arrays.absolute(attempt.reduction) <= rounding)
    ended = attempt.accepted | attempt.remeasured | drowned | (attempt.attempts >= method.max_attempts)
    return ended | (attempt.damping >= point.highest)


def report_of(
    last: Attempt,
    point: Point,
    cost: Tensor,
    solver: int = 0,
    effective: Tensor | None = None,
) -> Report:
    """Return the `Report` of a step.

    Args:
        last: its last `Attempt`.
        point: the `Point` where it started.
        cost: F there.
        solver: which solver it was.
        effective: the effective number of parameters; zero where left out.
    """
    return Report(
        **last.reported(),
        gradient_norm=point.gradient_norm,
        cosine=point.cosine,
        length=point.length,
        magnitude=point.magnitude,
        status=_status(last, point),
        solver=arrays.full_like(last.attempts, solver),
        effective=arrays.zeros_like(cost) if effective is None else effective,
    )


def _status(last: Attempt, point: Point) -> Tensor:
    rejected = arrays.where(last.damping >= point.highest, int(Status.STALLED), int(Status.REJECTED))
    rejected = arrays.where(last.remeasured, int(Status.REMEASURED), rejected)
    status = arrays.where(last.accepted, int(Status.RUNNING), rejected)
    status = arrays.where(point.stationary, int(Status.GRADIENT_TOLERANCE), status)
    return arrays.where(point.finite, status, int(Status.NOT_FINITE))


def largest(vector: Tensor) -> Tensor:
    """Return the largest element of a vector `[p]` by size."""
    return arrays.reduce_max(arrays.absolute(vector), axis=-1)
