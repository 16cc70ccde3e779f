"""What keeps a large J from being sparse, in words: the op, and what to write instead."""

from typing import Any

from tfjac.jacobians.factors.dense_uses import dense_uses
from tfjac.types import Tensor

WIDEST = 64
"""Columns that an example may touch without a word: a few rows of tables."""

_ROWS = "read what an example needs by tf.gather(table, index) along axis 0, with one residual row for each example"

_INSTEAD = {
    ("GatherV2", "ResourceGather", "GatherNd", "ResourceGatherNd"): (
        "hold the variable as a table with a row for each point, [points, numbers], and gather along axis 0"
    ),
    ("Pad", "PadV2", "MirrorPad"): (
        "read the neighbours of each point by tf.gather along axis 0, and what lies beyond the edge as constants"
    ),
    ("ConcatV2", "Pack"): (
        "gather from each part by itself; what is to stay as it is can be part of the variable, with fixed="
    ),
    ("Roll", "ReverseV2", "Transpose"): "gather rows along axis 0 by an index that is rolled, reversed or permuted",
    ("StridedSlice", "Slice", "Split", "SplitV"): (
        "hold each table in a variable by itself, a row for each point, and read it by tf.gather along axis 0; of a "
        "grid, gather from the flat table of its points"
    ),
}
"""By types of ops."""


def hints_of(tensors: list[Tensor], variables: list) -> list[str]:
    """Return sentences that name each kind of op by which examples come to depend on much of a variable.

    Args:
        tensors: list of tensors of residuals, of the graph being traced, to which ops are added.
        variables: list of variables.
    """
    tensors = [tensor for tensor in tensors if tensor.shape.rank]
    return [_sentence(use) for use in dense_uses(tensors, variables, WIDEST)]


def _sentence(use: Any) -> str:
    instead = next((words for types, words in _INSTEAD.items() if use.op.type in types), _ROWS)
    what = "mixes examples" if use.columns is None else f"lets an example touch {use.columns:,} columns of J"
    return f"hint: op {use.op.name!r} of type {use.op.type} {what}, so that J is not sparse: {instead}."
