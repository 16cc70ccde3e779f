"""The factor of a table whose rows are read by index: made of what is read, however large the table is."""

import typing
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from tfjac.graph import axes
from tfjac.linear.factors.forms import Factor
from tfjac.linear.shapes import Size, product, widened
from tfjac.types import Tensor


def row_grams(factors: "Sequence[GatherFactor]") -> Tensor:
    """Return JᵀJ of each row of a table, `[rows, o, o]`, of its `GatherFactor`s: n·m·t·o·(t + o) multiply-adds."""
    same = of_one_width(factors)
    assert same is not None  # those of others are no blocks of rows
    blocks = [tf.math.unsorted_segment_sum(_products(each), each.ids, each.rows) for each in same]
    return tf.add_n(blocks)


def _products(factor: "GatherFactor") -> Tensor:
    """d·dᵀ for each position `[n,t,o,o]`, with those of other positions that read the same row."""
    if factor.d.shape[2] == 1:
        return tf.einsum("nmto,nmtp->ntop", factor.d, factor.d)
    same = tf.cast(factor.ids[:, :, None] == factor.ids[:, None, :], factor.dtype)
    return tf.einsum("nmto,nmtp->ntop", factor.d, tf.einsum("nts,nmsp->nmtp", same, factor.d))


class GatherFactor(Factor):
    """J[n,m,(v,o)] = Σ_t [ids[n,t] = v] · d[n,m,t,o]: an embedding. Never densified before someone asks for rows.

    Args:
        ids: `[n,t]` integers in [0, rows).
        d: `[n,m,t,o]`, the cotangents of what was gathered.
        rows: number of rows of the table.
    """

    ids: tf.Tensor
    d: tf.Tensor
    rows: typing.Union[int, tf.Tensor]  # noqa: UP007 (TensorFlow reads the annotation, and knows no other form)

    def __init__(self, ids: Tensor, d: Tensor, rows: Size) -> None:
        self.ids, self.d, self.rows = ids, widened(d), rows

    @property
    def dtype(self) -> tf.DType:
        return self.d.dtype

    @property
    def num_columns(self) -> Size:
        return self.rows * axes(self.d)[3]

    def axes_of_tensors(self) -> tuple[str, ...]:
        return ("nt", "nmto", "") if tf.is_tensor(self.rows) else ("nt", "nmto")

    @property
    def has_outer_form(self) -> bool:
        return False

    def dense(self) -> Tensor:
        return self._summed_by_row(self.ids, self.rows)

    def _summed_by_row(self, ids: Tensor, rows: Size) -> Tensor:
        """Add up d over the positions with the same id: `[n,m,rows·o]`."""
        n, m, _, o = axes(self.d)
        segments = ids + rows * tf.range(n, dtype=ids.dtype)[:, None]
        d = tf.transpose(self.d, [0, 2, 1, 3])
        summed = tf.math.unsorted_segment_sum(d, segments, n * rows)
        return tf.reshape(tf.transpose(tf.reshape(summed, [n, rows, m, o]), [0, 2, 1, 3]), [n, m, rows * o])

    def matmul(self, x: Tensor) -> Tensor:
        table = tf.reshape(x, [self.rows, axes(self.d)[3], axes(x)[-1]])
        rows = tf.gather(table, self.ids)
        if rows.shape[3] == 1:
            return tf.reduce_sum(self.d * rows[:, None, :, :, 0], axis=[2, 3])[:, :, None]
        return tf.einsum("nmto,ntor->nmr", self.d, rows)

    def adjoint_matmul(self, u: Tensor) -> Tensor:
        if u.shape[2] == 1:  # a sum of products, rather than so many products of small matrices
            pulled = tf.reduce_sum(self.d * u[:, :, :, None], axis=1)[..., None]
        else:
            pulled = tf.einsum("nmto,nmr->ntor", self.d, u)
        summed = tf.math.unsorted_segment_sum(pulled, self.ids, self.rows)
        return tf.reshape(summed, [self.num_columns, axes(u)[-1]])

    def kernel(self) -> Tensor:
        """Through the rows that occur in the batch: n²·m²·min(rows, n·t)·o multiply-adds."""
        n, m, *_ = axes(self.d)
        block = tf.reshape(of_rows_that_occur([self])[0].dense(), [n * m, -1])
        return tf.matmul(block, block, transpose_b=True)

    def squared_row_norms(self) -> Tensor:
        """Σ over pairs of positions with the same id of their products: n·m·t²·o multiply-adds."""
        same = tf.cast(self.ids[:, :, None] == self.ids[:, None, :], self.d.dtype)
        return tf.reduce_sum(tf.einsum("nts,nmso->nmto", same, self.d) * self.d, axis=[2, 3])

    def squared_column_norms(self) -> Tensor:
        """Σ over n, m of (Σ_t [ids = v] d)²: pairs of positions with the same id, summed into the row they share."""
        if self.ids.shape[1] == 1:
            products = tf.reduce_sum(tf.square(self.d), axis=1)
        else:
            same = tf.cast(self.ids[:, :, None] == self.ids[:, None, :], self.d.dtype)
            products = tf.reduce_sum(tf.einsum("nts,nmso->nmto", same, self.d) * self.d, axis=1)
        return tf.reshape(tf.math.unsorted_segment_sum(products, self.ids, self.rows), [-1])

    def scaled(self, scale: Any) -> "GatherFactor":
        return GatherFactor(self.ids, self.d * scale, self.rows)

    def joined(self, *others: "GatherFactor") -> "GatherFactor | None":
        alike = of_one_width([self, *others])
        if alike is None:
            return None
        ids, d = zip(*((factor.ids, factor.d) for factor in alike))
        return GatherFactor(tf.concat(ids, 1), tf.concat(d, 2), alike[0].rows)

    def in_rows_of(self, width: int) -> "GatherFactor":
        """Return the same factor of the table cut into rows of `width` columns, a multiple of what it has now."""
        _, _, _, o = axes(self.d)
        if width == o:
            return self
        places = tf.one_hot(self.ids % (width // o), width // o, dtype=self.dtype)
        d = tf.einsum("nmto,ntk->nmtko", self.d, places)
        d = tf.reshape(d, [*axes(self.d)[:3], width])
        return GatherFactor(self.ids // (width // o), d, self.rows * o // width)


def of_one_width(factors: "Sequence[GatherFactor]") -> "Sequence[GatherFactor] | None":
    """Return the factors of one table with rows of the same width, the largest of theirs; None where none fits all.

    A variable that is read as it is, and reshaped as well, is one table in two layouts.
    """
    widths = {factor.d.shape[3] for factor in factors}
    if len(widths) == 1:
        return factors
    if None in widths or 0 in widths or any(max(widths) % width for width in widths):
        return None
    if any(isinstance(factor.rows, int) and factor.rows * factor.d.shape[3] % max(widths) for factor in factors):
        return None
    return [factor.in_rows_of(max(widths)) for factor in factors]


def of_rows_that_occur(factors: "Sequence[GatherFactor]") -> "Sequence[GatherFactor]":
    """Return factors of one table as those of one with fewer rows, the ones that any of them reads.

    Their products with one another are the same. Where so many may be read as the table has, they stay as they are.
    """
    sizes = [axes(factor.ids) for factor in factors]
    numbers = [product(size) for size in sizes]
    if not all(isinstance(number, int) for number in numbers) or sum(numbers) >= factors[0].rows:
        return factors
    ranks = tf.split(_ranks(tf.concat([tf.reshape(factor.ids, [-1]) for factor in factors], 0)), numbers)
    parts = zip(factors, ranks, sizes)
    return [GatherFactor(tf.reshape(ids, size), factor.d, sum(numbers)) for factor, ids, size in parts]


def _ranks(ids: Tensor) -> Tensor:
    """Renumber `ids` `[number]` to the rank of each among the different ids that occur (tf.unique, for XLA too)."""
    order = tf.argsort(ids)
    ordered = tf.gather(ids, order)
    ranks = tf.cumsum(tf.concat([[0], tf.cast(ordered[1:] != ordered[:-1], ids.dtype)], 0)[: tf.size(ids)])
    return tf.scatter_nd(order[:, None], ranks, tf.shape(ids))
