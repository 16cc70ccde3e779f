"""All fits to their ends, so many at a time.

Fits that have ended make place for the next ones, as soon as a quarter of those under way have; so hardly any work is
done for nothing. Where there are no next ones the pool shrinks, as soon as an eighth of its places is enough, unless
the number of fits must stay what it is.
"""

from collections.abc import Iterable
from typing import NamedTuple

import tensorflow as tf

from tfjac.drive.many_fits.fit_objective import FitObjective, Linearised
from tfjac.drive.many_fits.fits import Fits, attempt
from tfjac.graph import Packing, while_loop
from tfjac.linear import arrays
from tfjac.steps.conditions import Box
from tfjac.steps.converge import Tolerances
from tfjac.steps.method import Method
from tfjac.steps.records import Outcome
from tfjac.types import Tensor

_SHRINKS_BY = 8


class Found(NamedTuple):
    """What fits came to, tensors with a row for each.

    Attributes:
        values: `[B, p]`, their parameters.
        outcome: an `Outcome` without `x`.
        shares: `[B, p]`, `shares_of` there.
        vanished: `[B, p]`, bool: which columns of J have vanished at a minimum; an empty tuple where that is not known.
    """

    values: tf.Tensor
    outcome: Outcome
    shares: tf.Tensor
    vanished: tf.Tensor | tuple[()] = ()


class FitData(NamedTuple):
    """The data of all fits.

    Attributes:
        tensors: list of tensors.
        own: for each of these whether it has a row for each fit, rather than being shared.
    """

    tensors: list
    own: list

    def rows(self, index: Tensor) -> list[Tensor]:
        """Return the rows of some fits of what is each fit's own, a list of tensors."""
        return [tf.gather(given, index) for given, its_own in zip(self.tensors, self.own) if its_own]

    def among_shared(self, rows: Iterable[Tensor]) -> list[Tensor]:
        """Return all data of the fits that `rows` belong to, what is shared among them."""
        rows = iter(rows)
        return [next(rows) if its_own else given for given, its_own in zip(self.tensors, self.own)]

    def of(self, index: Tensor) -> "FitData":
        """Return the `FitData` of some fits alone."""
        return self._replace(tensors=self.among_shared(self.rows(index)))


