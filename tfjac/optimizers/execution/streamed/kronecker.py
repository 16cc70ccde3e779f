"""Kronecker factors as a memory, for networks of any size: A ⊗ G of each weight, averaged over batches.

Of each weight that multiplies data, A = mean a aᵀ and G = Σ d dᵀ are kept, which fade by β with each batch (K-FAC,
Martens & Grosse 2015; convolutions, Grosse & Martens 2016). d is that of one random combination of the outputs of each
example: the mean of d dᵀ over the signs is that of all outputs. Of what has no such factors, diag(JᵀJ) is kept. With P
the inverse of all that, damped by λ, and δ the step before, a step is

    p = −αPg + μδ

in which α and μ minimise the quadratic model of the batch, with products J·v. Two rules make it sound where batches are
small. They were chosen by trials on digits, tables, and an autoencoder, with batches of 8 to 256; see
`docs/mini_batches.md`.

*How far.* α is no more than 1/κ. κ is a mean over batches: the curvature of the batch along Pg over that of what is
kept. A batch whose predictions are certain has next to no curvature. So it does not tell how far it is safe to go.

*How much damping.* λ follows α: with too little damping, what is kept is wrong about directions that few examples have
shown, and the batch allows a small part of Pg alone. λ changes with each step until that part is 1/20.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from tfjac.graph import eager_creation
from tfjac.jacobians.factors.kronecker_block import DiagonalBlock, KroneckerBlock, sides_of
from tfjac.optimizers.columns import Columns
from tfjac.optimizers.contracts import LinearModel, Objective
from tfjac.optimizers.damping import NielsenDamping
from tfjac.optimizers.execution.streamed.recalling import LinearisedObjective, all_finite
from tfjac.optimizers.loop.method import Method
from tfjac.optimizers.loop.records import Report, State
from tfjac.optimizers.loop.step import take_step
from tfjac.optimizers.solvers.base import Cost, Solve, Solved, Solver, System, dot, finite_or_zeros
from tfjac.optimizers.solvers.plan import Plan
from tfjac.optimizers.solvers.problem_sizes import ProblemSizes
from tfjac.optimizers.statuses import Status
from tfjac.types import Tensor

KEPT = 0.95
"""β."""

REFRESHED = 5
"""After so many steps inverses are computed again; after each of the first."""

WANTED_SHARE, SPEED = 0.05, 0.1
"""The α that λ is led to, and by which power of its distance, at most by a quarter with each step."""

LEAST = 0.3
"""λ of losses that are no sums of squares is not less than so many times the largest mean of diag(JᵀJ) so far."""

FORGETS_LARGEST = 0.9999
"""By what that largest mean fades with each step."""

MOST_MOMENTUM = 0.95
"""μ is no more."""

STIFFEST = 1e4
"""κ of a batch is no more."""


LIVE = 2
"""What is kept is held so many times while a step is taken: as it was, and as it will be."""


class KroneckerMemory:
    """A and G of each weight, their inverses, and the step before.

    Args:
        add: function from a name, a shape and a dtype to a new variable of the optimizer.
        columns: `Columns` of the parameters.
        dtype: of all that is kept.
        sides: list of what `sides_of` returns for each variable, which says of what form its factors are.
    """

    def __init__(self, add: Callable, columns: Columns, dtype: tf.DType, sides: list) -> None:
        self._columns, self.dtype = columns, dtype
        self._parts: list[Any] = [
            _Diagonal(add, f"{k}", size, dtype) if form is None else _Sides(add, f"{k}", form, dtype)
            for k, (form, size) in enumerate(zip(sides, columns.sizes))
        ]
        self._last = add("last_step", (columns.total,), dtype)
        self._damping, self._stiffness, self._largest = (
            add(name, (), dtype) for name in ("damping_of_factors", "stiffness", "largest_curvature")
        )
        self._steps = add("steps_with_factors", (), "int64")

    @classmethod
    def of(cls, add: Callable, columns: Columns, batch: LinearModel, budget: float = math.inf) -> "KroneckerMemory":
        """Return the memory for batches like the first one, a `LinearModel` with drawn rows, within so many bytes."""
        sides = [sides_of(factors) for factors in batch.jacobian.factors()]
        with eager_creation():
            return cls(add, columns, batch.dtype, _within(budget / (LIVE * batch.dtype.size), sides))

    def plan(self, sizes: ProblemSizes) -> Plan:
        """Return the `Plan` of steps on batches of `ProblemSizes`; of operations, those that do not grow with them."""
        with_factors = sum(isinstance(part, _Sides) for part in self._parts)
        rest = len(self._parts) - with_factors
        reason = f"data are new with each step, and {with_factors} variables have Kronecker factors"
        memory = LIVE * self.dtype.size * sum(part.numbers for part in self._parts)
        cost = Cost(float(memory), float(sum(part.operations for part in self._parts)), 0.0)
        rows = None if sizes.rows is None else int(sizes.rows)
        reason += f"; of {rest}, which have none or too large ones, a diagonal is kept" if rest else ""
        dtype = "float64" if self.dtype == tf.float64 else "float32"
        held = None if sizes.rows is None else int(sizes.held())
        return Plan(rows, sizes.parameters, dtype, TwoDirections.name, reason, {TwoDirections.name: cost}, held)

    def take_step(
        self,
        objective: Objective,
        batch: LinearModel,
        state: State,
        method: Method,
        weight: Tensor,
        stayed: Tensor,
        share: Tensor | float = 1.0,
    ) -> tuple[State, Report, Tensor]:
        """Take a step, remember the batch, and return the `State`, the `Report`, and the loss of the batch after it.

        Args:
            objective: `Objective` of the batch, which adds up squares or other convex functions.
            batch: its `LinearModel`, with drawn rows.
            state: a `State`; method: a `Method`.
            weight: scalar, what the batch counts for; with zero it is not remembered.
            stayed: scalar bool, whether the variables are where the last step left them.
            share: scalar, the part of the bounds of α that is used.
        """
        steps = self._steps.value.read_value()
        begun = tf.cast(steps, self.dtype)
        kept = tf.minimum(tf.constant(KEPT, self.dtype), begun / (begun + 1))
        factors, sizes = batch.jacobian.factors(), self._columns.sizes
        curvature = [part.averaged(each, kept) for part, each in zip(self._parts, factors)]
        damping, largest = self._damping_now(curvature, objective.sums_squares)
        is_due = tf.equal(steps % REFRESHED, 0) | (steps < REFRESHED)
        inverses = [part.inverses(block, damping, is_due) for part, block in zip(self._parts, curvature)]

        def precondition(gradient: Tensor) -> Tensor:
            pairs = zip(curvature, inverses, tf.split(gradient, sizes))
            return tf.concat([block.multiplied(inverse, each) for block, inverse, each in pairs], axis=0)

        diagonal = tf.concat([block.diagonal() for block in curvature], axis=0)
        last = self._last.value.read_value() * tf.cast(stayed, self.dtype)
        solver = TwoDirections(precondition, diagonal, last, damping, self._stiffness.value.read_value(), kept, share)
        with_factors = method._replace(solver=solver, damping=NielsenDamping(), acceleration=None, gram_dtype=None)
        start = State((damping, 2 * tf.ones_like(damping)), state.scaling)
        before = objective.position(objective.values())
        report = take_step(LinearisedObjective(objective, batch), start, with_factors).report
        report = named(report, method, solver)
        moved = objective.position(objective.values()) - before
        idle = [int(Status.NOT_FINITE), int(Status.GRADIENT_TOLERANCE)]
        wanted = (weight > 0) & ~tf.reduce_any([tf.equal(report.status, status) for status in idle])
        wanted &= all_finite(diagonal, solver.stiffness, *tf.nest.flatten(inverses))
        following = _following(report, solver.allowed)

        def keep() -> Tensor:
            for part, block, inverse in zip(self._parts, curvature, inverses):
                part.keep(block, inverse)
            for variable, value in (
                (self._last, moved),
                (self._damping, following),
                (self._stiffness, solver.stiffness),
                (self._largest, largest),
            ):
                variable.value.assign(value)
            self._steps.value.assign_add(1)
            return following

        shown = tf.cond(wanted, keep, lambda: damping)
        names = method.damping.state_names
        told = [shown if name == "damping" else value for name, value in zip(names, state.damping)]
        return State(tuple(told), state.scaling), report, tf.cast(report.cost, tf.float64)

    def _damping_now(self, curvature: list, sums_squares: bool) -> tuple[Tensor, Tensor]:
        """Return λ, and the largest mean of diag(JᵀJ) so far."""
        mean = tf.add_n([block.trace() for block in curvature]) / self._columns.total
        before = self._largest.value.read_value()
        largest, damping = tf.maximum(FORGETS_LARGEST * before, mean), self._damping.value.read_value()
        damping = tf.where(damping > 0, damping, mean)
        return damping if sums_squares else tf.maximum(damping, LEAST * largest), largest


def named(report: Report, method: Method, solver: Solver) -> Report:
    """Return the `Report` of a step by a `Solver`, as one of those that a `Method` may come to."""
    return report._replace(solver=tf.fill(tf.shape(report.solver), method.solver.names.index(solver.name)))


def _within(numbers: float, sides: list) -> list:
    """Return what `sides_of` returned for each variable, None for the largest until all have no more numbers."""
    kept, taken = list(sides), 0
    for k in sorted((k for k, form in enumerate(sides) if form), key=lambda k: numbers_of(sides[k])):
        taken += numbers_of(sides[k])
        kept[k] = sides[k] if taken <= numbers else None
    return kept


def numbers_of(form: tuple) -> int:
    """Return of how many numbers A, G and their inverses are, for what `sides_of` returned."""
    _, g, i, o = form
    return 2 * g * (i * i + o * o)


def _following(report: Report, allowed: Tensor) -> Tensor:
    """Return λ for the next step, from the `Report` of one of which the batch allowed the part α."""
    factor = tf.clip_by_value((WANTED_SHARE / tf.maximum(allowed, 1 / STIFFEST)) ** SPEED, 0.8, 1.25)
    return report.damping * tf.where(report.accepted, factor, 2 * tf.ones_like(factor))


class TwoDirections(Solver):
    """Steps in the plane of −Pg and the step before.

    Args:
        precondition: function from g `[p]` to Pg.
        diagonal: `[p]`, diag(JᵀJ), or what stands for it.
        last: `[p]`, δ.
        damping: scalar, λ of the first attempt.
        stiffness: scalar, κ of the batches before.
        kept: scalar, by what that fades.
        share: scalar, the part of the bound of α that is used.

    Attributes:
        stiffness: scalar, κ with the batch, once it is `prepare`d.
        allowed: scalar, the part of −Pg that the batch and κ allow.
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
        stiffness: Tensor,
        kept: Tensor,
        share: Tensor | float = 1.0,
    ) -> None:
        self._precondition, self._diagonal, self._last = precondition, diagonal, last
        self._damping, self._before, self._kept, self._share = damping, stiffness, kept, share

    def cost(self, sizes: ProblemSizes) -> Cost:
        """Return zeros: there is nothing to choose."""
        return Cost(0.0, 0.0, 0.0)

    def prepare(self, linearisation: LinearModel) -> System:
        """Take g, and products of J with both directions."""
        gradient = linearisation.gradient()
        directions = [-self._precondition(gradient), self._last]
        plane = _Plane(linearisation, gradient, self._diagonal, directions)
        stiffness = tf.math.divide_no_nan(plane.stiffness(self._damping), -plane.slopes[0])
        stiffness = tf.clip_by_value(tf.where(stiffness > 0, stiffness, STIFFEST), 0.0, STIFFEST)
        self.stiffness = self._kept * self._before + (1 - self._kept) * stiffness
        plane.most = tf.minimum(1 / self.stiffness, 1.0)
        self.allowed = tf.minimum(1 / stiffness, plane.most)
        plane.most *= self._share
        return plane


