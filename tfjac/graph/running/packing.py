"""Scalars, and columns, of a record as one tensor: what loops, branches and choices hand on is then few.

Each tensor that a loop hands on is a parameter of its condition, one of its body and a result of both, which takes
longer to trace than most formulas do.
"""

from typing import Any

import tensorflow as tf

from tfjac.types import Tensor


class Packing:
    """Tensors of a nest, those of one dtype that are scalars, or are vectors, as one with one axis more, the last.

    Args:
        nest: nest of tensors.
        rank: up to which rank tensors are packed. Vectors are as long as others of the same static shape.
    """

    def __init__(self, nest: Any, rank: int = 0) -> None:
        self._nest, groups = nest, {}  # type: ignore[var-annotated]
        for place, each in enumerate(tf.nest.flatten(nest)):
            kind = (each.dtype, *each.shape) if tf.is_tensor(each) and _is_plain(each, rank) else place
            groups.setdefault(kind, []).append(place)
        self._groups: list[list[int]] = list(groups.values())

    def pack(self, nest: Any) -> list[Tensor]:
        """Return tensors of a nest like the one given, packed, a list."""
        flat = tf.nest.flatten(nest)
        return [_stacked([flat[place] for place in places]) for places in self._groups]

    def unpack(self, packed: Any) -> Any:
        """Return the nest of what was packed."""
        flat: list[Any] = [None] * sum(map(len, self._groups))
        for places, tensor in zip(self._groups, packed):
            parts = [tensor] if len(places) == 1 else tf.unstack(tensor, len(places), axis=-1)
            for place, part in zip(places, parts):
                flat[place] = part
        return tf.nest.pack_sequence_as(self._nest, flat)


def _is_plain(tensor: Tensor, rank: int) -> bool:
    known = tensor.shape.rank is not None and tensor.shape.rank <= rank
    return known and tensor.dtype not in (tf.resource, tf.variant, tf.string)


def _stacked(tensors: list) -> Any:
    return tensors[0] if len(tensors) == 1 else tf.stack(tensors, axis=-1)
