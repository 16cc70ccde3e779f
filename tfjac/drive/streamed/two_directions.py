"""Steps in the plane of two directions: that of a preconditioned gradient, and that of the step before.

Where data are those of the steps before, a step goes on from the former by conjugate gradients.
"""

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from tfjac.graph import cond
from tfjac.linear.contracts import LinearModel
from tfjac.linear.solvers import ConjugateGradientSolver
from tfjac.linear.solvers.base import (
    Cost,
    ProductSystem,
    Solve,
    Solved,
    Solver,
    System,
    dot,
    finite_or_zeros,
    zeros_unless,
)
from tfjac.linear.solvers.conjugate_gradient import conjugate_gradients
from tfjac.linear.solvers.problem_sizes import ProblemSizes
from tfjac.types import Tensor

MOST_MOMENTUM = 0.95
"""μ is no more."""

STIFFEST = 1e4
"""κ of a batch is no more."""


class TwoDirections(Solver):
    """Steps in the plane of −Pg and the step before.

    Args:
        precondition: function from g `[p]` to Pg.
        diagonal: `[p]`, diag(JᵀJ), or what stands for it.
        last: `[p]`, δ.
        damping: scalar, λ of the first attempt.
        before, own: scalars, κ is the first, of batches before, and the second times that of the batch.
        share: scalar, the part of the bound of α that is used.
        streams: scalar bool, whether data are new; None if they are.

    Attributes:
        stiffness: scalar, κ, once it is `prepare`d.
        allowed: scalar, the part of −Pg that the batch allows.
    """

    name = "kronecker"
    takes_products = True
    stiffness: tf.Tensor
    allowed: tf.Tensor

    def __init__(
        self,
        precondition: Callable,
        diagonal: Tensor,
        last: Tensor,
        damping: Tensor,
        before: Tensor,
        own: Tensor,
        share: Tensor | float = 1.0,
        streams: Tensor | None = None,
    ) -> None:
        self._precondition, self._diagonal, self._last, self._streams = precondition, diagonal, last, streams
        self._damping, self._before, self._own, self._share = damping, before, own, share

    def cost(self, sizes: ProblemSizes) -> Cost:
        """Return zeros: there is nothing to choose."""
        return Cost(0.0, 0.0, 0.0)

    def prepare(self, linearisation: LinearModel) -> System:
        """Take g, and products of J with both directions."""
        plane = _Plane(linearisation, self._diagonal, self._precondition, self._last, self._streams)
        stiffness = tf.math.divide_no_nan(plane.stiffness(self._damping), -plane.slopes[0])
        stiffness = tf.clip_by_value(tf.where(stiffness > 0, stiffness, STIFFEST), 0.0, STIFFEST)
        self.stiffness = self._before + self._own * stiffness
        plane.most = self._share * tf.minimum(1 / self.stiffness, 1.0)
        self.allowed = 1 / stiffness
        return plane


class _Plane(ProductSystem):
    """The quadratic model of a batch in the plane of two directions.

    Args:
        linearisation: `LinearModel` of the batch.
        diagonal, precondition, last, streams: as of `TwoDirections`.
    """

    most: tf.Tensor

    def __init__(
        self, linearisation: LinearModel, diagonal: Tensor, precondition: Callable, last: Tensor, streams: Tensor | None
    ) -> None:
        super().__init__(linearisation, diagonal)
        self._precondition, self._streams = precondition, streams
        self._directions = directions = [-precondition(self.gradient), last]
        rows = _products(linearisation.jacobian.matvecs(directions))
        weighed = _products(directions, [self.prior.precision * each for each in directions])
        self._curvature = rows if self.prior.is_zero else [one + two for one, two in zip(rows, weighed)]
        self._squares = _products(directions)
        self.slopes = [dot(self.gradient, each) for each in directions]
        self._solved: dict[Any, list[Tensor]] = {}

    def stiffness(self, damping: Tensor) -> Tensor:
        """Return the damped curvature along the first direction, a scalar."""
        return self._curvature[0] + damping * self._squares[0]

    def solver(self, scaling: Tensor) -> Solve:
        def solve(damping: Tensor, residual: Tensor | None = None) -> Solved:
            place = self._coordinates(damping)
            step = place[0] * self._directions[0] + place[1] * self._directions[1]
            found = finite_or_zeros(step if self._streams is None else self._or_iterated(step, damping * scaling))
            self._solved[found[0].ref()] = [zeros_unless(found[1], each) for each in place]
            return found

        return solve

    def quadratic(self, step: Tensor) -> Tensor:
        """Return pᵀ(JᵀJ + Λ)p, without a product with J for a step in the plane."""
        place = self._solved.get(step.ref())
        if place is None:
            return super().quadratic(step)
        (first, second), (own, mixed, other) = place, self._curvature
        inside = first * (first * own + 2 * second * mixed) + second * second * other
        outside = super().quadratic
        return inside if self._streams is None else cond(self._streams, lambda: inside, lambda: outside(step))

    def _or_iterated(self, step: Tensor, mass: Tensor) -> Tensor:
        """Return `step` where data are new, else that of conjugate gradients with λD `[p]`, of no iteration there."""
        model, options = self.linearisation, ConjugateGradientSolver()
        mass += self.prior.precision
        product = lambda vector: model.curvature(vector) + mass * vector  # noqa: E731
        square, iterations = model.jacobian.square(model.residual), tf.where(self._streams, 0, options.max_iterations)
        given = -self.gradient, square, self._precondition, options.tolerance, iterations, self._directions[0]
        return tf.where(self._streams, step, conjugate_gradients(product, *given))

    def _coordinates(self, damping: Tensor) -> tuple[Tensor, Tensor]:
        """Return α and μ: those that minimise the damped model, within their bounds."""
        own, mixed, other = matrix = [c + damping * s for c, s in zip(self._curvature, self._squares)]
        slope, slope_of_last = self.slopes
        divide = tf.math.divide_no_nan
        first, _, both = _solved(matrix, [-slope, -slope_of_last])
        first = tf.minimum(first, self.most)
        best = tf.where(both, -divide(slope_of_last + first * mixed, other), tf.zeros_like(own))
        second = tf.clip_by_value(best, 0.0, MOST_MOMENTUM)
        alone = tf.clip_by_value(-divide(slope + second * mixed, own), 0.0, self.most)
        return tf.where(tf.equal(second, best), first, alone), second


def _solved(matrix: Sequence[Tensor], right: Sequence[Tensor]) -> tuple[Tensor, Tensor, Tensor]:
    """Return x of a symmetric 2 × 2 system, and whether both directions count: of parallel ones the first does.

    Args:
        matrix: its elements as `_products` returns them.
        right: two scalars.
    """
    own, mixed, other = matrix
    determinant, divide = own * other - mixed * mixed, tf.math.divide_no_nan
    both = (other > 0) & (determinant > 1e-6 * own * other)
    determinant = tf.where(both, determinant, tf.ones_like(own))
    first = tf.where(both, divide(other * right[0] - mixed * right[1], determinant), divide(right[0], own))
    second = tf.where(both, divide(own * right[1] - mixed * right[0], determinant), tf.zeros_like(own))
    return first, second, both


def _products(vectors: Sequence[Tensor], others: Sequence[Tensor] | None = None) -> list[Tensor]:
    """Return the products of two vectors: of the first with itself, of both, and of the second with itself."""
    others = vectors if others is None else others
    return [dot(vectors[j], others[k]) for j, k in ((0, 0), (0, 1), (1, 1))]
