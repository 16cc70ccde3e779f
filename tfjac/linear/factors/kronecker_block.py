"""JᵀJ of one variable as a Kronecker product, or by its diagonal, and what stands for the damped inverse."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from tfjac.linear.factors.forms import Factor
from tfjac.linear.factors.gather_factor import GatherFactor, row_grams
from tfjac.linear.factors.kronecker import kronecker_product
from tfjac.linear.shapes import reordered
from tfjac.types import Tensor

LARGEST_SIDE = 4096
"""Of Kronecker factors: a matrix of more rows takes too long to invert."""

LARGEST_BLOCK = 1024
"""Of exact blocks."""


class KroneckerBlock(NamedTuple):
    """JᵀJ ≈ A ⊗ G of one variable, in each group.

    Factors of several blocks of residuals add up: A is then their mean, weighted by tr G, and G their sum.

    Attributes:
        left: A `[g, i, i]`.
        right: G `[g, o, o]`.
        layout: in which order the variable has the axes g, i and o.
    """

    left: tf.Tensor
    right: tf.Tensor
    layout: str

    @classmethod
    def of(cls, factors: Sequence[Any]) -> "KroneckerBlock":
        """Return the block of a list of `Factor` of one variable, which share their sides."""
        pairs = [kronecker_product(factor) for factor in factors]
        if len(pairs) == 1:
            return cls(*pairs[0], factors[0].outer_form()[2])
        right = tf.add_n([each for _, each in pairs])
        total = tf.linalg.trace(right)
        shares = [tf.math.divide_no_nan(tf.linalg.trace(each), total) for _, each in pairs]
        left = tf.add_n([share[:, None, None] * each for share, (each, _) in zip(shares, pairs)])
        return cls(left, right, factors[0].outer_form()[2])

    @property
    def sizes(self) -> list[int]:
        """Those of g, i and o, in the order of the variable."""
        by_name = dict(zip("gio", [*self.left.shape[:2], self.right.shape[1]]))
        return [by_name[axis] for axis in self.layout]

    @property
    def size(self) -> int:
        """The number of rows of A ⊗ G, all groups together."""
        return math.prod(self.sizes)

    def trace(self) -> Tensor:
        """Return tr(A ⊗ G), a scalar."""
        return tf.reduce_sum(_trace(self.left) * _trace(self.right))

    def diagonal(self) -> Tensor:
        """Return diag(A ⊗ G), `[size]`, in the order of the variable."""
        sides = tf.linalg.diag_part(self.left), tf.linalg.diag_part(self.right)
        return tf.reshape(tf.einsum(f"gi,go->{self.layout}", *sides), [-1])

    def inverses(self, mass: Tensor) -> list[Tensor]:
        """Return (A + π√m·I)⁻¹ and (G + √m/π·I)⁻¹, m the mean mass; π² = (tr A / i) / (tr G / o) shares it out."""
        return inverses_of([self], [mass])[0]

    def damped(self, mass: Tensor) -> list[tuple[Tensor, Tensor]]:
        """Return A and G, and what is added to the diagonal of each before it is inverted, `[g, 1]`."""
        root = tf.sqrt(tf.reduce_mean(mass))
        share = _evenly(*(_trace(side) / side.shape[-1] for side in (self.left, self.right)))
        return [(self.left, (root * share)[:, None]), (self.right, (root / share)[:, None])]

    def multiplied(self, inverses: Sequence[Tensor], vector: Tensor) -> Tensor:
        """Return the product of what `inverses` returned with a vector `[size]`."""
        left, right = inverses
        by_group = [*self.left.shape[:2], self.right.shape[1]]
        blocks = reordered(tf.reshape(vector, self.sizes), [*map(self.layout.index, "gio")], by_group)
        return reordered(tf.matmul(tf.matmul(left, blocks), right), [*map("gio".index, self.layout)], [-1])

    def times(self, vectors: Tensor) -> Tensor:
        """Return (A ⊗ G)·v of `v[size, r]`, in the order of the variable; sides need not be symmetric."""
        within = self.layout.translate(str.maketrans("io", "jk"))
        blocks = tf.reshape(vectors, [*self.sizes, -1])
        product = tf.einsum(f"{within}r,gij,gok->{self.layout}r", blocks, self.left, self.right)
        return tf.reshape(product, [self.size, -1])

    def transpose_times(self, vectors: Tensor) -> Tensor:
        """Return (A ⊗ G)ᵀ·v of `v[size, r]`, likewise."""
        left, right = (tf.linalg.matrix_transpose(side) for side in (self.left, self.right))
        return KroneckerBlock(left, right, self.layout).times(vectors)


def block_of(factor: Factor) -> KroneckerBlock | None:
    """Return the `KroneckerBlock` of one factor, None without any; of a table each row is a group, with A = 1."""
    if factor.has_outer_form:
        return KroneckerBlock.of([factor])
    if not isinstance(factor, GatherFactor):
        return None
    grams = row_grams([factor])
    return KroneckerBlock(tf.ones([tf.shape(grams)[0], 1, 1], grams.dtype), grams, "gio")


class TableBlock(NamedTuple):
    """JᵀJ ≈ diag(a) ⊗ G of a table `[rows, width]` that is read by index; methods as of `KroneckerBlock`.

    a says how much of the trace of JᵀJ each row has, so that its block a·G has the trace of that of JᵀJ, as far as
    reads of one example do not interact.

    Attributes:
        left: a `[rows]`.
        right: G `[width, width]`.
    """

    left: tf.Tensor
    right: tf.Tensor

    @classmethod
    def of(cls, factors: "Sequence[GatherFactor]") -> "TableBlock":
        """Return the block of a list of `GatherFactor` of one table, whose widths are the same."""
        right = tf.add_n([tf.einsum("nmto,nmtp->op", factor.d, factor.d) for factor in factors])
        squares = [tf.reduce_sum(tf.square(factor.d), axis=[1, 3]) for factor in factors]
        rows = [tf.math.unsorted_segment_sum(each, factor.ids, factor.rows) for each, factor in zip(squares, factors)]
        return cls(tf.math.divide_no_nan(tf.add_n(rows), tf.linalg.trace(right)), right)

    def trace(self) -> Tensor:
        """Return tr(diag(a) ⊗ G), a scalar."""
        return tf.reduce_sum(self.left) * tf.linalg.trace(self.right)

    def diagonal(self) -> Tensor:
        """Return a ⊗ diag(G), `[size]`."""
        return tf.reshape(self.left[:, None] * tf.linalg.diag_part(self.right), [-1])

    def inverses(self, mass: Tensor) -> list[Tensor]:
        """Return 1/(a + π√m) and (G + √m/π·I)⁻¹, with π as of a `KroneckerBlock`."""
        return inverses_of([self], [mass])[0]

    def damped(self, mass: Tensor) -> list[tuple[Tensor, Tensor]]:
        """Return a and G, and the scalars that are added to a, and to the diagonal of G."""
        root = tf.sqrt(tf.reduce_mean(mass))
        share = _evenly(tf.reduce_mean(self.left), tf.reduce_mean(tf.linalg.diag_part(self.right)))
        return [(self.left, root * share), (self.right, root / share)]

    def multiplied(self, inverses: Sequence[Tensor], vector: Tensor) -> Tensor:
        """Return the product of what `inverses` returned with a vector `[size]`."""
        rows = tf.reshape(vector, [self.left.shape[0], self.right.shape[0]])
        return tf.reshape(tf.matmul(inverses[0][:, None] * rows, inverses[1]), [-1])


class DiagonalBlock(NamedTuple):
    """diag(JᵀJ) of one variable in place of JᵀJ; methods as of `KroneckerBlock`.

    Attributes:
        values: `[size]`.
    """

    values: tf.Tensor

    @classmethod
    def of(cls, factors: Sequence[Any]) -> "DiagonalBlock":
        """Return the block of a list of `Factor` of one variable."""
        return cls(tf.add_n([factor.squared_column_norms() for factor in factors]))

    def trace(self) -> Tensor:
        """Return the sum of all values, a scalar."""
        return tf.reduce_sum(self.values)

    def diagonal(self) -> Tensor:
        """Return the values, `[size]`."""
        return self.values

    def inverses(self, mass: Tensor) -> list[Tensor]:
        """Return 1 / (values + mass), `[size]`, for a scalar or a vector `[size]`."""
        return inverses_of([self], [mass])[0]

    def damped(self, mass: Tensor) -> list[tuple[Tensor, Tensor]]:
        """Return the values, and what is added to them."""
        return [(self.values, mass)]

    def multiplied(self, inverses: Sequence[Tensor], vector: Tensor) -> Tensor:
        """Return the product of what `inverses` returned with a vector `[size]`."""
        return inverses[0] * vector


def inverses_of(blocks: Sequence[Any], masses: Sequence[Tensor]) -> list[list[Tensor]]:
    """Return a list of the inverses of each block, damped by the mass of each; matrices of one size are one batch."""
    damped = [block.damped(mass) for block, mass in zip(blocks, masses)]
    sides = [(tf.convert_to_tensor(side), shift) for each in damped for side, shift in each]
    batches: dict[Any, list[int]] = {}
    for k, (side, _) in enumerate(sides):
        in_groups = side.shape.rank == 3 and side.shape[0] is not None
        batches.setdefault(side.shape[-1] if in_groups else -1 - k, []).append(k)
    found: dict[int, Tensor] = {}
    for batch in batches.values():
        matrices, shifts = zip(*(sides[k] for k in batch))
        if len(batch) > 1:
            together = inverse(tf.concat(matrices, 0), tf.concat(shifts, 0))
            found.update(zip(batch, tf.split(together, [matrix.shape[0] for matrix in matrices])))
        else:
            is_matrix = matrices[0].shape.rank > 1
            found[batch[0]] = inverse(matrices[0], shifts[0]) if is_matrix else 1 / (matrices[0] + shifts[0])
    return tf.nest.pack_sequence_as([[0] * len(each) for each in damped], [found[k] for k in range(len(sides))])


def _trace(matrices: Tensor) -> Tensor:
    """Return the trace of each matrix of `[g, n, n]`."""
    return tf.einsum("gii->g", matrices)


def _evenly(left: Tensor, right: Tensor) -> Tensor:
    """Return π, by which two sides of so large a mean share a damping out evenly; 1 where one has none."""
    share = tf.sqrt(tf.math.divide_no_nan(left, right))
    return tf.where((share > 0) & tf.math.is_finite(share), share, tf.ones_like(share))


def inverse(matrix: Tensor, shift: Tensor | None = None) -> Tensor:
    """Return the inverse of positive definite matrices, NaN where they are not; a rounding error is added to them.

    Args:
        matrix: `[..., n, n]`.
        shift: a scalar, `[..., 1]` or `[..., n]`, what else is added to the diagonal.
    """
    matrix = tf.convert_to_tensor(matrix)
    diagonal = tf.linalg.diag_part(matrix)
    diagonal = diagonal if shift is None else diagonal + shift
    if matrix.shape[-1] == 1:
        return tf.square(1 / tf.sqrt(diagonal))[..., None]
    rounding = 8 * np.finfo(matrix.dtype.as_numpy_dtype).eps
    diagonal += rounding * tf.reduce_max(diagonal, axis=-1, keepdims=True)
    factor = tf.linalg.cholesky(tf.linalg.set_diag(matrix, diagonal))
    return tf.linalg.cholesky_solve(factor, tf.eye(matrix.shape[-1], batch_shape=matrix.shape[:-2], dtype=matrix.dtype))


def has_kronecker_factors(g: int, i: int, o: int) -> bool:
    """Whether a weight of so many groups, input and output features has them; of a bias that is the block."""
    return max(i, o) <= (LARGEST_SIDE if g * i > 1 else LARGEST_BLOCK)


class FormOfWeight(NamedTuple):
    """Of what sizes the sides of a `KroneckerBlock` are, and its layout."""

    layout: str
    g: int
    i: int
    o: int

    @property
    def shapes(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Those of both sides."""
        return (self.g, self.i, self.i), (self.g, self.o, self.o)

    @property
    def products(self) -> float:
        """Multiply-adds of the product with a vector."""
        return self.g * (self.i**2 * self.o + self.i * self.o**2)

    @property
    def inverses(self) -> float:
        """Multiply-adds of the inverses of both sides."""
        return 4 / 3 * self.g * (self.i**3 + self.o**3)

    def of(self, factors: Sequence[Any]) -> KroneckerBlock:
        """Return the block of a list of `Factor`."""
        return KroneckerBlock.of(factors)

    def with_sides(self, left: Tensor, right: Tensor) -> KroneckerBlock:
        """Return the block with these sides."""
        return KroneckerBlock(left, right, self.layout)


