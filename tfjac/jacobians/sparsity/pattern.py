"""Where a Jacobian has entries, and how few products give them all."""

import functools
from collections.abc import Iterable
from typing import Any, Literal

import numpy as np
import scipy.sparse

from tfjac.jacobians.sparsity.colouring import (
    Colouring,
    bicolouring,
    colours_of_columns,
    forward_colouring,
    reverse_colouring,
)
from tfjac.types import Array, TensorLike

MODES = ("auto", "forward", "reverse")


class SparsityPattern:
    """Where a Jacobian `[rows, columns]` may differ from zero, and the colours of its columns and rows.

    Made by `sparsity`, or from a pattern that is known beforehand. Entries are in CSR order: row after row, and the
    columns of a row from left to right; the values of `sparse_jacobian` are in this order too.

    Attributes:
        shape: `(rows, columns)`.
        indptr: `[rows + 1]`, where each row begins in `indices`.
        indices: `[entries]`, the columns.
        opaque_ops: names of ops that the pattern was not followed through: each of their outputs was taken to
            depend on all of their inputs.
    """

    def __init__(self, entries: Any, opaque_ops: Iterable[str] = ()) -> None:
        """Make a pattern.

        Args:
            entries: SciPy sparse matrix or array, or a dense array `[rows, columns]`: entries count where they differ
                from zero.
            opaque_ops: names of ops, for the record.
        """
        matrix = scipy.sparse.csr_array(entries)
        if matrix.ndim != 2:
            raise ValueError(f"A sparsity pattern must be a matrix. Received: an array of shape {matrix.shape}")
        matrix = scipy.sparse.csr_array(matrix != 0)
        matrix.sort_indices()
        self._matrix, self.opaque_ops = matrix, tuple(opaque_ops)

    @property
    def shape(self) -> tuple[int, int]:
        return self._matrix.shape

    @property
    def indptr(self) -> Array:
        return self._matrix.indptr

    @property
    def indices(self) -> Array:
        return self._matrix.indices

    @property
    def num_entries(self) -> int:
        """Number of entries that may differ from zero."""
        return self._matrix.nnz

    @property
    def density(self) -> float:
        """`num_entries` over rows times columns."""
        return self.num_entries / max(1, self.shape[0] * self.shape[1])

    @functools.cached_property
    def rows(self) -> Array:
        """`[entries]`, the row of each entry."""
        return np.repeat(np.arange(self.shape[0]), np.diff(self.indptr))

    @functools.cached_property
    def column_colours(self) -> Array:
        """`[columns]` int32: columns of one colour have no row in common; one J·v gives them all."""
        return colours_of_columns(self._matrix)

    @functools.cached_property
    def row_colours(self) -> Array:
        """`[rows]` int32: rows of one colour have no column in common; one Jᵀ·u gives them all."""
        return colours_of_columns(self._matrix.T)

    @functools.cached_property
    def mode(self) -> Literal["forward", "reverse", "bidirectional"]:
        """The best mode: "forward" where the columns need fewer colours than the rows, else "reverse".

        "bidirectional", with products of both kinds, where that takes at most half as many, as a second graph is
        traced for it: where there are both full rows and full columns. A colouring is left out where it cannot win: it
        needs as many colours as the fullest row or column has entries.
        """
        fullest_row, fullest_column = self._fullest
        if self._bicolouring is not None:
            return "bidirectional"
        if fullest_column <= fullest_row:
            return "reverse" if self._count("reverse") <= fullest_row else self._fewer()
        return "forward" if self._count("forward") < fullest_column else self._fewer()

    @property
    def num_colours(self) -> int:
        """Number of products that give all entries, in the best mode."""
        return self._count(self.mode)

    def colours(self, mode: Literal["forward", "reverse"]) -> Array:
        """Return `column_colours` for "forward" and `row_colours` for "reverse"."""
        if mode not in ("forward", "reverse"):
            raise ValueError(f"Colours are those of one mode, 'forward' or 'reverse'. Received: mode={mode!r}")
        return self.column_colours if mode == "forward" else self.row_colours

    def colouring(self, mode: Literal["forward", "reverse", "bidirectional"]) -> Colouring:
        """Return where each entry is read in a mode; "bidirectional" only where `mode` is that."""
        if mode == "bidirectional" and self._bicolouring is not None:
            return self._bicolouring
        if mode == "forward":
            return forward_colouring(self.colours("forward"), self._matrix)
        return reverse_colouring(self.colours("reverse"), self._matrix)

    def csr(self, values: TensorLike | None = None) -> scipy.sparse.csr_array:
        """Return the pattern, or a matrix with these values, as a SciPy CSR array.

        Args:
            values: `[entries]` in CSR order, as in the `values` of `sparse_jacobian`'s result.
        """
        if values is None:
            return self._matrix.copy()
        return scipy.sparse.csr_array((np.asarray(values), self.indices, self.indptr), shape=self.shape)

    @functools.cached_property
    def _bicolouring(self) -> Colouring | None:
        return bicolouring(self._matrix, min(self._fullest) / 2)

    @functools.cached_property
    def _fullest(self) -> tuple[int | np.integer, int | np.integer]:
        """How many entries the fullest row has, and the fullest column."""
        return np.diff(self.indptr).max(initial=0), np.bincount(self.indices, minlength=1).max(initial=0)

    def _count(self, mode: Literal["forward", "reverse", "bidirectional"]) -> int:
        colouring = self.colouring(mode)
        return colouring.num_forward + colouring.num_reverse

    def _fewer(self) -> Literal["forward", "reverse"]:
        return "forward" if self._count("forward") < self._count("reverse") else "reverse"

    def __repr__(self) -> str:
        opaque = f", opaque ops: {', '.join(self.opaque_ops)}" if self.opaque_ops else ""
        return (
            f"<SparsityPattern {self.shape[0]}×{self.shape[1]}, {self.num_entries} entries ({self.density:.2%}), "
            f"{self.num_colours} products in {self.mode} mode{opaque}>"
        )
