"""Minima that J does not see: where no step lowered the cost, and columns of J have vanished.

At a minimum of ½(x² + 5)² the residual is five and J is zero, or on the way to it. The cosine of the angle between r
and a column says nothing of columns that short; with one residual it is always one. So another measure is taken there:
the cost itself, on both sides of the point, along each principal direction of its curvature. Along the axes that would
not do: in a narrow valley between them the cost rises along each axis, far from the end of the valley. It takes some
evaluations, and is asked for only if no step lowered the cost.

Where J is zero to begin with, as of x² − 1 at zero, or of a·b at zeros, the gradient is zero as well, and all tests of
convergence are met at a maximum or a saddle point. There the cost is looked at along each of these parameters, if there
are not too many, and along a few random directions: next to a saddle of two parameters every second one leads down.
That takes no JᵀJ, and so problems of any size are looked at.

All of it is of n problems at once, each by itself; of one problem n is one.
"""

from typing import NamedTuple

import numpy as np
import tensorflow as tf

from tfjac.graph import while_loop
from tfjac.ops import damped_solve
from tfjac.optimizers.conditions.bounds import Box
from tfjac.optimizers.contracts import Objective
from tfjac.optimizers.loop.converge import Tolerances
from tfjac.optimizers.loop.records import Outcome
from tfjac.optimizers.statuses import Status
from tfjac.types import Function, Tensor

_MOST = 64
"""Parameters that are looked at."""

_LARGEST = 2**24
"""Numbers of a J, or of a JᵀJ, of a problem whose vanished columns are looked for."""

_ROUNDINGS = 64
"""Rounding errors of the cost that a rise, or a fall, must exceed."""

_DRAWS = 8
"""Random directions along which the cost is looked at: one saddle of two parameters in 256 is not seen."""


class Place(NamedTuple):
    """Where n problems ended.

    Attributes:
        cost: `[n]`, F.
        gram: `[n, p, p]`, JᵀJ + Λ; for `falls_beside` anything.
        gradient: `[n, p]`, ∇F.
        reach: `[n, p]`, how large each parameter has been: what it is, or by how much it has moved, if that is more.
        free: `[n, p]`, bool: which parameters may move.
    """

    cost: tf.Tensor
    gram: tf.Tensor
    gradient: tf.Tensor
    reach: tf.Tensor
    free: tf.Tensor


def sees_vanished(rows: float, parameters: int) -> bool:
    """Return whether columns that have vanished are seen; `rows`, how many residuals there are, may be infinite."""
    return parameters * max(rows, parameters) <= _LARGEST


def is_doubtful(outcome: Outcome, start: Tensor, end: Tensor, box: Box | tuple[()]) -> Tensor:
    """Return whether a place where the gradient is zero may be no minimum, `[n]`, or a scalar, bool.

    It may be none if there are parameters that have never moved, as J may not see them, and others have, or those are
    zero, or the gradient is zero to the last bit. A start at a minimum is none of these, and is not looked at.

    Args:
        outcome: an `Outcome` of n problems, or of one.
        start, end: `[n, p]`, or `[p]`: what the variables held before the first step, and hold now.
        box: a `Box` that they stay in, or an empty tuple.
    """
    stays = tf.equal(start, end)
    moved = tf.reduce_any(~stays, axis=-1)
    if box:
        stays &= box.lower < box.upper
    unseen = moved | tf.reduce_any(stays & tf.equal(end, 0), axis=-1) | tf.equal(outcome.gradient_norm, 0)
    ended = tf.equal(outcome.status, int(Status.GRADIENT_TOLERANCE)) & (outcome.cost > 0)
    return ended & tf.reduce_any(stays, axis=-1) & unseen