class _Plane(System):
    """The quadratic model of a batch in the plane of two directions.

    Args:
        linearisation: `LinearModel` of the batch.
        gradient, diagonal: `[p]`.
        directions: list of two vectors `[p]`.
    """

    most: tf.Tensor

    def __init__(
        self, linearisation: LinearModel, gradient: Tensor, diagonal: Tensor, directions: list[Tensor]
    ) -> None:
        self.gradient, self.diagonal, self._directions = gradient, diagonal, directions
        jacobian, prior = linearisation.jacobian, linearisation.prior
        images = [jacobian.matvec(each) for each in directions]
        rows, weighed = _products(images), _products(directions, [prior.precision * each for each in directions])
        self._curvature = rows if prior.is_zero else [one + two for one, two in zip(rows, weighed)]
        self._squares = _products(directions)
        self.slopes = [dot(gradient, each) for each in directions]

    def stiffness(self, damping: Tensor) -> Tensor:
        """Return the damped curvature along the first direction, a scalar."""
        return self._curvature[0] + damping * self._squares[0]

    def solver(self, scaling: Tensor) -> Solve:
        def solve(damping: Tensor, residual: Tensor | None = None) -> Solved:
            first, second = self._coordinates(damping)
            return finite_or_zeros(first * self._directions[0] + second * self._directions[1])

        return solve

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

    def quadratic(self, step: Tensor) -> Tensor:
        """Return pᵀ(JᵀJ + Λ)p of a step in the plane, a scalar: its coordinates follow from two products."""
        first, second, _ = _solved(self._squares, [dot(each, step) for each in self._directions])
        curvature = self._curvature
        return first**2 * curvature[0] + 2 * first * second * curvature[1] + second**2 * curvature[2]


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


