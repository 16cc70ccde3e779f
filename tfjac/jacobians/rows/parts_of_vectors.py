"""Flat vectors that residuals read in parts: cameras and points in one vector, as SciPy wants them.

What a part is read for tells more of J than the whole vector does: rows of it make a table. So each part stands for a
variable of its own in J, whose columns stay where they are.
"""

import itertools
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tfjac.graph import Dependence, references, replay, source_in
from tfjac.graph.copying.constants import Constants, outputs_of
from tfjac.graph.facts import facts_of, is_identity
from tfjac.types import Array, Tensor, Variable

FEW, MANY = 256, 64
"""Elements of a vector up to which it stays whole, and parts from which on it does."""


def read_in_parts(tensors: list[Tensor], variables: Sequence[Variable | Tensor]) -> tuple[list[Tensor], list]:
    """Return tensors equal to `tensors`, and what they are computed from: `variables`, or parts of them, in order.

    A vector is taken apart if it is read by slices that are known while tracing, and have no elements in common.

    Args:
        tensors: list of tensors of the graph being traced, without calls.
    """
    graph, parts = tf.compat.v1.get_default_graph(), list[Any]()
    for variable in variables:
        source, size = source_in(graph, variable), variable.shape.num_elements()
        reads = _slices(tensors, source, size) if source is not None and size > FEW else {}
        tensors, own = _apart(tensors, reads, size) if _is_cut_by(reads) else (tensors, [variable])
        parts += own
    return tensors, parts


def _slices(tensors: Sequence[Tensor], source: Tensor, size: int) -> dict[tuple[int, int], list[Tensor]]:
    """Return by their range the slices by which a vector is read; none if it is read in another way as well."""
    constants, whole = Constants(source.graph, [source]), {source.ref(): np.arange(size)}
    found: dict[tuple[int, int], list[Tensor]] = {}
    for op in Dependence([source]).path(tensors):
        places = [whole.get(tensor.ref()) for tensor in op.inputs]
        if all(each is None for each in places):
            continue
        moved = _moved(op, places, constants)
        if moved is None:
            return {}
        for output, numbers in zip(op.outputs, moved):
            if numbers.size == size:
                whole[output.ref()] = numbers
                continue
            flat = numbers.reshape(-1)
            if not flat.size or (np.diff(flat) != 1).any():
                return {}
            found.setdefault((int(flat[0]), int(flat[-1]) + 1), []).append(output)
    return {} if references(tensors) & set(whole) else found


def _moved(op: tf.Operation, places: list[Array | None], constants: Constants) -> list[Array] | None:
    """Return which elements of a vector an op gives that moves them, or None."""
    facts = facts_of(op)
    if facts.kind == "read" or is_identity(op):
        return [places[0]]
    if facts.elements == "in order" or facts.elements == "copied" or facts.takes in ("a slice", "a strided slice"):
        given = [constants(tensor) if place is None else place for tensor, place in zip(op.inputs, places)]
        return outputs_of(op, given)
    return None


def _is_cut_by(reads: Iterable[tuple[int, int]]) -> bool:
    """Whether ranges are two or more, and have no elements in common."""
    ranges = sorted(reads)
    return 1 < len(ranges) <= MANY and all(end <= first for (_, end), (first, _) in itertools.pairwise(ranges))


def _apart(
    tensors: list[Tensor], reads: dict[tuple[int, int], list[Tensor]], size: int
) -> tuple[list[Tensor], list[Tensor]]:
    """Return tensors in which each range is read once, and these reads; zeros for elements that are not read."""
    again = [(other, tf.reshape(first, other.shape)) for first, *others in reads.values() for other in others]
    parts, end = [], 0
    for (first, last), (read, *_) in sorted(reads.items()):
        parts += [tf.zeros([first - end], read.dtype)] * (first > end) + [read]
        end = last
    parts += [tf.zeros([size - end], parts[0].dtype)] * (end < size)
    return replay(tensors, again) if again else tensors, parts