class Pool:
    """Fits to be minimised.

    Args:
        values: `[B, p]`, where fits start; B may be open where `shrinks`.
        box: a `Box` of `[B, p]`, or an empty tuple.
        shrinks: whether the number of fits under way may change.
    """

    def __init__(
        self, objective: FitObjective, data: FitData, values: Tensor, box: Box | tuple[()], shrinks: bool
    ) -> None:
        self._objective, self._data = objective, data
        self._values, self._box, self._shrinks = values, box, shrinks
        self._count = num_fits(values)

    def minimise(self, at_once: int | Tensor, method: Method, limits: Tolerances, max_steps: Tensor) -> Found:
        """Return what all fits `Found`.

        Args:
            at_once: how many of them are under way, an integer or a scalar tensor.
            max_steps: scalar int32.
        """
        names, index = method.damping.state_names, tf.range(at_once)
        fits, nothing = self._begun(index, names), self._nothing()
        rows, ends = Packing(fits, rank=1), Packing(nothing, rank=1)

        def busy(fits: Fits, begun: Tensor) -> Tensor:
            size = tf.size(fits.index)
            fewer = size // _SHRINKS_BY if self._shrinks else 0
            most = tf.where(begun < self._count, 3 * size // 4, fewer)
            return tf.math.count_nonzero(fits.running, dtype=tf.int32) > most

        def until_some_end(packed: list[Tensor], begun: Tensor) -> list[Tensor]:
            def one_more(*packed: Tensor) -> list[Tensor]:
                return rows.pack(attempt(rows.unpack(packed), self._linearise, method, limits, max_steps))

            return while_loop(lambda *packed: busy(rows.unpack(packed), begun), one_more, packed)

        def some_left(packed: list[Tensor], begun: Tensor, found: list[Tensor]) -> Tensor:
            return tf.reduce_any(rows.unpack(packed).running)

        def next_round(packed: list[Tensor], begun: Tensor, found: list[Tensor]) -> tuple[list, Tensor, list]:
            packed = until_some_end(packed, begun)
            fits = rows.unpack(packed)
            found = _noted(found, fits, ends.pack(_outcomes_of(fits)))
            next_ones, begun = self._next_ones(fits, begun, names)
            packed = arrays.choice(~fits.running, rows.pack(next_ones), packed)
            if self._shrinks:
                left = self._places_left(rows.unpack(packed).running, begun)
                packed = [tf.gather(each, left) for each in packed]
            return packed, begun, found

        start = rows.pack(fits), tf.convert_to_tensor(at_once), ends.pack(nothing)
        shapes = tf.nest.map_structure(lambda each: each.shape, start)
        if self._shrinks:
            of_fits, _, of_found = tf.nest.map_structure(_of_any_rows, (start[0], (), start[2]))
            shapes = of_fits, shapes[1], of_found
        *_, found = while_loop(some_left, next_round, start, optimizes=False, shape_invariants=shapes)
        return ends.unpack([each[: self._count] for each in found])

    def _linearise(self, values: Tensor, own: list[Tensor], unit: Tensor, fresh: Tensor) -> tuple[Linearised, Tensor]:
        return self._objective.linearise(values, self._data.among_shared(own), unit, fresh)

    def _begun(self, index: Tensor, names: tuple[str, ...]) -> Fits:
        """Return `Fits` that begin; of those with an index that there is no fit for, nothing is asked."""
        row = tf.minimum(index, self._count - 1)
        box = self._box and Box(*(tf.gather(side, row) for side in self._box))
        return Fits.begun(index, tf.gather(self._values, row), self._data.rows(row), box, names, index < self._count)

    def _next_ones(self, fits: Fits, begun: Tensor, names: tuple[str, ...]) -> tuple[Fits, Tensor]:
        """Return the fits that come in the places of those that have ended, and how many have begun then."""
        ended = ~fits.running
        next_ones = begun - 1 + tf.cumsum(tf.cast(ended, tf.int32))
        index = tf.where(ended, tf.minimum(next_ones, self._count), fits.index)
        return self._begun(index, names), tf.minimum(next_ones[-1] + 1, self._count)

    def _places_left(self, running: Tensor, begun: Tensor) -> Tensor:
        """Return the places to go on with: all, or those of fits that are running, with as few others as may be."""
        size, number = tf.size(running), tf.math.count_nonzero(running, dtype=tf.int32)
        enough = tf.maximum(size // _SHRINKS_BY, 1)
        shrinks = (begun >= self._count) & (number <= enough)
        first = tf.argsort(tf.cast(~running, tf.int32), stable=True)
        return tf.where(shrinks, first, tf.range(size))[: tf.where(shrinks, enough, size)]

    def _nothing(self) -> Found:
        """Return a `Found` of zeros with one row more than there are fits."""
        real, number = tf.zeros([self._count + 1], self._values.dtype), tf.zeros([self._count + 1], tf.int32)
        outcome = Outcome._make([(), real, real, *[number] * 4, real])
        vectors = tf.zeros([self._count + 1, self._values.shape[1]], self._values.dtype)
        return Found(vectors, outcome, vectors)


def num_fits(values: Tensor) -> int | Tensor:
    """Return how many rows there are, an integer, or where that is open a scalar tensor."""
    return tf.shape(values)[0] if values.shape[0] is None else values.shape[0]


def at_most(count: int | Tensor, limit: int) -> int | Tensor:
    """Return the lesser of a number of fits, an integer or a scalar tensor, and an integer."""
    return tf.minimum(count, limit) if tf.is_tensor(count) else min(count, limit)


def _of_any_rows(tensor: Tensor) -> tf.TensorShape:
    return tf.TensorShape([None, *tensor.shape[1:]])


def _outcomes_of(fits: Fits) -> Found:
    outcome = fits.outcome._replace(cost=fits.here.cost, gradient_norm=fits.gradient_norm)
    return Found(fits.values, outcome.in_units(fits.unit), fits.shares)


def _noted(found: list[Tensor], fits: Fits, now: list[Tensor]) -> list[Tensor]:
    """Return `found` with the rows of the fits that have ended; of others, and of places without a fit, nothing."""
    rows = tf.where(fits.running, tf.shape(found[0])[0] - 1, fits.index)[:, None]
    return [tf.tensor_scatter_nd_update(old, rows, new) for old, new in zip(found, now)]
