"""Preconditioners of the equations that are left when a variable is eliminated: their blocks on the diagonal."""

from typing import Any

import tensorflow as tf

from tfjac.linear.factors.gather_factor import of_one_width, row_grams
from tfjac.linear.model.elimination import WIDEST, is_read_by_rows
from tfjac.linear.model.reduction import Coupled, Whitened, pulled_through
from tfjac.linear.solvers.preconditioners import KINDS, Block, Part, Product, Rows
from tfjac.types import Tensor

KINDS_OF_BLOCKS = ("schur_jacobi", "block_jacobi")


class SchurJacobi:
    """An approximation of (Vᵀ(I − Q Qᵀ)V + diag(mass))⁻¹, variable by variable.

    A table that is read by index has the block of each row, a variable of up to 32 elements its own; all else is
    preconditioned as by `"cg"`, from VᵀV. Where several examples read the same row of a table and the same row that is
    eliminated, each is taken by itself, which keeps what is positive definite so.

    Args:
        kind: `"schur_jacobi"`, or `"block_jacobi"` for blocks of VᵀV instead.
        diagonal: diag(VᵀV).
    """

    def __init__(self, kind: str, coupled: Coupled, diagonal: Tensor) -> None:
        self._coupled = coupled
        make = {"schur_jacobi": _reduced, "block_jacobi": _whole}[kind]
        self._parts = []
        for index, part in enumerate(coupled.split(diagonal)):
            present = [(place, block.others[index]) for place, block in enumerate(coupled.blocks)]
            self._parts.append(make([pair for pair in present if pair[1] is not None], part))

    def inverse(self, whitened: Whitened, mass: Tensor) -> Product:
        """Return the function that multiplies a vector by the approximation, for a `Whitened` and a mass."""
        owns = [block.own for block in whitened.blocks]
        applied = [part.less(owns).inverse(each) for part, each in zip(self._parts, self._coupled.split(mass))]

        def apply(vector: Tensor) -> Tensor:
            products = [function(each) for function, each in zip(applied, self._coupled.split(vector))]
            return self._coupled.only_free(tf.concat([*products, tf.zeros([0], vector.dtype)], axis=0))

        return apply


def _reduced(present: list[tuple[int, Any]], diagonal: Tensor) -> "_Whole | _ReducedRows | _ReducedBlock":
    """Return what stands for one variable, from pairs of a block's place and its factor."""
    factors = [factor for _, factor in present]
    if is_read_by_rows(factors):
        return _ReducedRows(present)
    return _ReducedBlock(present) if factors and diagonal.shape[0] <= WIDEST else _whole(present, diagonal)


def _whole(present: list[tuple[int, Any]], diagonal: Tensor) -> "_Whole":
    return _Whole(KINDS["kronecker"]([factor for _, factor in present], diagonal))


class _Whole:
    """A part of the preconditioner of `"cg"`, as it is."""

    def __init__(self, part: Part) -> None:
        self._part = part

    def less(self, owns: Tensor) -> Part:
        return self._part


class _ReducedRows:
    """Blocks of the rows of a table."""

    def __init__(self, present: list[tuple[int, Any]]) -> None:
        places, factors = zip(*present)
        same = of_one_width(factors)
        assert same is not None  # others are no `_ReducedRows`
        self._pairs = list(zip(places, same))
        self._grams = row_grams([factor for _, factor in self._pairs])

    def less(self, owns: Tensor) -> Rows:
        lost = [pulled_through(factor, owns[place]) for place, factor in self._pairs if owns[place] is not None]
        return Rows(self._grams - row_grams(lost) if lost else self._grams)


class _ReducedBlock:
    """The block of a small variable that is read whole."""

    def __init__(self, present: list[tuple[int, Any]]) -> None:
        self._rows = [(place, factor.dense()) for place, factor in present]
        self._gram = tf.add_n([tf.einsum("nmk,nml->kl", rows, rows) for _, rows in self._rows])

    def less(self, owns: Tensor) -> Block:
        lost = [owns[place].adjoint_matmul(rows) for place, rows in self._rows if owns[place] is not None]
        if not lost:
            return Block(self._gram)
        lost = tf.add_n(lost)
        return Block(self._gram - tf.matmul(lost, lost, transpose_a=True))
