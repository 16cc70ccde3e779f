"""What steps are taken in: the elements of variables, and tangents of those that are on a manifold."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from tfjac.graph import as_tf_variable
from tfjac.linear.columns import Columns
from tfjac.objective.conditions.manifolds import Manifold
from tfjac.steps.conditions import Box, Conditions, GaussianPrior
from tfjac.types import Tensor, Variable


class Coordinates:
    """Of variables of which some are on manifolds.

    Args:
        manifolds: list of a `Manifold`, or None, for each.

    Attributes:
        columns: `Columns`, those of J.
    """

    def __init__(self, variables: list[Variable], manifolds: list) -> None:
        self._variables, self._manifolds = variables, manifolds
        self.columns = Columns(list(map(_like_tangent, variables, manifolds)))

    def conditions(self, conditions: Conditions) -> Conditions:
        """Return `Conditions` on the elements of variables as such on these coordinates.

        Rows on a manifold are fixed or free, and there is nothing else to be said of them.
        """
        if not any(self._manifolds):
            return conditions
        box, prior, _ = conditions
        return conditions._replace(box=box and self._box(box), prior=prior and self._prior(prior))

    def _box(self, box: Box) -> Box:
        lower, upper = map(Columns(self._variables).split, box)
        sides = [self._sides(*each) for each in zip(self._manifolds, lower, upper)]
        return Box(*(self.columns.flatten(side) for side in zip(*sides)))

    def _prior(self, prior: GaussianPrior) -> GaussianPrior:
        return GaussianPrior(*map(self._without_tangents, prior))

    def charts(self) -> list:
        """Return new tangents in the current graph: for each variable a `Chart`, or None for one on no manifold."""
        pairs = zip(self._variables, self._manifolds)
        return [None if manifold is None else Chart(variable, manifold) for variable, manifold in pairs]

    def travelled(self, start: list[Tensor], end: list[Tensor]) -> tuple[Tensor, Tensor]:
        """Return by how much each coordinate has moved, and how large it has been, that or what it is, `[p]` each.

        Of a tangent, both are those of the point that it moves.
        """
        moved, size = [], []
        for before, after, manifold in zip(start, end, self._manifolds):
            distance, magnitude = tf.abs(after - before), tf.abs(after)
            if manifold is not None:
                shape = tf.TensorShape([*after.shape[:-1], manifold.tangent_size])
                distance = tf.broadcast_to(tf.norm(distance, axis=-1, keepdims=True), shape)
                magnitude = tf.broadcast_to(manifold.magnitude(after), shape)
            moved.append(distance)
            size.append(magnitude)
        distances = self.columns.flatten(moved)
        return distances, tf.maximum(distances, self.columns.flatten(size))

    def _without_tangents(self, vector: Tensor) -> Tensor:
        pairs = zip(Columns(self._variables).split(vector), self._manifolds)
        return self.columns.flatten(
            [x if each is None else tf.zeros_like(x[..., : each.tangent_size]) for x, each in pairs]
        )

    @staticmethod
    def _sides(manifold: Manifold | None, lower: Tensor, upper: Tensor) -> tuple[Tensor, Tensor]:
        if manifold is None:
            return lower, upper
        fixed = tf.broadcast_to((lower >= upper)[..., :1], [*lower.shape[:-1], manifold.tangent_size])
        zero = tf.zeros(fixed.shape, lower.dtype)
        return tf.where(fixed, zero, -np.inf), tf.where(fixed, zero, np.inf)


class Chart:
    """What stands for a variable on a manifold where residuals read it: x ⊕ δ, with δ zero.

    Args:
        variable: the variable; it is read at this point of the program.

    Attributes:
        tangent: δ, `[..., tangent_size]`, a tensor.
        value: x + (x ⊕ δ − x ⊕ 0), of the shape of x: x itself, with the derivatives of x ⊕ δ.
    """

    def __init__(self, variable: Variable, manifold: Manifold) -> None:
        self._manifold, value = manifold, as_tf_variable(variable).read_value()
        self.tangent = tf.stop_gradient(tf.zeros_like(value[..., : manifold.tangent_size]), name="tangent")
        # x ⊕ 0 is x but for rounding. Residuals read x to the bit, as the step that led here was judged by these bits.
        self.value = value + (manifold.move(value, self.tangent) - manifold.move(value, tf.zeros_like(self.tangent)))

    def move(self, start: Tensor, step: Tensor) -> Tensor:
        """Return start ⊕ step, of the shape of the variable; points that do not move stay as they are, bit for bit."""
        moves = tf.reduce_any(tf.not_equal(step, 0), axis=-1, keepdims=True)
        return tf.where(moves, self._manifold.move(start, step), start)

    def magnitude(self, value: Tensor) -> Tensor:
        """Return how large the points of the variable are along each direction, of the shape of the tangent."""
        return tf.broadcast_to(self._manifold.magnitude(value), tf.shape(self.tangent))


class Standing(NamedTuple):
    """What stands for a variable where residuals read it, in place of a `Chart`: J is taken with respect to it.

    Attributes:
        value: of the shape of the variable.
    """

    value: tf.Tensor

    @property
    def tangent(self) -> Any:
        return self.value


def sources_of(variables: Sequence, charts: list) -> list:
    """Return what J is taken with respect to: variables, and tangents of those that have a chart."""
    return [variable if chart is None else chart.tangent for variable, chart in zip(variables, charts)]


def positions_of(values: list[Tensor], charts: list) -> list[Tensor]:
    """Return where these are where the variables hold `values`, a list of tensors."""
    return [value if chart is None else tf.zeros_like(chart.tangent) for value, chart in zip(values, charts)]


def _like_tangent(variable: Variable, manifold: Manifold | None) -> Any:
    return variable if manifold is None else tf.TensorSpec([*variable.shape[:-1], manifold.tangent_size])
