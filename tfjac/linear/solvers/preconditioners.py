"""Preconditioners of conjugate gradients: what stands for (JᵀJ + diag(mass))⁻¹, variable by variable."""

from collections.abc import Callable
from typing import Protocol, TypeAlias

import tensorflow as tf

from tfjac import ops
from tfjac.linear.contracts import LinearModel
from tfjac.linear.factors.forms import listed
from tfjac.linear.factors.gather_factor import row_grams
from tfjac.linear.factors.kronecker_block import LARGEST_BLOCK, DiagonalBlock, KroneckerBlock, inverse, sides_of
from tfjac.linear.model.elimination import is_read_by_rows
from tfjac.types import Tensor

Product: TypeAlias = Callable[[Tensor], Tensor]
"""A function that multiplies a vector by a matrix."""


class Part(Protocol):
    """What stands for the block of (JᵀJ + diag(mass))⁻¹ that belongs to one variable."""

    def inverse(self, mass: Tensor) -> Product:
        """Return the function that multiplies a vector by the block."""


class Preconditioner:
    """An approximation of (JᵀJ + diag(mass))⁻¹ for any mass `[p]`, all of λD + Λ.

    Args:
        kind: one of `KINDS`.
        linearisation: `Linearisation`.
        diagonal: `[p]`, diag(JᵀJ).
    """

    def __init__(self, kind: str, linearisation: LinearModel, diagonal: Tensor) -> None:
        self._linearisation, self._columns = linearisation, linearisation.columns
        parts, factors = tf.split(diagonal, self._columns.sizes), linearisation.jacobian.factors()
        self._parts = [KINDS[kind](*pair) for pair in zip(factors, parts)]

    def inverse(self, mass: Tensor) -> Product:
        """Return the function that multiplies a vector `[p]` by the approximation, parameters that are held left out.

        What is symmetric and positive definite stays so in the parameters that are left.
        """
        sizes = self._columns.sizes
        applied = [part.inverse(each) for part, each in zip(self._parts, tf.split(mass, sizes))]

        def apply(vector: Tensor) -> Tensor:
            products = [function(each) for function, each in zip(applied, tf.split(vector, sizes))]
            return self._linearisation.only_free(tf.concat(products, axis=0))

        return apply


class Block:
    """(A + mass)⁻¹ for one variable, the block inverted.

    Args:
        gram: A `[size, size]`: JᵀJ, or what stands for it.
    """

    def __init__(self, gram: Tensor) -> None:
        self._gram = gram

    def inverse(self, mass: Tensor) -> Product:
        inverted = inverse(self._gram, mass)
        return lambda vector: tf.linalg.matvec(inverted, vector)


class Rows:
    """(A + mass)⁻¹ for a table that is read by index, row by row: blocks of its columns, inverted.

    Args:
        grams: A `[rows, width, width]`: JᵀJ of each row, or what stands for it.
    """

    def __init__(self, grams: Tensor) -> None:
        self._grams, self._shape = grams, grams.shape[:2]

    def inverse(self, mass: Tensor) -> Product:
        inverted = inverse(self._grams, tf.reshape(mass, self._shape))
        return lambda vector: tf.reshape(tf.linalg.matvec(inverted, tf.reshape(vector, self._shape)), [-1])


class Approximate:
    """What stands for (JᵀJ + mass)⁻¹ of one variable.

    Args:
        block: `KroneckerBlock`, of which the inverse is that for the mean mass, or `DiagonalBlock`.
    """

    def __init__(self, block: KroneckerBlock | DiagonalBlock) -> None:
        self._block = block

    def inverse(self, mass: Tensor) -> Product:
        inverses = self._block.inverses(mass)
        return lambda vector: self._block.multiplied(inverses, vector)


def _diagonal(factors: list, diagonal: Tensor) -> Part:
    return Approximate(DiagonalBlock(diagonal))


def _block_diagonal(factors: list, diagonal: Tensor) -> Part:
    if is_read_by_rows(factors):
        return Rows(row_grams(factors))
    possible = factors and diagonal.shape[0] <= LARGEST_BLOCK and all(factor.has_outer_form for factor in factors)
    if not possible:
        return Approximate(DiagonalBlock(diagonal))
    return Block(tf.add_n([ops.jacobian_gram(*listed(factor))[0] for factor in factors]))


def _kronecker(factors: list, diagonal: Tensor) -> Part:
    if is_read_by_rows(factors):
        return Rows(row_grams(factors))
    return Approximate(KroneckerBlock.of(factors) if sides_of(factors) else DiagonalBlock(diagonal))


KINDS = {"kronecker": _kronecker, "block_diagonal": _block_diagonal, "diagonal": _diagonal}
"""By name: functions from the factors of a variable's columns, and its part of diag(JᵀJ), to its preconditioner."""