def vanished_of_one(
    objective: Objective, box: Box | None, start: list[Tensor], limits: Tolerances, rows: float
) -> tuple[Tensor, Tensor]:
    """Return what `vanished_at_minimum` says of one problem, `[p]`, and `falls_beside`, a scalar, where variables are.

    They come back there. Of a problem that is too large no column is said to have vanished.

    Args:
        objective: an `Objective`.
        box: a `Box` that the variables stay in, or None.
        start: list of tensors, what they held before the first step.
        limits: `Tolerances`.
        rows: how many residuals there are, infinity where that is open.
    """
    values, model = objective.values(), objective.linearise()
    position = objective.position(values)
    is_small = sees_vanished(rows, position.shape[0])
    gram, gradient = model.gram_and_gradient() if is_small else (tf.zeros([]), model.gradient())
    moved = tf.abs(position - objective.position(start))
    reach = tf.maximum(tf.abs(objective.magnitude(values)), moved)
    everywhere = tf.ones_like(position, tf.bool)
    free, may_move = (everywhere,) * 2 if box is None else (box.free(position, gradient), box.lower < box.upper)

    def cost_at(change: Tensor) -> Tensor:
        if box is None:
            objective.move(values, change[0])
        else:
            objective.move_to(values, box.project(position + change[0]))
        cost = objective.evaluate()
        objective.restore_unless(tf.constant(False), values)
        return cost[None]

    known = objective.cost, gram, gradient, reach, free
    place = Place._make(tf.convert_to_tensor(each)[None] for each in known)
    falls = falls_beside(place._replace(free=(may_move & tf.equal(moved, 0))[None]), cost_at)[0]
    if not is_small:
        return tf.zeros_like(free), falls
    held = place._replace(gram=place.gram + tf.linalg.diag(model.prior.precision))
    return vanished_at_minimum(held, cost_at, limits)[0], falls


