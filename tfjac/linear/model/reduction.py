"""The normal equations without a variable that is eliminated, as products alone: nothing of their size is formed.

With V for J of the variables that stay, U for J of the one that goes, and M = L Lᵀ for the damped blocks of UᵀU,

    VᵀV − VᵀU M⁻¹ UᵀV = Vᵀ(I − Q Qᵀ)V,    Q = U L⁻ᵀ

and Q touches what U does: one row in each example.
"""

import typing
from collections.abc import Iterable

import tensorflow as tf

from tfjac.graph import axes
from tfjac.linear.contracts import LinearModel
from tfjac.linear.factors.gather_factor import GatherFactor, row_grams
from tfjac.linear.model.elimination import Elimination
from tfjac.types import Tensor


class BlockFactors(typing.NamedTuple):
    """The factors of one block of residuals.

    Attributes:
        others: list, of the variables that stay; None for those that do not move these residuals.
        own: U, or Q, a `GatherFactor`; None where the variable that goes does not move them.
    """

    others: list
    own: typing.Any


class Coupled:
    """V and U of a `Linearisation`, block by block; columns of parameters that are held are zero in both.

    Args:
        linearisation: `Linearisation`.
    """

    def __init__(self, linearisation: LinearModel, elimination: Elimination) -> None:
        self.elimination = elimination
        sizes, index = list(linearisation.columns.sizes), elimination.index
        self.sizes = sizes[:index] + sizes[index + 1 :]
        free = linearisation.only_free(tf.ones([sum(sizes)], linearisation.dtype))
        self._free, own_free = elimination.split(free)
        self.blocks = []
        for operator in linearisation.jacobian.operators:
            factors = list(operator.factors)
            own = factors.pop(index)
            self.blocks.append(BlockFactors(factors, None if own is None else _times_rows(own, own_free)))

    def split(self, vector: Tensor) -> list[Tensor]:
        """Return the parts of a vector of the variables that stay, one for each; of none, an empty list."""
        return tf.split(vector, self.sizes) if self.sizes else []

    def only_free(self, vector: Tensor) -> Tensor:
        """Return a vector of the variables that stay with zeros for parameters that are held."""
        return vector * self._free

    def own_gram(self) -> Tensor:
        """Return UᵀU, `[rows, width, width]`."""
        return row_grams([block.own for block in self.blocks if block.own is not None])

    def whitened(self, matrix: Tensor) -> tuple["Whitened", Tensor]:
        """Return the `Whitened` of M `[rows, width, width]`, and whether all of it was positive definite."""
        factor = tf.linalg.cholesky(matrix)
        known = tf.reduce_all(tf.math.is_finite(factor), axis=[1, 2], keepdims=True)
        one = tf.eye(self.elimination.width, dtype=matrix.dtype)
        inverse = tf.linalg.triangular_solve(tf.where(known, factor, one), tf.zeros_like(matrix) + one)
        return Whitened(self, inverse), tf.reduce_all(known)


class Whitened:
    """V and Q.

    Args:
        inverse: L⁻¹, `[rows, width, width]`.
    """

    def __init__(self, coupled: Coupled, inverse: Tensor) -> None:
        self._coupled, self._inverse = coupled, inverse
        self.blocks = [BlockFactors(block.others, self._of_own(block.own)) for block in coupled.blocks]
        self._moved = [block for block in self.blocks if any(factor is not None for factor in block.others)]

    def product(self, vector: Tensor) -> Tensor:
        """Return Vᵀ(I − Q Qᵀ)V v."""
        images = self._images(vector)
        return self._pulled(self._less(images, self._gathered(images)))

    def right_hand_side(self, others: Tensor, own: Tensor) -> tuple[Tensor, Tensor]:
        """Return b − VᵀU M⁻¹ c for b and c `[rows, width]`, and L⁻¹c."""
        own = tf.linalg.matvec(self._inverse, own)
        flat = tf.reshape(own, [-1, 1])
        lost = [None if block.own is None else block.own.matmul(flat) for block in self._moved]
        return others - self._pulled(lost), own

    def substituted(self, others: Tensor, own: Tensor) -> Tensor:
        """Return M⁻¹(c − UᵀV x) `[rows, width]` for x and L⁻¹c."""
        own -= tf.reshape(self._gathered(self._images(others)), tf.shape(own))
        return tf.linalg.matvec(self._inverse, own, transpose_a=True)

    def _of_own(self, factor: GatherFactor | None) -> GatherFactor | None:
        """Return Q of one block from its U."""
        return None if factor is None else _times_matrices(factor, self._inverse)

    def _images(self, vector: Tensor) -> list[Tensor]:
        """V v, a list of `[n, m, 1]`."""
        parts = self._coupled.split(vector[:, None])
        return [_sum(f.matmul(part) for f, part in zip(block.others, parts) if f is not None) for block in self._moved]

    def _gathered(self, images: list) -> Tensor:
        """Qᵀu, `[rows·width, 1]`."""
        elimination = self._coupled.elimination
        none = tf.zeros([elimination.rows * elimination.width, 1], self._inverse.dtype)
        parts = [block.own.adjoint_matmul(u) for block, u in zip(self._moved, images) if block.own is not None]
        return _sum(parts) if parts else none

    def _less(self, images: list, own: Tensor) -> list[Tensor]:
        """u − Q y, a list like u."""
        pairs = zip(self._moved, images)
        return [u if block.own is None else u - block.own.matmul(own) for block, u in pairs]

    def _pulled(self, images: list) -> Tensor:
        """Vᵀu; None in the list counts as zeros."""
        pairs = [(block, u) for block, u in zip(self._moved, images) if u is not None]
        columns = []
        for index, size in enumerate(self._coupled.sizes):
            parts = [block.others[index].adjoint_matmul(u) for block, u in pairs if block.others[index] is not None]
            columns.append(_sum(parts)[:, 0] if parts else tf.zeros([size], self._inverse.dtype))
        return self._coupled.only_free(tf.concat([*columns, tf.zeros([0], self._inverse.dtype)], axis=0))


def pulled_through(factor: GatherFactor, own: GatherFactor) -> GatherFactor:
    """Return Qᵀ of each example times the `GatherFactor` of a variable that stays, a factor of `width` residuals."""
    return GatherFactor(factor.ids, tf.einsum("nmp,nmto->npto", own.d[:, :, 0], factor.d), factor.rows)


def _times_rows(factor: GatherFactor, rows: Tensor) -> GatherFactor:
    """Return a factor of one row in each example, times `[rows, width]` elementwise."""
    return GatherFactor(factor.ids, factor.d * tf.gather(rows, factor.ids)[:, None], factor.rows)


def _times_matrices(factor: GatherFactor, matrices: Tensor) -> GatherFactor:
    """Return a factor of one row in each example, its rows multiplied from the left by `[rows, width, width]`."""
    own = tf.gather(matrices, factor.ids[:, 0])
    n, m, _, width = axes(factor.d)
    product = tf.linalg.matmul(factor.d[:, :, 0], own, transpose_b=True)
    return GatherFactor(factor.ids, tf.reshape(product, [n, m, 1, width]), factor.rows)


def _sum(tensors: Iterable[Tensor]) -> Tensor:
    tensors = list(tensors)
    return tensors[0] if len(tensors) == 1 else tf.add_n(tensors)
