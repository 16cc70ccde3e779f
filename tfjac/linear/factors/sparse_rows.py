"""Rows of J with the columns that each example touches, where that is few of all: what index-wise gathers leave."""

import typing
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from tfjac.graph import axes
from tfjac.linear.factors.forms import Factor
from tfjac.linear.factors.gather_factor import GatherFactor


class SparseRows(typing.NamedTuple):
    """J[n,m,q] = Σ_k [columns[n,k] = q] · values[n,m,k].

    Attributes:
        columns: `[n,k]`, int32. A column that stands twice adds up.
        values: `[n,m,k]`.
    """

    columns: tf.Tensor
    values: tf.Tensor


def sparse_rows(factor: Factor, first: Any = 0) -> "SparseRows":
    """Return the `SparseRows` of a `Factor` whose columns begin with number `first`."""
    if isinstance(factor, GatherFactor):
        n, m, t, o = axes(factor.d)
        columns = factor.ids[:, :, None] * o + tf.range(o)
        return SparseRows(first + tf.reshape(columns, [n, t * o]), tf.reshape(factor.d, [n, m, t * o]))
    values = factor.dense()
    n, _, q = axes(values)
    return SparseRows(tf.tile(first + tf.range(q)[None], [n, 1]), values)


def side_by_side(parts: Sequence) -> "SparseRows":
    """Return the `SparseRows` of the same examples one beside the other."""
    columns, values = zip(*parts)
    return SparseRows(tf.concat(columns, axis=1), tf.concat(values, axis=2))
