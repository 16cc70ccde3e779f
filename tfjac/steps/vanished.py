"""Minima that J does not see: where no step lowered the cost, and columns of J have vanished.

At a minimum of ½(x² + 5)² the residual is five and J is zero, or on the way to it. The cosine of the angle between r
and a column says nothing of columns that short; with one residual it is always one. So another measure is taken there:
the cost itself, on both sides of the point, along each principal direction of its curvature. Along the axes that would
not do: in a narrow valley between them the cost rises along each axis, far from the end of the valley. It takes some
evaluations, and is asked for only if no step lowered the cost.

All of it is of n problems at once, each by itself; of one problem n is one.
"""

from typing import NamedTuple

import numpy as np
import tensorflow as tf

from tfjac.graph import cond, while_loop
from tfjac.linear import arrays
from tfjac.ops import damped_solve
from tfjac.steps.beside import MOST, ROUNDINGS, Beside, falls_beside, shares_of, unseen
from tfjac.steps.conditions import Box, Equality
from tfjac.steps.converge import Tolerances
from tfjac.steps.objective import Objective
from tfjac.types import Function, Tensor

_LARGEST = 2**24
"""Numbers of a J, or of a JᵀJ, of a problem whose vanished columns are looked for."""


class Place(NamedTuple):
    """Where n problems ended.

    Attributes:
        cost: `[n]`, F.
        gram: `[n, p, p]`, JᵀJ + Λ.
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


class Surroundings:
    """The cost around the point where the variables of one problem are; they come back there.

    Args:
        box: a `Box` that the variables stay in, or None.
        equality: an `Equality` that they fulfil, or None.
        moved, reach: `[p]`, what `Coordinates.travelled` says of the way from where they started.
    """

    def __init__(
        self, objective: Objective, box: Box | None, equality: Equality | None, moved: Tensor, reach: Tensor
    ) -> None:
        self._objective, self._box, self._equality, self._moved, self._reach = objective, box, equality, moved, reach
        self._values, self._model = objective.values(), objective.linearise()
        self._position = objective.position(self._values)

    def cost_at(self, change: Tensor) -> Tensor:
        """Return F, `[1]`, where the parameters change by `[1, p]`, or by what their conditions leave of it."""
        position = self._position + change[0]
        if self._equality is not None:
            position = self._equality.project(position)
        if self._box is not None:
            position = self._box.project(position)
        if self._box is None and self._equality is None:
            self._objective.move(self._values, change[0])
        else:
            self._objective.move_to(self._values, position)
        cost = self._objective.evaluate()
        self._objective.restore_unless(arrays.constant(False, cost, tf.bool), self._values)
        return cost[None]

    def vanished(self, limits: Tolerances) -> Tensor:
        """Return what `vanished_at_minimum` says, `[p]`."""
        gram, gradient = self._model.gram_and_gradient()
        gram += arrays.diag(self._model.prior.precision)
        place = self._objective.cost, gram, gradient, self._reach, self._free(gradient)
        place = Place._make(tf.convert_to_tensor(each)[None] for each in place)
        return vanished_at_minimum(place, self.cost_at, limits)[0]

    def falls(self) -> Tensor:
        """Return what `falls_beside` says, a scalar bool."""
        gradient, columns = self._model.gradient(), self._model.diagonal() + self._model.prior.precision
        given = columns, self._objective.cost, gradient
        shares, known = shares_of(*given, self._free(gradient)), shares_of(*given, None)
        asked = unseen(shares, self._moved, self._reach, self._box)
        inward = arrays.where(shares > known, arrays.sign(gradient), arrays.zeros_like(gradient))
        place = self._objective.cost, known, self._reach, asked, inward
        return falls_beside(Beside._make(each[None] for each in place), self.cost_at)[0]

    def _free(self, gradient: Tensor) -> Tensor:
        everywhere = arrays.equal(self._position, self._position)
        return everywhere if self._box is None else self._box.free(self._position, gradient)


def vanished_at_minimum(place: Place, cost_at: Function, limits: Tolerances) -> Tensor:
    """Return which columns of J have vanished at a minimum, `[n, p]`, bool; none if it is no minimum.

    A column has vanished if r would change by no more than √gtol of it if the parameter moved by all that it has been.
    The other parameters are at a minimum as far as J can say: they could gain no more than ftol of the cost, each by
    itself or all together.

    Args:
        place: a `Place`, where no step lowered the cost.
        cost_at: function from a change of the parameters, `[n, p]`, to F there, `[n]`.
    """
    norms, norm = tf.sqrt(tf.linalg.diag_part(place.gram)), tf.sqrt(2 * tf.abs(place.cost))[:, None]
    small = place.free & (norms * place.reach <= np.sqrt(limits.gradient) * norm)
    sides, others = small & (norms > 0), place.free & ~small
    finite = tf.math.is_finite(place.cost) & tf.reduce_all(tf.math.is_finite(norms), axis=1) & (norm[:, 0] > 0)
    few = tf.math.count_nonzero(small, axis=1) <= MOST
    asked = finite & few & tf.reduce_any(sides, axis=1) & _rest(place, others, norms, norm, limits)
    looked = sides & asked[:, None]
    nothing = tf.zeros_like(asked)
    lowest = cond(tf.reduce_any(asked), lambda: asked & _is_lowest(place, cost_at, looked), lambda: nothing)
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
        cost_at: as of `vanished_at_minimum`.
        looked: `[n, p]`, bool: the parameters that move, 64 at most in each problem.

    Attributes:
        count: k, how many columns there is room for, an integer.
        looked: `[n, k]`, those of `looked`.
    """

    def __init__(self, place: Place, cost_at: Function, looked: Tensor) -> None:
        self._place, self._cost_at, self.count = place, cost_at, min(looked.shape[1], MOST)
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
        return cond(needed, lambda: self.rises(direction), lambda: nothing)


def _is_lowest(place: Place, cost_at: Function, looked: Tensor) -> Tensor:
    """Return whether the cost rises to both sides along all directions, `[n]`, at the nearest places where it differs.

    Args:
        place, cost_at, looked: as of `_Sides`.
    """
    sides, dtype = _Sides(place, cost_at, looked), place.cost.dtype
    vectors, epsilon = _principal(sides, dtype), np.finfo(dtype.as_numpy_dtype).eps
    counts = tf.reduce_sum(tf.square(tf.where(sides.looked[:, :, None], vectors, 0)), axis=1) > 0.5
    parts = tf.constant([epsilon**0.25, epsilon**0.125, 1], dtype)
    rounding = ROUNDINGS * epsilon * tf.abs(place.cost)

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
