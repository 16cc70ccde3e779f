"""Lists of tensors (TensorArrays): items are written and read at positions, or pushed and popped."""

import dataclasses
from collections.abc import Iterable

import numpy as np
import scipy.sparse

from tfjac.jacobians.sparsity.index_sets import IndexSets, empty
from tfjac.jacobians.sparsity.lists import ListSets
from tfjac.jacobians.sparsity.rules.index_set_rules import Patterns, Step, list_rule


@list_rule("TensorListFromTensor")
def _from_tensor(step: Step) -> Patterns:
    return [ListSets(dict(enumerate(_rows(step.patterns[0], step.shape(0)[0]))))]


@list_rule("TensorListStack")
def _stack(step: Step) -> Patterns:
    """Inputs the list and the shape of an item."""
    return [_read(step, range(step.out_shape()[0]))]


@list_rule("TensorListGather")
def _gather(step: Step) -> Patterns:
    """Inputs the list, positions, the shape of an item."""
    positions = step.fixed(1)
    return [_read(step, [None] * step.out_shape()[0] if positions is None else positions)]


@list_rule("TensorListGetItem")
def _get_item(step: Step) -> Patterns:
    """Inputs the list, a position, the shape of an item."""
    return [_list(step).item(_position(step, 1), step.out_size())]


@list_rule("TensorListSetItem")
def _set_item(step: Step) -> Patterns:
    """Inputs the list, a position, the item."""
    return [_list(step).with_item(_position(step, 1), step.patterns[2])]


@list_rule("TensorListScatterIntoExistingList")
def _scatter(step: Step) -> Patterns:
    """Inputs the list, a tensor of items one above the other, their positions."""
    positions, result = step.fixed(2), _list(step)
    count = step.shape(1)[0]
    items = [None] * count if step.patterns[1] is None else _rows(step.patterns[1], count)
    for position, item in zip([None] * count if positions is None else positions, items):
        result = result.with_item(position, item)
    return [result]


@list_rule("TensorListPushBack")
def _push(step: Step) -> Patterns:
    """Inputs the list and the item."""
    before = _list(step)
    return [dataclasses.replace(before, pushed=[*before.pushed, step.patterns[1]])]


@list_rule("TensorListPopBack")
def _pop(step: Step) -> Patterns:
    """Inputs the list and the shape of an item."""
    item, rest = step.patterns[0].popped(step.out_size(1))
    return [rest, item]


def _list(step: Step) -> ListSets:
    return step.patterns[0] or ListSets()


def _position(step: Step, k: int) -> int | None:
    value = step.fixed(k)
    return None if value is None else int(value)


def _rows(pattern: IndexSets, count: int) -> list[IndexSets]:
    """The index sets of each of `count` items that lie one above the other."""
    height = pattern.shape[0] // max(count, 1)
    return [pattern[k * height : (k + 1) * height] for k in range(count)]


def _read(step: Step, positions: Iterable[int | None]) -> IndexSets | None:
    """The items at these positions, one above the other."""
    size = int(np.prod(step.out_shape()[1:], dtype=np.int64))
    found = [step.patterns[0].item(position, size) for position in positions]
    columns = next((sets.shape[1] for sets in found if sets is not None), None)
    if columns is None:
        return None
    return scipy.sparse.vstack([empty(size, columns) if sets is None else sets for sets in found], format="csr")
