"""What `explain_gradient` found: data that prints."""

import dataclasses
from collections.abc import Iterator
from typing import Any


@dataclasses.dataclass(frozen=True)
class Stop:
    """An op at which a gradient stops.

    Attributes:
        op, type: its name and type.
        layer: path of the layer that it belongs to, "" outside layers.
        source: the `SourceLine` of the program that made it, or None.
        kind: what stops the gradient: a key of `tfjac.graph.STOPS`.
        reason: why, a clause about the op.
        remedy: what to do about it.

    Where a function cannot be traced, as it asks tensors for their values, there is a line alone, and `op` is "".
    """

    op: str
    type: str
    layer: str
    source: object
    kind: str
    reason: str
    remedy: str

    def __str__(self):
        if not self.op:
            return f"line {self.source}, `{self.source.text}`, {self.reason}"
        where = ", ".join(str(part) for part in (self.layer and f"layer {self.layer}", self.source) if part)
        return f"op {self.op!r} of type {self.type}{f' ({where})' if where else ''}, {self.reason}"


@dataclasses.dataclass(frozen=True)
class NodeGradient:
    """The gradient of Σ ys with respect to what an op gives, in numbers.

    Attributes:
        op, type, layer, source: as in `Stop`; of x itself the type is "x".
        norm: Euclidean norm of the gradient; not finite where an element is not.
        zeros: share of the elements that are zero.
        edit: what of tfjac put the op there, or changes its gradient: a hook, an edit or a rule; "" where nothing did.
    """

    op: str
    type: str
    layer: str
    source: object
    norm: float
    zeros: float
    edit: str = ""


@dataclasses.dataclass(frozen=True)
class GradientPath:
    """Whether ys have a gradient with respect to one x, and if not, where it is lost.

    Attributes:
        name: name of x.
        verdict: "connected"; by its numbers "zero", "vanishing", "exploding" or "not finite"; without a gradient
            "lost", "assigned", "not used", "made again", "another graph" or "not floating-point".
        reason: the verdict in a sentence.
        remedy: what to do about it, "" where there is nothing to do.
        stops: tuple of `Stop`: where gradients stop. With the verdict "connected" other paths lead around them.
        nodes: tuple of `NodeGradient`, from ys back to x; empty where numbers were not to be had.
        notes: tuple of what else to know, such as that x is not trainable.
    """

    name: str
    verdict: str
    reason: str
    remedy: str = ""
    stops: tuple[Stop, ...] = ()
    nodes: tuple[NodeGradient, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def connected(self) -> bool:
        """Whether TensorFlow gives a gradient, be it zero."""
        return self.verdict in ("connected", "zero", "vanishing", "exploding", "not finite")

    def __str__(self):
        lines = [f"{self.name}: {self.verdict}. {self.reason}"]
        lines += [f"  stops at {stop}" for stop in self.stops]
        lines += [f"  {note}" for note in self.notes]
        lines += [f"  to do: {self.remedy}"] if self.remedy else []
        return "\n".join(lines + [f"  {line}" for line in _chain(self.nodes)])


@dataclasses.dataclass(frozen=True)
class GradientReport:
    """What `explain_gradient` says of every x: a sequence of `GradientPath`, in the order of xs.

    Attributes:
        paths: tuple of `GradientPath`.
    """

    paths: tuple[GradientPath, ...]

    def __iter__(self) -> Iterator[GradientPath]:
        return iter(self.paths)

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, key: int | str) -> GradientPath:
        """Return the path of an x by its place, or by its name."""
        if isinstance(key, str):
            for path in self.paths:
                if path.name == key:
                    return path
            raise KeyError(f"no x of that name; there are {[path.name for path in self.paths]}. Received: {key!r}")
        return self.paths[key]

    @property
    def connected(self) -> bool:
        """Whether every x has a gradient."""
        return all(path.connected for path in self.paths)

    def tree(self) -> str:
        """Return where gradients flow as text: a tree from ys, layer by layer with the norm there, to every x."""
        return tree_of(self.paths)

    def __str__(self):
        width = max(len(path.name) for path in self.paths)
        table = [f"{path.name.ljust(width)}  {path.verdict}{_norm_of(path)}" for path in self.paths]
        told = [path for path in self.paths if path.verdict != "connected" or path.stops or path.notes]
        return "\n\n".join(["\n".join(table), *map(str, _together(told))])

    def _repr_pretty_(self, printer, cycle):
        """Show the whole report at the end of a cell of a notebook."""
        printer.text(str(self))

    def __repr__(self):
        verdicts = ", ".join(f"{path.name}: {path.verdict}" for path in self.paths)
        return f"GradientReport({verdicts})"


def _together(paths):
    """The paths, those of which the same is to be said told as one, with the gradient node by node of the first."""
    alike: dict[tuple, list[GradientPath]] = {}
    for path in paths:
        reason = path.reason if path.verdict != "connected" else ""
        alike.setdefault((path.verdict, reason, path.stops, path.notes), []).append(path)
    return [dataclasses.replace(same[0], name=", ".join(path.name for path in same)) for same in alike.values()]


def _norm_of(path):
    return f"  norm {path.nodes[-1].norm:.3g}" if path.nodes else ""


def _chain(nodes):
    """The gradient node by node, as a table."""
    if not nodes:
        return []
    rows = [("gradient at", "norm", "zeros")]
    rows += [(f"{node.op} ({node.type})", f"{node.norm:.3g}", f"{node.zeros:.0%}") for node in nodes]
    width = max(len(row[0]) for row in rows)
    return [f"{name.ljust(width)}  {norm:>9}  {zeros:>6}" for name, norm, zeros in rows]


def tree_of(paths):
    """Return lines: one for each layer, or op outside of layers, that a gradient comes by, indented where ways part.

    Args:
        paths: sequence of `GradientPath`.
    """
    root: dict[str, Any] = {}
    for path in paths:
        level = root
        for name, norm in _stages(path.nodes):
            level = level.setdefault(name, (norm, {}))[1]
    rows = [("gradient at", "norm"), *_rows(root, "")]
    width = max(len(name) for name, _ in rows)
    lines = [f"{name.ljust(width)}  {norm:>9}" for name, norm in rows]
    return "\n".join(lines + [f"no way to {path.name}: {path.verdict}" for path in paths if not path.nodes])


def _stages(nodes):
    """Return pairs of a name and a norm: of ops in a row that are of one layer, the first."""
    stages: list[Any] = []
    for node in nodes:
        name = node.op if node.type == "x" else node.layer or f"{node.op} ({node.type})"
        if not stages or stages[-1][0] != name:
            stages.append((name, f"{node.norm:.3g}"))
    return stages


def _rows(level, indent):
    """Yield the name, drawn, and the norm of all below: a single child stands under its parent, several branch off."""
    names = list(level)
    for name in names:
        norm, below = level[name]
        last = name == names[-1]
        mark, further = ("", "") if len(names) == 1 else ("└─ ", "   ") if last else ("├─ ", "│  ")
        yield indent + mark + name, norm
        yield from _rows(below, indent + further)
