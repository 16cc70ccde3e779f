"""Maxima and saddle points: all tests of convergence are met there, too, and the cost falls beside them.

A fit is there if it starts there, to all digits or to a few, or where a bound takes away what other parameters act by.
J of x² − 1 is zero at zero; the cosine of r and J of sin(t + v) − sin(t) is zero at v = π; the phase of a sine whose
amplitude a bound holds at zero is free, and turned by half a circle the amplitude would grow. So parameters along which
the steps have tried no other residuals are looked at: along each of them, if there are not too many, and along a few
random directions, as next to a saddle of two parameters every second one leads down. There the cost is taken on both
sides, at two distances. It must fall on the mean of both sides, and so by curvature, and at the farther ones by more:
rounding and noise of the residuals do not. Or it must fall so on one side, close by: b³ − 1 does at zero. That takes no
JᵀJ, and so problems of any size are looked at.

All of it is of n problems at once, each by itself; of one problem n is one.
"""

from typing import NamedTuple

import numpy as np
import tensorflow as tf

from tfjac.graph import while_loop
from tfjac.linear import arrays
from tfjac.steps.conditions import Box
from tfjac.types import Function, Tensor

MOST = 64
"""Parameters that are looked at one by one."""

ROUNDINGS = 64
"""Rounding errors of the cost that a rise, or a fall, must exceed to be one."""

_DRAWS = 8
"""Random directions along which the cost is looked at: one saddle of two parameters in 256 is not seen."""

_TRIED = 1e-2
"""A parameter that has not changed r by this part of ‖r‖ was not tried by the steps."""

_OF_RESIDUALS = 16
"""Rounding errors of the parameters that those of residuals may be as large as."""

_FARTHER = 4
"""So many times as far away the cost is taken once more, and must have fallen by still more times as much."""


def shares_of(columns: Tensor, cost: Tensor, gradient: Tensor | None, free: Tensor | None) -> Tensor:
    """Return ‖Jⱼ‖²/‖r‖², `[n, p]`, or `[p]`; infinite for parameters that a bound holds against the gradient.

    Args:
        columns: `[n, p]`, diag(JᵀJ + Λ).
        cost: `[n]`, F.
        gradient: `[n, p]`, ∇F.
        free: `[n, p]`, bool, what `Box.free` says; None where no bound counts.
    """
    shares = columns / (2 * arrays.absolute(cost))[..., None]
    return shares if free is None else arrays.where(free | arrays.equal(gradient, 0), shares, np.inf)


def unseen(shares: Tensor, moved: Tensor, reach: Tensor, box: Box | tuple[()] | None) -> Tensor:
    """Return along which parameters the steps have tried no other residuals, `[n, p]` or `[p]`, bool.

    They moved by too little to change r by a hundredth; if there are many, by rounding. None if F is mere rounding.

    Args:
        shares: see `shares_of`.
        moved: `[n, p]`, by how much the parameters have moved.
        reach: `[n, p]`, how large each has been.
        box: a `Box` that they stay in; an empty tuple or None without one.
    """
    epsilon = float(arrays.finfo(shares).eps)
    least = _TRIED if shares.shape[-1] <= MOST else epsilon**0.75
    known = arrays.where(arrays.is_finite(shares), shares, 0)
    size = arrays.reduce_sum(known * arrays.square(reach), axis=-1, keepdims=True)
    found = (arrays.square(moved) * shares <= least**2) & (size * (_OF_RESIDUALS * epsilon) ** 2 < 1)
    return found & (box.lower < box.upper) if box else found


class Beside(NamedTuple):
    """Where n problems ended.

    Attributes:
        cost: `[n]`, F.
        shares: `[n, p]`, ‖Jⱼ‖²/‖r‖².
        reach: `[n, p]`, how large each parameter has been.
        asked: `[n, p]`, bool: those that are `unseen`.
        inward: `[n, p]`, for parameters that a bound holds the sign of the gradient, which points inward; else zero.
    """

    cost: tf.Tensor
    shares: tf.Tensor
    reach: tf.Tensor
    asked: tf.Tensor
    inward: tf.Tensor


def falls_beside(place: Beside, cost_at: Function) -> Tensor:
    """Return whether F falls nearby, `[n]`.

    Args:
        cost_at: function from a change of the parameters, `[n, p]`, to F there, `[n]`.
    """
    trials, asked = _Trials(place), arrays.reduce_any(place.asked, axis=1)

    def one_more(index: Tensor, falls: Tensor) -> tuple[Tensor, Tensor]:
        costs = _costs(trials.changes(index), place.cost, cost_at)
        return index + 1, falls | (asked & trials.fall(index, costs))

    def unfinished(index: Tensor, falls: Tensor) -> Tensor:
        return (index < trials.count) & arrays.reduce_any(asked & ~falls)

    return arrays.loop(unfinished, one_more, (arrays.constant(0, place.cost, tf.int32), arrays.zeros_like(asked)))[1]


