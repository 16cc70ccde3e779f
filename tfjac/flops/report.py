"""What `count_flops` found: numbers, rows by layer and by type of op, and a table that prints."""

import collections
import dataclasses
from typing import Any

_MOST_LISTED, _OUTSIDE = 10, "(outside layers)"


@dataclasses.dataclass(frozen=True)
class FlopRow:
    """The floating-point operations of all ops of one layer, or of one type.

    Attributes:
        name: path of the layer, "" outside layers; or the type of op.
        forward, backward: floating-point operations of each pass, as far as they can be told.
    """

    name: str
    forward: int
    backward: int


@dataclasses.dataclass(frozen=True)
class FlopCount:
    """The floating-point operations of a forward and a backward pass.

    Attributes:
        ops: tuple of `OpFlops`: every op of both passes, those in loops and branches too.
        pruned: tuple of `OpFlops` that TensorFlow makes for the gradient and that it does not need; none of the sums
            counts them.
        measurements: tuple of a `Measurement` for each layer, the slowest first; empty where none was asked for.
    """

    ops: tuple
    pruned: tuple
    measurements: tuple = ()

    @property
    def forward(self) -> int:
        """Floating-point operations of the forward pass, as far as they can be told: see `uncounted`."""
        return sum(each.flops or 0 for each in self.ops if not each.backward)

    @property
    def backward(self) -> int:
        """Floating-point operations that the gradient takes beyond the forward pass."""
        return sum(each.flops or 0 for each in self.ops if each.backward)

    @property
    def total(self) -> int:
        """Floating-point operations of both passes."""
        return self.forward + self.backward

    @property
    def uncounted(self) -> tuple[Any, ...]:
        """Tuple of the `OpFlops` that say nothing, or not all: open shapes, no formula, loops of unknown length."""
        return tuple(each for each in self.ops if each.reason)

    @property
    def by_layer(self) -> tuple[FlopRow, ...]:
        """Tuple of a `FlopRow` for each layer, in the order of the forward pass."""
        return self._rows("layer")

    @property
    def by_type(self) -> tuple[FlopRow, ...]:
        """Tuple of a `FlopRow` for each type of op that counts anything, the largest first."""
        rows = self._rows("type")
        return tuple(sorted(rows, key=lambda row: -(row.forward + row.backward)))

    def _rows(self, key):
        sums: dict[str, list[int]] = collections.defaultdict(lambda: [0, 0])
        for each in self.ops:
            if each.flops:
                sums[getattr(each, key)][each.backward] += each.flops
        return tuple(FlopRow(name, *counts) for name, counts in sums.items())

    def __str__(self):
        lines = [*_table("layer", self.by_layer), "", *_table("op type", self.by_type), *_measured(self.measurements)]
        return "\n".join(lines + _notes("not counted, or not wholly", self.uncounted) + _notes("pruned", self.pruned))

    def _repr_pretty_(self, printer, cycle):
        """Show the whole report at the end of a cell of a notebook."""
        printer.text(str(self))

    def __repr__(self):
        return f"FlopCount(forward={self.forward}, backward={self.backward}, uncounted={len(self.uncounted)} ops)"


def _table(title, rows):
    total = FlopRow("total", sum(row.forward for row in rows), sum(row.backward for row in rows))
    names = [row.name or _OUTSIDE for row in rows] + ["total"]
    cells = [[name, f"{row.forward:,}", f"{row.backward:,}"] for name, row in zip(names, [*rows, total])]
    return _aligned([[title, "forward", "backward"], *cells])


def _measured(measurements):
    if not measurements:
        return []
    cells = [["layer", "forward ms", "backward ms", "forward kB", "backward kB"]]
    for each in measurements:
        milliseconds = [f"{1e3 * seconds:.3f}" for seconds in (each.forward_seconds, each.backward_seconds)]
        kilobytes = [f"{size / 1e3:,.1f}" for size in (each.forward_bytes, each.backward_bytes)]
        cells.append([each.layer or _OUTSIDE, *milliseconds, *kilobytes])
    return ["", *_aligned(cells)]


def _aligned(cells):
    widths = [max(map(len, column)) for column in zip(*cells)]
    return [
        "  ".join([row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:]))]).rstrip()
        for row in cells
    ]


def _notes(title, ops):
    if not ops:
        return []
    told = [f"  {each.type} {each.name!r}: {each.reason or f'{each.flops:,}'}" for each in ops[:_MOST_LISTED]]
    more = [f"  and {len(ops) - _MOST_LISTED} more"] if len(ops) > _MOST_LISTED else []
    return ["", f"{title}:", *told, *more]
