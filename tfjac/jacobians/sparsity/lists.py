"""Index sets of lists of tensors (TensorArrays), as loops read and write them."""

import dataclasses
from typing import Any

from tfjac.jacobians.sparsity.index_sets import IndexSets, all_elements, repeated, union


@dataclasses.dataclass
class ListSets:
    """Index sets of the items of a list.

    Attributes:
        items: dict from position to the index sets of the item there; one that is missing depends on nothing.
        pushed: list of index sets, or None for nothing, of what was pushed on top of it.
        anywhere: index sets that an item at any position may have besides, or None; a single row stands for all
            elements of an item.
    """

    items: dict[int, IndexSets] = dataclasses.field(default_factory=dict)
    pushed: list[IndexSets | None] = dataclasses.field(default_factory=list)
    anywhere: IndexSets | None = None

    def item(self, position: int | None, size: int) -> IndexSets | None:
        """Return the index sets of the item of `size` elements at `position`, or at any where that is None."""
        if position is None or self.pushed:
            parts = [*self.items.values(), *self.pushed, self.anywhere]
        else:
            parts = [self.items.get(position), self.anywhere]
        parts = [spread_over(part, size) for part in parts if part is not None]
        return union(parts) if parts else None

    def with_item(self, position: int | None, sets: IndexSets | None) -> "ListSets":
        """Return the list with an item of these index sets, None for nothing, at `position`, or at any where None."""
        if position is not None and not self.pushed:
            rest = {key: known for key, known in self.items.items() if key != position}
            return dataclasses.replace(self, items=rest if sets is None else rest | {position: sets})
        return self if sets is None else dataclasses.replace(self, anywhere=_either(self.anywhere, sets))

    def popped(self, size: int) -> tuple[IndexSets | None, "ListSets"]:
        """Return the index sets of the item of `size` elements on top, and the list without it."""
        if not self.pushed:
            return self.item(None, size), self
        rest = dataclasses.replace(self, pushed=self.pushed[:-1])
        return ListSets(items={0: self.pushed[-1]}, anywhere=self.anywhere).item(0, size), rest

    def all_elements(self) -> IndexSets | None:
        """Return what all elements of all items depend on together, as a single row, or None for nothing."""
        parts = [part for part in [*self.items.values(), *self.pushed, self.anywhere] if part is not None]
        return union([all_elements(part) for part in parts]) if parts else None

    def sizes(self) -> dict[Any, tuple]:
        """Return the number of entries of each of its parts."""
        named = [*self.items.items(), *enumerate(self.pushed, start=-len(self.pushed)), ("anywhere", self.anywhere)]
        return {name: (part.shape, part.nnz) for name, part in named if part is not None}

    def __add__(self, other: "ListSets") -> "ListSets":
        items = {k: _either(self.items.get(k), other.items.get(k)) for k in {*self.items, *other.items}}
        if len(self.pushed) == len(other.pushed):
            pushed, loose = [_either(*pair) for pair in zip(self.pushed, other.pushed)], None
        else:
            pushed, loose = [], ListSets(pushed=self.pushed + other.pushed).all_elements()
        return ListSets(items, pushed, _either(_either(self.anywhere, other.anywhere), loose))


def spread_over(sets: IndexSets, size: int) -> IndexSets:
    """Return `sets`, or where they are a single row, this row for each of `size` elements."""
    return sets if sets.shape[0] == size else repeated(sets, size)


def _either(left: IndexSets | None, right: IndexSets | None) -> IndexSets | None:
    """The union of index sets of one item or two; of all their elements, where the items differ in size."""
    if left is None or right is None:
        return right if left is None else left
    if left.shape != right.shape:
        left, right = all_elements(left), all_elements(right)
    return left + right