def falls_beside(place: Place, cost_at: Function) -> Tensor:
    """Return whether F falls nearby, `[n]`, if those of the free parameters move that have no gradient.

    Args:
        place: a `Place`; its free parameters are those that may move, and never have.
        cost_at: as of `vanished_at_minimum`.
    """
    dtype, count = place.cost.dtype, place.reach.shape[1]
    epsilon = np.finfo(dtype.as_numpy_dtype).eps
    moves = place.free & tf.equal(place.gradient, 0)
    usual = tf.reduce_max(place.reach, axis=1, keepdims=True)
    unit = tf.where(place.reach > 0, place.reach, tf.where(usual > 0, usual, 1))
    sizes = tf.constant([side * epsilon**power for power in (0.25, 0.125) for side in (1, -1)], dtype)
    limit = place.cost - _ROUNDINGS * epsilon * tf.abs(place.cost)
    alone = count if count <= _MOST else 0

    def direction(index: Tensor) -> Tensor:
        drawn = tf.sign(tf.random.stateless_uniform([count], [0, index], -1, 1, dtype))
        return tf.where(index < alone, tf.one_hot(index, count, dtype=dtype), drawn)

    def one_more(index: Tensor, falls: Tensor) -> tuple[Tensor, Tensor]:
        change = sizes[index % 4] * direction(index // 4)
        return index + 1, falls | (cost_at(tf.where(moves, unit * change, 0)) < limit)

    last = tf.where(tf.reduce_any(moves), 4 * (alone + _DRAWS), 0)
    start = tf.constant(0), tf.zeros_like(place.cost, tf.bool)
    return while_loop(lambda index, falls: (index < last) & ~tf.reduce_all(falls), one_more, start)[1]


def vanished_at_minimum(place: Place, cost_at: Function, limits: Tolerances) -> Tensor:
    """Return which columns of J have vanished at a minimum, `[n, p]`, bool; none if it is no minimum.

    A column has vanished if r would change by no more than √gtol of it if the parameter moved by all that it has been.
    The other parameters are at a minimum as far as J can say: they could gain no more than ftol of the cost, each by
    itself or all together.

    Args:
        place: a `Place`, where no step lowered the cost.
        cost_at: function from a change of the parameters, `[n, p]`, to F there, `[n]`.
        limits: `Tolerances`.
    """
    norms, norm = tf.sqrt(tf.linalg.diag_part(place.gram)), tf.sqrt(2 * tf.abs(place.cost))[:, None]
    small = place.free & (norms * place.reach <= np.sqrt(limits.gradient) * norm)
    sides, others = small & (norms > 0), place.free & ~small
    finite = tf.math.is_finite(place.cost) & tf.reduce_all(tf.math.is_finite(norms), axis=1) & (norm[:, 0] > 0)
    few = tf.math.count_nonzero(small, axis=1) <= _MOST
    asked = finite & few & tf.reduce_any(sides, axis=1) & _rest(place, others, norms, norm, limits)
    looked = sides & asked[:, None]
    nothing = tf.zeros_like(asked)
    lowest = tf.cond(tf.reduce_any(asked), lambda: asked & _is_lowest(place, cost_at, looked), lambda: nothing)
    return small & lowest[:, None]


def _rest(place: Place, others: Tensor, norms: Tensor, norm: Tensor, limits: Tolerances) -> Tensor:
    """Return whether J says that the `others` could lower the cost by no more than ftol of it, `[n]`."""
    cosines = tf.math.divide_no_nan(tf.abs(place.gradient), norms * norm)
    alone = tf.reduce_all(~others | (tf.square(cosines) <= 2 * limits.cost), axis=1)
    mask = tf.cast(others, norms.dtype)
    gram = place.gram * mask[:, :, None] * mask[:, None, :]
    gradient, scale = place.gradient * mask, tf.where(others & (norms > 0), tf.square(norms), tf.ones_like(norms))
    least = tf.fill(tf.shape(place.cost), tf.constant(16 * np.finfo(norms.dtype.as_numpy_dtype).eps, norms.dtype))
    step, solved = damped_solve(gram, -gradient, scale, least)
    gain = -tf.reduce_sum(gradient * step, axis=1) / 2
    return alone & solved & (gain <= limits.cost * tf.abs(place.cost))


class _Sides:
    """The cost on both sides of each of n places.

    Args:
        place: a `Place`.
        cost_at: as of `vanished_at_minimum`.
        looked: `[n, p]`, bool: the parameters that move, 64 at most in each problem.

    Attributes:
        count: k, how many columns there is room for, an integer.
        looked: `[n, k]`, those of `looked`.
    """

    def __init__(self, place: Place, cost_at: Function, looked: Tensor) -> None:
        self._place, self._cost_at, self.count = place, cost_at, min(looked.shape[1], _MOST)
        wanted = tf.cast(tf.reduce_any(looked, axis=0), tf.int32)
        _, columns = tf.math.top_k(wanted, self.count)
        self._columns = tf.one_hot(columns, looked.shape[1], dtype=place.cost.dtype)
        self.looked = tf.gather(looked, columns, axis=1)

    def rises(self, direction: Tensor) -> Tensor:
        """Return by how much F is more to both sides, `[2, n]`, along a direction `[n, k]` in units of the reach."""
        change = self._place.reach * tf.matmul(tf.where(self.looked, direction, 0), self._columns)

        def one_side(side: Tensor, found: Tensor) -> tuple[Tensor, Tensor]:
            there = self._cost_at(change * (1 - 2 * tf.cast(side, change.dtype))) - self._place.cost
            return side + 1, tf.tensor_scatter_nd_update(found, [[side]], there[None])

        found = tf.zeros([2, tf.shape(change)[0]], change.dtype)
        _, found = while_loop(lambda side, _: side < 2, one_side, (tf.constant(0), found))
        return found

    def rises_if(self, needed: Tensor, direction: Tensor) -> Tensor:
        """Return the same where it is `needed`, a scalar bool, else zeros."""
        nothing = tf.zeros([2, tf.shape(direction)[0]], direction.dtype)
        return tf.cond(needed, lambda: self.rises(direction), lambda: nothing)


def _is_lowest(place: Place, cost_at: Function, looked: Tensor) -> Tensor:
    """Return whether the cost rises to both sides along all directions, `[n]`, at the nearest places where it differs.

    Args:
        place, cost_at, looked: as of `_Sides`.
    """
    sides, dtype = _Sides(place, cost_at, looked), place.cost.dtype
    vectors, epsilon = _principal(sides, dtype), np.finfo(dtype.as_numpy_dtype).eps
    counts = tf.reduce_sum(tf.square(tf.where(sides.looked[:, :, None], vectors, 0)), axis=1) > 0.5
    parts = tf.constant([epsilon**0.25, epsilon**0.125, 1], dtype)
    rounding = _ROUNDINGS * epsilon * tf.abs(place.cost)

    def one_more(index: Tensor, verdict: Tensor) -> tuple[Tensor, Tensor]:
        column, part = index // 3, parts[index % 3]
        open_ones = tf.gather(counts & tf.equal(verdict, 0), column, axis=1)
        both = sides.rises_if(tf.reduce_any(open_ones), part * tf.gather(vectors, column, axis=2))
        least = tf.reduce_min(both, axis=0)
        found = tf.where(open_ones, tf.cast(least > rounding, tf.int32) - tf.cast(least < -rounding, tf.int32), 0)
        return index + 1, verdict + found[:, None] * tf.one_hot(column, sides.count, dtype=tf.int32)

    start = tf.constant(0), tf.zeros(tf.shape(counts), tf.int32)
    shapes = start[0].shape, counts.shape
    _, verdict = while_loop(lambda index, _: index < 3 * sides.count, one_more, start, shape_invariants=shapes)
    return tf.reduce_all(~counts | tf.equal(verdict, 1), axis=1)


def _principal(sides: _Sides, dtype: tf.DType) -> Tensor:
    """Return the principal directions of F's curvature, the columns of `[n, k, k]`, in units of the reach.

    Of ε^¼ to both sides, second differences have an error of √ε of F. That of i and j together less that of i and that
    of j is twice the mixed derivative. Columns that are not looked at have directions that are theirs alone.
    """
    pairs = np.stack(np.tril_indices(sides.count), axis=1)
    places = np.zeros([sides.count] * 2, int)
    places[tuple(pairs.T)] = places[tuple(pairs.T[::-1])] = np.arange(len(pairs))
    step, table = float(np.finfo(dtype.as_numpy_dtype).eps ** 0.25), tf.constant(pairs)

    def one_more(index: Tensor, found: Tensor) -> tuple[Tensor, Tensor]:
        pair = table[index]
        direction = step * tf.reduce_max(tf.one_hot(pair, sides.count, dtype=dtype), axis=0)
        needed = tf.reduce_any(tf.reduce_all(tf.gather(sides.looked, pair, axis=1), axis=1))
        both = sides.rises_if(needed, tf.broadcast_to(direction, tf.shape(sides.looked)))
        return index + 1, tf.tensor_scatter_nd_update(found, [[index]], tf.reduce_sum(both, axis=0)[None])

    nothing = tf.zeros([len(pairs), tf.shape(sides.looked)[0]], dtype)
    _, found = while_loop(lambda index, _: index < len(pairs), one_more, (tf.constant(0), nothing))
    found = tf.transpose(tf.gather(tf.where(tf.math.is_finite(found), found, 0), places), [2, 0, 1])
    alone = tf.linalg.diag_part(found)
    mixed = (found - alone[:, :, None] - alone[:, None, :]) / 2
    curvature = tf.linalg.set_diag(mixed, alone)
    curvature = tf.where(sides.looked[:, :, None] & sides.looked[:, None, :], curvature, 0)
    apart = 2 * sides.count * tf.reduce_max(tf.abs(curvature), axis=[1, 2]) + 1
    curvature += tf.linalg.diag(tf.where(sides.looked, tf.zeros_like(alone), apart[:, None]))
    return tf.linalg.eigh(curvature)[1]
