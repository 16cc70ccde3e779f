"""Preconditioners of conjugate gradients: what stands for (JᵀJ + diag(mass))⁻¹, variable by variable."""

from collections.abc import Callable
from typing import Protocol, TypeAlias

import numpy as np
import tensorflow as tf

from tfjac import ops
from tfjac.jacobians.factors.forms import listed
from tfjac.jacobians.factors.gather_factor import row_grams
from tfjac.jacobians.factors.kronecker import kronecker_product
from tfjac.optimizers.contracts import LinearModel
from tfjac.optimizers.linear_model.elimination import is_read_by_rows
from tfjac.types import Tensor

LARGEST_SIDE = 4096
"""Of Kronecker factors: a matrix of more rows takes too long to invert."""

LARGEST_BLOCK = 1024
"""Of exact blocks."""


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


class Diagonal:
    """1 / (diag(JᵀJ) + mass), for one variable.

    Args:
        diagonal: diag(JᵀJ), the part of the variable.
    """

    def __init__(self, diagonal: Tensor) -> None:
        self._diagonal = diagonal

    def inverse(self, mass: Tensor) -> Product:
        return lambda vector: vector / (self._diagonal + mass)


class Block:
    """(A + mass)⁻¹ for one variable, the block inverted.

    Args:
        gram: A `[size, size]`: JᵀJ, or what stands for it.
    """

    def __init__(self, gram: Tensor) -> None:
        self._gram = gram

    def inverse(self, mass: Tensor) -> Product:
        inverse = _inverse(tf.linalg.set_diag(self._gram, tf.linalg.diag_part(self._gram) + mass))
        return lambda vector: tf.linalg.matvec(inverse, vector)


class Rows:
    """(A + mass)⁻¹ for a table that is read by index, row by row: blocks of its columns, inverted.

    Args:
        grams: A `[rows, width, width]`: JᵀJ of each row, or what stands for it.
    """

    def __init__(self, grams: Tensor) -> None:
        self._grams, self._shape = grams, grams.shape[:2]

    def inverse(self, mass: Tensor) -> Product:
        diagonal = tf.linalg.diag_part(self._grams) + tf.reshape(mass, self._shape)
        inverse = _inverse(tf.linalg.set_diag(self._grams, diagonal))
        return lambda vector: tf.reshape(tf.linalg.matvec(inverse, tf.reshape(vector, self._shape)), [-1])


class _Kronecker:
    """(A + π√m·I)⁻¹ ⊗ (G + √m/π·I)⁻¹ for one variable, m being its mean mass, where JᵀJ ≈ A ⊗ G.

    π² = (tr A / i) / (tr G / o) shares m out evenly. Factors of several blocks of residuals add up: A is then their
    mean, weighted by tr G, and G their sum.
    """

    def __init__(self, factors: list) -> None:
        pairs = [kronecker_product(factor) for factor in factors]
        self._layout = factors[0].outer_form()[2]
        self._right = tf.add_n([right for _, right in pairs])
        total = tf.linalg.trace(self._right)
        shares = [tf.math.divide_no_nan(tf.linalg.trace(right), total) for _, right in pairs]
        self._left = tf.add_n([share[:, None, None] * left for share, (left, _) in zip(shares, pairs)])

    def inverse(self, mass: Tensor) -> Product:
        left, right = self._inverses(tf.sqrt(tf.reduce_mean(mass)))
        sizes = dict(zip("gio", [*left.shape[:2], right.shape[1]]))

        def apply(vector: Tensor) -> Tensor:
            blocks = tf.reshape(vector, [sizes[axis] for axis in self._layout])
            blocks = tf.matmul(tf.matmul(left, tf.einsum(f"{self._layout}->gio", blocks)), right)
            return tf.reshape(tf.einsum(f"gio->{self._layout}", blocks), [-1])

        return apply

    def _inverses(self, root: Tensor) -> list[Tensor]:
        size = [tf.linalg.trace(side) / side.shape[-1] for side in (self._left, self._right)]
        share = tf.sqrt(tf.math.divide_no_nan(*size))
        share = tf.where((share > 0) & tf.math.is_finite(share), share, tf.ones_like(share))
        return [
            _inverse(side + (shift * root)[:, None, None] * tf.eye(side.shape[-1], dtype=side.dtype))
            for side, shift in ((self._left, share), (self._right, 1 / share))
        ]


def _inverse(matrix: Tensor) -> Tensor:
    """Return the inverse of positive definite matrices, NaN where they are not; a rounding error is added to them."""
    diagonal = tf.linalg.diag_part(matrix)
    rounding = 8 * np.finfo(matrix.dtype.as_numpy_dtype).eps
    diagonal += rounding * tf.reduce_max(diagonal, axis=-1, keepdims=True)
    factor = tf.linalg.cholesky(tf.linalg.set_diag(matrix, diagonal))
    return tf.linalg.cholesky_solve(factor, tf.eye(matrix.shape[-1], batch_shape=matrix.shape[:-2], dtype=matrix.dtype))


def _diagonal(factors: list, diagonal: Tensor) -> Part:
    return Diagonal(diagonal)


def _block_diagonal(factors: list, diagonal: Tensor) -> Part:
    if is_read_by_rows(factors):
        return Rows(row_grams(factors))
    possible = factors and diagonal.shape[0] <= LARGEST_BLOCK and all(factor.has_outer_form for factor in factors)
    if not possible:
        return Diagonal(diagonal)
    return Block(tf.add_n([ops.jacobian_gram(*listed(factor))[0] for factor in factors]))


def _kronecker(factors: list, diagonal: Tensor) -> Part:
    if is_read_by_rows(factors):
        return Rows(row_grams(factors))
    return _Kronecker(factors) if factors and _sides(factors) else Diagonal(diagonal)


def has_kronecker_factors(g: int, i: int, o: int) -> bool:
    """Whether a weight of so many groups, input and output features has them; of a bias that is the block."""
    return max(i, o) <= (LARGEST_SIDE if g * i > 1 else LARGEST_BLOCK)


def _sides(factors: list) -> tuple | None:
    """Return the layout and the sizes of g, i, o that factors share; None where they do not, or one is too large."""
    if not all(factor.has_outer_form for factor in factors):
        return None
    forms = {(layout, *a.shape[2:], *d.shape[4:]) for a, d, layout in (factor.outer_form() for factor in factors)}
    if len(forms) > 1 or None in next(iter(forms)) or not has_kronecker_factors(*next(iter(forms))[1:]):
        return None
    return next(iter(forms))


KINDS = {"kronecker": _kronecker, "block_diagonal": _block_diagonal, "diagonal": _diagonal}
"""By name: functions from the factors of a variable's columns, and its part of diag(JᵀJ), to its preconditioner."""
