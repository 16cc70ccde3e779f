"""Where gradients flow, as a tree of text: from ys, layer by layer, to every x."""

from typing import Any


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
