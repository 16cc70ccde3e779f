"""What users said of shapes by `set_shape`: it belongs to the tensor, and a copy of the op is told it again."""

from collections.abc import Sequence

import tensorflow as tf

from tfjac.graph.facts import facts_of
from tfjac.types import Tensor


def tell_shapes(op: tf.Operation, copies: Sequence[Tensor]) -> None:
    """Set the static shapes of the outputs of a copy, of which TensorFlow knows not even the rank, to those of `op`.

    Such an op is a Python function, say. Of other ops the shape that a copy has is right, and that of the original may
    be too narrow: what a shape is computed from may have been replaced. Sizes along axis 0 are told only where the
    inputs still have theirs, as a copy may be of other examples.

    Args:
        op: the original.
        copies: list of the outputs of its copy.
    """
    unknown = [
        (old, new) for old, new in zip(op.outputs, copies) if new.shape.rank is None and old.shape.rank is not None
    ]
    if not unknown:
        return
    pairs = list(zip(op.inputs, copies[0].op.inputs))
    may_be_shape = facts_of(op).kind != "python" and any(x.dtype.is_integer for x in op.inputs)
    if may_be_shape or not all(_alike(old.shape, new.shape) for old, new in pairs):
        return
    same = all(old.shape.rank == 0 or (old.shape[0] is not None and old.shape[0] == new.shape[0]) for old, new in pairs)
    for old, new in unknown:
        new.set_shape(old.shape if same or not old.shape.rank else [None, *old.shape[1:]])


def _alike(old: tf.TensorShape, new: tf.TensorShape) -> bool:
    """Return whether both are known to have the same rank, and the same sizes but for axis 0."""
    return old.rank is not None and old.rank == new.rank and list(old[1:]) == list(new[1:])
