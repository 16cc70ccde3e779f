"""Kronecker factors as a memory, for networks of any size: A ⊗ G of each weight, averaged over batches.

Of each weight that multiplies data, A = mean a aᵀ and G = Σ d dᵀ are kept, which fade by β with each batch (K-FAC,
Martens & Grosse 2015; convolutions, Grosse & Martens 2016). Batches count for what their loss is the mean of. d is that
of one random combination of the outputs of each example: the mean of d dᵀ over the signs is that of all outputs. Of a
table that is read by index A is diagonal. Of what has no such factors, diag(JᵀJ) is kept. All is renewed with each of
the first batches, and with every fifth one from then on. With P the inverse of all that, damped by λ, and δ the step
before, a step is

    p = −αPg + μδ

in which α and μ minimise the quadratic model of the batch. Where data are new with each step, its curvature is that of
the combinations that are drawn; else products J·v are exact. Four rules make it sound where batches are small. They
were chosen by trials on digits, tables, and an autoencoder, with batches of 8 to 256; see
`docs/explanation/memory_of_mini_batches.md`.

*How far.* α is no more than 1/κ. κ is a mean over batches: the curvature of the batch along Pg over that of what is
kept. A batch whose predictions are certain has next to no curvature. So it does not tell how far it is safe to go.
Most of κ is noise: Pg lies along what the examples of the batch say, and the fewer they are, the larger is their
curvature along it. So of batches that count for less than the mean, κ is larger in proportion, and α no more than that
part of 1/κ.

*How soon.* What one batch of a new network says is noise for the most part, and units of `relu` that a step of full
length makes zero for all examples stay so. So the bound of α begins at a tenth, and grows to its full size with the
first 2,400 examples.

*How long.* Steps of one length never come to rest where losses have noise. So the bound of α falls with one over the
number of steps while the losses of batches before their steps hardly fall, see `paced`. A schedule takes its place.

*How much damping.* λ follows α: with too little damping, what is kept is wrong about directions that few examples have
shown, and the batch allows a small part of Pg alone. λ changes with each step until that part is 1/50, or less of
many variables, and is no less than a thousandth of the largest mean of diag(JᵀJ).
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import tensorflow as tf

from tfjac.drive.streamed.kept_factors import REFRESHED, KeptDiagonal, KeptFactors, within
from tfjac.drive.streamed.recalling import LinearisedObjective, News, all_finite
from tfjac.drive.streamed.two_directions import TwoDirections
from tfjac.graph import cond, eager_creation, replay
from tfjac.linear.columns import Columns
from tfjac.linear.contracts import LinearModel
from tfjac.linear.factors.kronecker_block import form_of, inverses_of
from tfjac.linear.model import num_examples
from tfjac.linear.solvers import ConjugateGradientSolver
from tfjac.linear.solvers.base import Cost, Solver, zeros_unless
from tfjac.linear.solvers.plan import Plan
from tfjac.linear.solvers.problem_sizes import ProblemSizes
from tfjac.steps.damping import NielsenDamping
from tfjac.steps.method import Method
from tfjac.steps.objective import SummedObjective
from tfjac.steps.records import Report, State
from tfjac.steps.statuses import Status
from tfjac.steps.step import Restrictions, take_step
from tfjac.types import Tensor

KEPT = 0.95
"""β."""

SOON = 20
"""After so many steps what is kept is renewed with every batch, and then each `REFRESHED` steps."""

WANTED, WANTED_OF_ALL, SPEED = 0.02, 0.12, 0.1
"""The α that λ is led to; the same times the number of variables, from six on; by which power of its distance.

