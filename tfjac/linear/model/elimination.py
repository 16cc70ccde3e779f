"""Variables whose rows do not meet in JᵀJ: each example reads a single one of them, by its index.

Such a variable, as the points of a bundle adjustment are, can be eliminated from the normal equations row by row. Which
one it is, is read off the factors: those of gathers say which rows an example reads.
"""

import typing
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from tfjac import ops
from tfjac.graph import axes
from tfjac.linear.contracts import JacobianRows, LinearModel
from tfjac.linear.factors.gather_factor import GatherFactor, of_one_width
from tfjac.linear.factors.sparse_rows import SparseRows, side_by_side, sparse_rows
from tfjac.types import Tensor

WIDEST = 32
"""Columns of a row that is eliminated: systems of so few unknowns are solved side by side."""


def is_read_by_rows(factors: Sequence[Any]) -> bool:
    """Whether all factors are those of one table that is read by index, of few columns."""
    if not factors or not all(isinstance(factor, GatherFactor) for factor in factors):
        return False
    narrow = {factor.d.shape[3] for factor in factors} <= set(range(1, WIDEST + 1))
    return narrow and isinstance(factors[0].rows, int) and of_one_width(factors) is not None


class Elimination(typing.NamedTuple):
    """A variable that can be eliminated.

    Attributes:
        index: its place among the variables.
        rows, width: its shape as a table, integers.
        first: its first column.
        remaining: how many columns the other variables have.
    """

    index: int  # type: ignore[assignment]
    rows: int
    width: int
    first: int
    remaining: int

    @classmethod
    def of(cls, jacobian: JacobianRows) -> "Elimination | None":
        """Return the `Elimination` of the largest such variable of a `StackedJacobian`; None where there is none."""
        factors, sizes = jacobian.factors(), jacobian.columns.sizes
        possible = [index for index, own in enumerate(factors) if own and _one_row_each(own)]
        if not possible or not all(_touches_a_known_number(each) for of_variable in factors for each in of_variable):
            return None
        index = max(possible, key=sizes.__getitem__)
        width = factors[index][0].d.shape[3]
        return cls(index, sizes[index] // width, width, sum(sizes[:index]), sum(sizes) - sizes[index])

    def split(self, vector: Tensor) -> tuple[Tensor, Tensor]:
        """Return the parts of a vector `[p]`: `[remaining]`, and `[rows, width]` of the variable."""
        sizes = [self.first, self.rows * self.width, self.remaining - self.first]
        before, own, after = tf.split(vector, sizes)
        return tf.concat([before, after], axis=0), tf.reshape(own, [self.rows, self.width])

    def join(self, others: Tensor, own: Tensor) -> Tensor:
        """Return the vector `[p]` of these parts."""
        return tf.concat([others[: self.first], tf.reshape(own, [-1]), others[self.first :]], axis=0)


class Touched(typing.NamedTuple):
    """J by what each example touches.

    Attributes:
        values, columns: `[n,m,k]` and `[n,k]`, see `SparseRows`, of the variables that stay, numbered without it.
        block: `[n,m,width]`, of the row of the one that is eliminated.
        row: `[n]`, int32, which row that is; −1 where none.
    """

    values: tf.Tensor
    columns: tf.Tensor
    block: tf.Tensor
    row: tf.Tensor

    @classmethod
    def of(cls, linearisation: LinearModel, elimination: Elimination) -> "Touched":
        """Return that of a `Linearisation`, the examples of its blocks one after the other, padded with zeros."""
        jacobian = linearisation.jacobian
        blocks = [_of_block(each.factors, jacobian.columns.sizes, elimination) for each in jacobian.operators]
        parts = [block for block in blocks if block is not None]
        outputs = tf.reduce_max([tf.shape(part.values)[1] for part in parts])
        width = max(part.columns.shape[1] for part in parts)
        values, columns, block, row = parts[0] if len(parts) == 1 else _stacked(parts, outputs, width)
        free = linearisation.only_free(tf.ones([linearisation.num_parameters], linearisation.dtype))
        others, own = elimination.split(free)
        values = values * tf.gather(others, columns)[:, None]
        return cls(values, columns, block * tf.gather(own, tf.maximum(row, 0))[:, None], row)

    def own_gram(self, elimination: Elimination) -> Tensor:
        """Return JᵀJ of the variable that is eliminated, `[rows, width, width]`."""
        products, _ = ops.example_grams(self.block, tf.zeros(tf.shape(self.block)[:2], self.block.dtype))
        return tf.math.unsorted_segment_sum(products, self.row, elimination.rows)

    def coupling(self, others: Tensor, elimination: Elimination) -> Tensor:
        """Return J_ownᵀ J_others v, `[rows, width]`, for a vector `[remaining]`."""
        image = tf.reduce_sum(self.values * tf.gather(others, self.columns)[:, None], axis=2, keepdims=True)
        return tf.math.unsorted_segment_sum(tf.reduce_sum(self.block * image, axis=1), self.row, elimination.rows)


def _of_block(factors: list, sizes: list[int], elimination: Elimination) -> Touched | None:
    """Return what the examples of one block of residuals touch; None for nothing."""
    others, own, first = [], None, 0
    for index, (factor, size) in enumerate(zip(factors, sizes)):
        if index == elimination.index:
            own = factor
            continue
        if factor is not None:
            others.append(sparse_rows(factor, first))
        first += size
    if own is None and not others:
        return None
    n, m, *_ = axes(others[0].values if own is None else own.d)
    dtype = next(factor.dtype for factor in factors if factor is not None)
    none = SparseRows(tf.zeros([n, 0], tf.int32), tf.zeros([n, m, 0], dtype))
    columns, values = side_by_side([none, *others])
    if own is None:
        return Touched(values, columns, tf.zeros([n, m, elimination.width], dtype), tf.fill([n], -1))
    return Touched(values, columns, own.d[:, :, 0], own.ids[:, 0])


def _stacked(parts: list[Touched], outputs: Tensor, width: int) -> list[Tensor]:
    """Return the examples of all parts, with zeros up to so many residuals of each, and columns that it touches."""

    def padded(tensor: Tensor, *sizes: int | Tensor) -> Tensor:
        more = [[0, 0], *([0, size - now] for size, now in zip(sizes, axes(tensor)[1:]))]
        return tf.pad(tensor, more)

    values = [padded(part.values, outputs, width) for part in parts]
    columns = [padded(part.columns, width) for part in parts]
    block = [padded(part.block, outputs, part.block.shape[2]) for part in parts]
    return [tf.concat(each, axis=0) for each in (values, columns, block, [part.row for part in parts])]


def _one_row_each(factors: list) -> bool:
    """Whether in all blocks of residuals each example reads one row of the table, which is the same table to all."""
    return all(map(_one_row, factors)) and len({factor.d.shape[3] for factor in factors}) == 1


def _one_row(factor: Any) -> bool:
    """Whether each example reads one row of a table of few columns."""
    if not isinstance(factor, GatherFactor) or tf.is_tensor(factor.rows):
        return False
    return factor.d.shape[2] == 1 and 0 < (factor.d.shape[3] or 0) <= WIDEST


def _touches_a_known_number(factor: Any) -> bool:
    sizes = factor.d.shape[2:] if isinstance(factor, GatherFactor) else [factor.num_columns]
    return all(isinstance(size, int) for size in sizes)