def _costs(changes: Tensor, cost: Tensor, cost_at: Function) -> Tensor:
    """Return F `[4, n]` at four changes of the parameters `[4, n, p]`, one after the other."""
    if arrays.are_known(changes):
        return np.stack([cost_at(change) for change in changes])

    def one_cost(side: Tensor, costs: Tensor) -> tuple[Tensor, Tensor]:
        return side + 1, tf.tensor_scatter_nd_update(costs, [[side]], cost_at(changes[side])[None])

    nothing = tf.zeros([4, tf.shape(cost)[0]], cost.dtype)
    return while_loop(lambda side, _: side < 4, one_cost, (tf.constant(0), nothing))[1]


class _Trials:
    """Four places each beside n problems: to both sides, at two distances; or at random, what bounds hold moved inward.

    The unit of a parameter is what would change r by ‖r‖, or if its column is zero, how large it has been: then sizes
    of all magnitudes are tried, if there are not too many.

    Attributes:
        count: scalar, how many there are.
    """

    def __init__(self, place: Beside) -> None:
        self._place, self._width = place, place.reach.shape[1]
        self._zero, self._held = arrays.equal(place.shares, 0), arrays.not_equal(place.inward, 0)
        few, self._epsilon = self._width <= MOST, float(arrays.finfo(place.cost).eps)
        self._alone = self._width if few else 0
        none, some = place.asked & self._zero, place.asked & ~self._zero
        several, any_none = (1 if few else 0), arrays.reduce_any(none)
        flags = [arrays.reduce_any(arrays.count_nonzero(each, axis=1) > several) for each in (none, some)]
        flags += [any_none & arrays.reduce_any(self._held)]
        drawn = [flag[None] for flag in flags for _ in range(_DRAWS)]
        wanted = arrays.concat([arrays.reduce_any(place.asked, axis=0)[: self._alone], *drawn])
        self._order = arrays.argsort(~wanted)
        powers = sorted(range(-8, 9), key=lambda k: abs(k - 1.5)) if few else [2, 1, 3]
        self._sizes = arrays.where(any_none, len(powers) if few else 2, 3)
        self.count = self._sizes * arrays.count_nonzero(wanted)
        self._scan, self._small = self._powers(powers), self._powers([1, 2] + [3] * (len(powers) - 2))

    def _powers(self, eighths: list[int]) -> Tensor:
        return arrays.constant([self._epsilon ** (k / 8) for k in eighths], self._place.cost)

    def changes(self, index: Tensor) -> Tensor:
        """Return the changes of the parameters that lead there, `[4, n, p]`."""
        number, size, place = arrays.element(self._order, index // self._sizes), index % self._sizes, self._place
        drawn, kind = arrays.uniform([4, 1, self._width], index, place.cost), (number - self._alone) // _DRAWS
        alone = number < self._alone
        direction = arrays.where(alone, arrays.unit_vector(number, self._width, place.cost), arrays.sign(drawn[0, 0]))
        moves = place.asked & (alone | arrays.equal(self._zero, arrays.equal(kind, 0)))
        natural = 1 / arrays.sqrt(arrays.where(self._zero, arrays.ones_like(place.shares), place.shares))
        usual = arrays.reduce_max(place.reach, axis=1, keepdims=True)
        unit = arrays.where(place.reach > 0, place.reach, arrays.where(usual > 0, usual, arrays.ones_like(usual)))
        step = arrays.where(
            self._zero, unit * arrays.element(self._scan, size), natural * arrays.element(self._small, size)
        )
        sides = arrays.constant([[[1]], [[-1]], [[_FARTHER]], [[-_FARTHER]]], place.cost)
        both = arrays.where(moves, direction * step, 0) * sides
        asked = place.asked & self._zero
        turned = arrays.where(asked, _FARTHER * arrays.maximum(place.reach, 1) * drawn, 0)
        turned += arrays.where(self._zero, 0 * place.inward, place.inward * natural * self._small[0])
        return arrays.where(kind < 2, both, turned)

    def fall(self, index: Tensor, costs: Tensor) -> Tensor:
        """Return whether F falls there, `[n]`; `costs`: `[4, n]`."""
        number, cost = arrays.element(self._order, index // self._sizes), self._place.cost

        def bends(near: Tensor, far: Tensor) -> Tensor:
            return (near > ROUNDINGS * self._epsilon * arrays.absolute(cost)) & (far > (_FARTHER + 1) * near)

        gains, is_close = cost - costs, arrays.element(self._scan, index % self._sizes) < 2 * self._epsilon**0.25
        one = bends(gains[0], gains[2]) | bends(gains[1], gains[3])
        falls = bends((gains[0] + gains[1]) / 2, (gains[2] + gains[3]) / 2) | (is_close & one)
        by_gain = arrays.reduce_max(gains, axis=0) > self._epsilon**0.25 * arrays.absolute(cost)
        return arrays.where(number < self._alone + 2 * _DRAWS, falls, by_gain)