class _Sides:
    """A `[g,i,i]` and G `[g,o,o]` of one weight, and their damped inverses.

    Attributes:
        numbers: how many are kept.
        operations: multiply-adds of a product with the inverses, and of the inverses, spread over the steps.
    """

    def __init__(self, add: Callable, name: str, form: tuple, dtype: tf.DType) -> None:
        self._layout, g, i, o = form
        self.numbers = numbers_of(form)
        self.operations = g * (i * i * o + i * o * o) + 4 * g * (i**3 + o**3) / (3 * REFRESHED)
        shapes = (g, i, i), (g, o, o)
        self._sides = [add(f"{which}_{name}", shape, dtype) for which, shape in zip(("inputs", "outputs"), shapes)]
        self._inverses = [
            add(f"{which}_{name}", shape, dtype) for which, shape in zip(("inverse_inputs", "inverse_outputs"), shapes)
        ]

    def averaged(self, factors: list, kept: Tensor) -> KroneckerBlock:
        """Return the `KroneckerBlock` with those of a batch."""
        block = KroneckerBlock.of(factors)
        old = [side.value.read_value() for side in self._sides]
        new = [kept * one + (1 - kept) * two for one, two in zip(old, (block.left, block.right))]
        return KroneckerBlock(new[0], new[1], self._layout)

    def inverses(self, block: KroneckerBlock, damping: Tensor, is_due: Tensor) -> list[Tensor]:
        """Return the inverses of a `KroneckerBlock`, or those of an earlier one unless `is_due`."""
        return tf.cond(
            is_due, lambda: block.inverses(damping), lambda: [side.value.read_value() for side in self._inverses]
        )

    def keep(self, block: KroneckerBlock, inverses: list[Tensor]) -> None:
        """Assign all."""
        for variable, value in zip((*self._sides, *self._inverses), (block.left, block.right, *inverses)):
            variable.value.assign(value)


class _Diagonal:
    """diag(JᵀJ) of one variable, `[size]`; attributes as of `_Sides`."""

    def __init__(self, add: Callable, name: str, size: int, dtype: tf.DType) -> None:
        self._diagonal, self.numbers, self.operations = add(f"diagonal_{name}", (size,), dtype), size, size

    def averaged(self, factors: list, kept: Tensor) -> DiagonalBlock:
        """Return the `DiagonalBlock` with that of a batch."""
        old = self._diagonal.value.read_value()
        return DiagonalBlock(kept * old + (1 - kept) * DiagonalBlock.of(factors).values if factors else old)

    def inverses(self, block: DiagonalBlock, damping: Tensor, is_due: Tensor) -> list[Tensor]:
        """Return the inverse of a `DiagonalBlock`."""
        return block.inverses(damping)

    def keep(self, block: DiagonalBlock, inverses: list[Tensor]) -> None:
        """Assign the diagonal."""
        self._diagonal.value.assign(block.values)