class FormOfTable(NamedTuple):
    """The same of a `TableBlock`."""

    rows: int
    width: int

    @property
    def shapes(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Those of both sides."""
        return (self.rows,), (self.width, self.width)

    @property
    def products(self) -> float:
        """Multiply-adds of the product with a vector."""
        return self.rows * self.width**2

    @property
    def inverses(self) -> float:
        """Multiply-adds of the inverses of both sides."""
        return 4 / 3 * self.width**3 + self.rows

    def of(self, factors: "Sequence[GatherFactor]") -> TableBlock:
        """Return the block of a list of `GatherFactor`."""
        return TableBlock.of(factors)

    def with_sides(self, left: Tensor, right: Tensor) -> TableBlock:
        """Return the block with these sides."""
        return TableBlock(left, right)


def form_of(factors: Sequence[Any]) -> FormOfWeight | FormOfTable | None:
    """Return the form of the block of a list of `Factor`; None where there is none, or a side is too large."""
    return sides_of(factors) or _table_of(factors)


def sides_of(factors: Sequence[Any]) -> FormOfWeight | None:
    """Return the form that factors of a weight share; None where they share none, or a side is too large."""
    if not factors or not all(factor.has_outer_form for factor in factors):
        return None
    forms = {(layout, *a.shape[2:], *d.shape[4:]) for a, d, layout in (factor.outer_form() for factor in factors)}
    if len(forms) > 1 or None in next(iter(forms)) or not has_kronecker_factors(*next(iter(forms))[1:]):
        return None
    return FormOfWeight(*next(iter(forms)))


def _table_of(factors: Sequence[Any]) -> FormOfTable | None:
    if not factors or not all(isinstance(factor, GatherFactor) for factor in factors):
        return None
    shapes = {(factor.rows, factor.d.shape[3]) for factor in factors}
    rows, width = next(iter(shapes)) if len(shapes) == 1 else (None, None)
    return FormOfTable(rows, width) if isinstance(rows, int) and width and width <= LARGEST_SIDE else None