With each step λ changes by a quarter at most. The blocks of k variables leave out what these have in common: JᵀJ may be
k times what they say.
"""

LEAST, LEAST_OF_SQUARES = 6.0, 1e-3
"""λ is no less than so many times the largest mean of diag(JᵀJ), and that α if a loss is no sum of squares."""

FORGETS_LARGEST = 0.9999
"""By what that largest mean fades with each step."""

SHORT, ENOUGH = 0.1, 2400
"""The part of the bound of α at first, and the examples by which it has grown to all of it."""

LATEST, ENOUGH_FALL, LEVEL, SLOWEST = 4.0, 2.0, 500, 0.1
"""Losses are averaged over about one in so many of the steps. Those that fall faster than by the power one over the
second of the number of steps need no shorter ones. The third: after so many steps the pace is a half, if no loss falls.
The pace is no less than the fourth, as other data may come some day.
"""

KEPT_OF_STIFFNESS = 0.8
"""By what κ fades: λ follows it, and so overshoots where κ is slow."""

LIVE = 2
"""What is kept is held so many times while a step is taken: as it was, and as it will be."""


class KroneckerMemory:
    """A and G of each weight, their inverses, and the step before.

    Args:
        add: function from a name, a shape and a dtype to a new variable of the optimizer.
        columns: `Columns` of the parameters.
        dtype: of all that is kept.
        forms: list of what `form_of` returns for each variable.
        share: function without arguments that returns the part of the bounds of α that is used, or None.
    """

    what = "Kronecker factors of JᵀJ"

    def __init__(
        self, add: Callable, columns: Columns, dtype: tf.DType, forms: list, share: Callable | None = None
    ) -> None:
        self._columns, self.dtype, self._share = columns, dtype, share
        self._parts: list[Any] = [
            KeptDiagonal(add, f"{k}", size, dtype) if form is None else KeptFactors(add, f"{k}", form, dtype)
            for k, (form, size) in enumerate(zip(forms, columns.sizes))
        ]
        self._wanted = min(WANTED, WANTED_OF_ALL / len(self._parts))
        self._last = add("last_step", (columns.total,), dtype)
        self._damping, self._stiffness, self._largest = (
            add(name, (), dtype) for name in ("damping_of_factors", "stiffness", "largest_curvature")
        )
        self._steps = add("steps_with_factors", (), "int64")
        self._examples = add("examples_with_factors", (), "float64")
        self._weight = add("weight_of_batches", (), dtype)
        self._pace = add("mean_losses_and_pace", (3,), dtype)

    @classmethod
    def of(
        cls, add: Callable, columns: Columns, batch: LinearModel, budget: float, share: Callable | None
    ) -> "KroneckerMemory":
        """Return the memory for batches like the first one, a `LinearModel` with drawn rows, within so many bytes."""
        forms = [form_of(factors) for factors in batch.jacobian.factors()]
        with eager_creation():
            return cls(add, columns, batch.dtype, within(budget / (LIVE * batch.dtype.size), forms), share)

    def plan(self, sizes: ProblemSizes) -> Plan:
        """Return the `Plan` of steps on batches of `ProblemSizes`; of operations, those that do not grow with them."""
        with_factors = sum(isinstance(part, KeptFactors) for part in self._parts)
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
        objective: SummedObjective,
        batch: LinearModel,
        state: State,
        method: Method,
        restrictions: Restrictions,
        weight: Tensor,
        news: News,
    ) -> tuple[State, Report, Tensor]:
        """Take a step, remember the batch, and return the `State`, the `Report`, and the loss of the batch after it.

        Args:
            objective: `SummedObjective` of the batch, which adds up squares or other convex functions.
            batch: its `LinearModel`, with drawn rows.
            state: a `State`; method: a `Method`.
            restrictions: `Restrictions`, of which bounds are known.
            weight: scalar, what the batch counts for; with zero it is not remembered.
            news: `News`; if the variables were moved, all begins again. With `streams`, if data are not new, nothing is
                recalled nor remembered, and the step is one of conjugate gradients, damped as `state` says, by
                Nielsen's rule. What depends on the number of the step in `batch` runs where it is due.
        """
        stayed, streams, is_new = news.stayed, news.streams, news.are_new
        steps, seen = (
            tf.where(stayed, each.value.value(), tf.zeros([], each.dtype)) for each in (self._steps, self._examples)
        )
        examples = tf.cast(num_examples(batch, objective.num_parts), tf.float64)
        share = tf.cast(tf.minimum(SHORT + (1 - SHORT) * seen / ENOUGH, 1.0), self.dtype)
        begun = tf.cast(steps, self.dtype)
        loss = tf.cast(objective.cost, self.dtype) / tf.cast(weight, self.dtype)
        pace = paced(self._pace.value.value(), loss, begun)
        share *= pace[2] if self._share is None else tf.clip_by_value(tf.cast(self._share(), self.dtype), 0, 1)
        is_due = tf.equal(steps % REFRESHED, 0) | (steps < SOON) | ~is_new
        kept, weight_of_all = self._share_of_earlier(begun / (begun + 1), weight)
        weight_of_all = tf.where(is_due, weight_of_all, self._weight.value.value())
        kept = zeros_unless(is_new, kept)
        factors, sizes = batch.jacobian.factors(), self._columns.sizes
        damping_of = partial(self._damping_now, objective.sums_squares, stayed)

        def masses(damping: Tensor) -> list[Tensor]:
            if streams is None:
                return [damping] * len(sizes)
            used = tf.where(streams | (state.damping[0] <= 0), damping, state.damping[0])
            return tf.split(used + zeros_unless(~streams, batch.prior.precision), sizes)

        sides, inverses, damping, largest, is_finite = cond(
            is_due,
            lambda: self._renewed(
                factors if streams is None else replayed(factors, news.steps), kept, masses, damping_of
            ),
            lambda: self._as_kept(damping_of),
        )
        curvature = [part.block(each) for part, each in zip(self._parts, sides)]
        growth = 2 * tf.ones_like(damping)
        if streams is not None:
            before, growing = state.damping
            damping = tf.where(streams | (before <= 0), damping, before)
            growth = tf.where(streams, growth, tf.maximum(growth, growing))

        def precondition(gradient: Tensor) -> Tensor:
            pairs = zip(curvature, inverses, tf.split(gradient, sizes))
            return tf.concat([block.multiplied(inverse, each) for block, inverse, each in pairs], axis=0)

        diagonal = tf.concat([block.diagonal() for block in curvature], axis=0)
        last = self._last.value.value() * tf.cast(stayed, self.dtype)
        part = tf.minimum(tf.math.divide_no_nan(tf.cast(weight, self.dtype), weight_of_all), 1.0)
        fades = tf.minimum(kept, KEPT_OF_STIFFNESS)
        stiffness = fades * self._stiffness.value.value(), (1 - fades) * part
        solver = TwoDirections(precondition, diagonal, last, damping, *stiffness, share * part, streams)
        rule = NielsenDamping() if streams is None else method.damping
        with_factors = method._replace(solver=solver, damping=rule, acceleration=None, gram_dtype=None, max_attempts=1)
        start = State((damping, growth), state.scaling)
        before = objective.position(objective.values())
        step = take_step(LinearisedObjective(objective, batch), start, with_factors, restrictions)
        report = named(step.report, method, solver)
        if streams is not None:
            iterated = named(report, method, ConjugateGradientSolver())
            report = report._replace(solver=tf.where(streams, report.solver, iterated.solver))
        moved = objective.position(objective.values()) - before
        idle = [int(Status.NOT_FINITE), int(Status.GRADIENT_TOLERANCE)]
        is_idle = tf.reduce_any([tf.equal(report.status, status) for status in idle])
        rests = tf.equal(share, 0) & is_new & ~report.accepted & ~is_idle
        report = report._replace(status=tf.where(rests, int(Status.ZERO_LEARNING_RATE), report.status))
        wanted = is_new & (weight > 0) & ~is_idle
        wanted &= is_finite & tf.math.is_finite(solver.stiffness)
        following = tf.where(rests, damping, _following(report, solver.allowed / (part * self._wanted)))

        values = moved, following, solver.stiffness, largest, pace, weight_of_all, steps + 1, seen + examples
        shown = cond(wanted, lambda: self._keep(is_due, sides, inverses, values), lambda: damping)
        names = method.damping.state_names
        told = [shown if name == "damping" else value for name, value in zip(names, state.damping)]
        if streams is not None:
            told = [tf.where(streams, one, other) for one, other in zip(told, step.state.damping)]
        return State(tuple(told), state.scaling), report, tf.cast(report.cost, tf.float64)

    def _renewed(self, factors: list, kept: Tensor, masses: Callable, damping_of: Callable) -> list[Any]:
        """Return sides and inverses with those of a batch, λ, the largest mean, and whether all of these are finite.

        Args:
            factors: for each variable a list of `Factor`.
            kept: scalar, the share of earlier batches.
            masses: function from λ to what is added to each block.
            damping_of: function from the mean of diag(JᵀJ) to λ and the largest mean so far.
        """
        shares = kept, 1 - kept
        blocks = [part.averaged(each, shares) for part, each in zip(self._parts, factors)]
        mean = tf.add_n([block.trace() for block in blocks]) / self._columns.total
        damping, largest = damping_of(mean)
        sides = [part.sides(block) for part, block in zip(self._parts, blocks)]
        inverses = inverses_of(blocks, masses(damping))
        return [sides, inverses, damping, largest, all_finite(mean, *tf.nest.flatten(inverses))]

    def _as_kept(self, damping_of: Callable) -> list[Any]:
        """Return the same as it was kept, which is finite."""
        damping, largest = damping_of(None)
        sides = [part.kept_sides() for part in self._parts]
        return [sides, [part.kept_inverses(damping) for part in self._parts], damping, largest, tf.constant(True)]

    def _keep(self, is_due: Tensor, sides: list, inverses: list, values: tuple) -> Tensor:
        """Assign what is to be kept, sides and inverses where they are new; return λ."""

        def keep_factors() -> Tensor:
            for part, block, inverse in zip(self._parts, sides, inverses):
                part.keep(block, inverse)
            return is_due

        cond(is_due, keep_factors, lambda: is_due)
        kept = self._last, self._damping, self._stiffness, self._largest, self._pace
        for variable, value in zip((*kept, self._weight, self._steps, self._examples), values):
            variable.value.assign(value)
        _, damping, *_ = values
        return damping

    def _share_of_earlier(self, of_alike: Tensor, weight: Any) -> tuple[Tensor, Tensor]:
        """Return the share of earlier batches in what is kept, beside one of a weight, and the mean of weights.

        Of batches that count alike, that share is no more than β.
        """
        of_alike = tf.minimum(tf.constant(KEPT, self.dtype), of_alike)
        earlier = of_alike * self._weight.value.value()
        mean = earlier + (1 - of_alike) * tf.cast(weight, self.dtype)
        return tf.math.divide_no_nan(earlier, mean), mean

    def _damping_now(self, sums_squares: bool, stayed: Tensor, mean: Tensor | None) -> tuple[Tensor, Tensor]:
        """Return λ, and the largest mean of diag(JᵀJ) so far, given the mean, or None where it is not known."""
        before, damping = (each.value.value() * tf.cast(stayed, self.dtype) for each in (self._largest, self._damping))
        largest = FORGETS_LARGEST * before
        if mean is not None:
            largest = tf.maximum(largest, mean)
            damping = tf.where(damping > 0, damping, mean)
        least = LEAST_OF_SQUARES if sums_squares else LEAST * self._wanted
        return tf.maximum(damping, least * largest), largest


def paced(kept: Tensor, loss: Tensor, steps: Tensor) -> Tensor:
    """Return `[3]`: two mean losses, and the pace, which falls while losses do not.

    Losses are those of batches before their steps, as no step has seen these. Where they fall as t⁻ᵖ with the number of
    steps t, a mean over the latest of them, with the weight k/t for each one that comes, is k/(k − p) times the last
    one. So means with two such k say what p is, whatever the unit of the loss. If p is small, losses are noise for the
    most part, and the pace falls with 1/t.

    Args:
        kept: `[3]`, the same of the step before; zeros for the first one.
        loss: scalar, that of the batch before the step.
        steps: scalar, how many there were before.
    """
    latest, later, pace = tf.unstack(kept)
    loss = tf.where(tf.math.is_finite(loss), loss, latest)
    latest += tf.minimum(LATEST / (steps + 1), 1.0) * (loss - latest)
    later += tf.minimum(LATEST / 2 / (steps + 1), 1.0) * (loss - later)
    power = LATEST * tf.math.divide_no_nan(later - latest, tf.abs(2 * later - latest))
    falls = tf.clip_by_value(1 - ENOUGH_FALL * power, 0.0, 1.0) / (steps + LEVEL)
    return tf.stack([latest, later, tf.where(steps > 0, tf.maximum(pace * (1 - falls), SLOWEST), 1.0)])


def named(report: Report, method: Method, solver: Solver) -> Report:
    """Return the `Report` of a step by a `Solver`, as one of those that a `Method` may come to."""
    return report._replace(solver=tf.fill(tf.shape(report.solver), method.solver.names.index(solver.name)))


def _following(report: Report, allowed: Tensor) -> Tensor:
    """Return λ for the next step, from the `Report` of one of which the batch allowed so many times the wanted α."""
    factor = tf.clip_by_value(allowed**-SPEED, 0.8, 1.25)
    return report.damping * tf.where(report.accepted, factor, 2 * tf.ones_like(factor))


def replayed(factors: list, number: Tensor) -> list:
    """Return factors, computed again in the graph being traced as far as they depend on the number of the step."""
    flat = tf.nest.flatten(factors, expand_composites=True)
    return tf.nest.pack_sequence_as(factors, replay(flat, [(number, number)]), expand_composites=True)
