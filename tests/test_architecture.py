"""Imports run one way, and one file alone touches TensorFlow's internals. Read from the syntax tree, not the text."""

import ast
import pathlib

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent / "tfjac"
LAYERS = {
    "ops": 0,
    "graph": 1,
    "jacobians": 2,
    "explaining": 3,
    "flops": 3,
    "interception": 3,
    "black_box": 3,
    "optimizers": 3,
    "laplace": 4,
}
PRIVATE = "graph/_private.py"
FILES = sorted(path.relative_to(ROOT).as_posix() for path in ROOT.rglob("*.py"))


def imported_modules(path):
    """List the absolute names of everything that the file imports, wherever in the file."""
    package = ("tfjac", *pathlib.PurePosixPath(path).parent.parts)
    for node in ast.walk(ast.parse((ROOT / path).read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = ".".join(package[: len(package) - node.level + 1]) if node.level else ""
            module = ".".join(part for part in (base, node.module) if part)
            yield module
            yield from (f"{module}.{alias.name}" for alias in node.names)


def layer_of(module):
    """Return the layer that a dotted name belongs to, or None."""
    parts = module.split(".")
    return parts[1] if parts[0] == "tfjac" and len(parts) > 1 and parts[1] in LAYERS else None


@pytest.mark.parametrize("path", FILES)
def test_imports_run_one_way(path):
    own = pathlib.PurePosixPath(path).parts[0]
    if own not in LAYERS:
        pytest.skip("not a layer: the package itself, or the public checkers")
    for module in imported_modules(path):
        other = layer_of(module)
        if other is not None and other != own:
            assert LAYERS[other] < LAYERS[own], f"{path} imports {module}"


@pytest.mark.parametrize("path", [path for path in FILES if path != PRIVATE])
def test_only_one_file_touches_private_tensorflow(path):
    private = [m for m in imported_modules(path) if m.startswith(("tensorflow.python", "tensorflow.core", "keras.src"))]
    assert not private, f"{path} imports {private}; such imports belong in {PRIVATE}"


def test_the_rules_are_not_vacuous():
    assert PRIVATE in FILES
    assert any(module.startswith("tensorflow.python") for module in imported_modules(PRIVATE))
    assert {pathlib.PurePosixPath(path).parts[0] for path in FILES} >= {"ops", "graph", "black_box", "optimizers"}


@pytest.mark.parametrize("path", FILES)
def test_a_file_is_one_room(path):
    lines = (ROOT / path).read_text().count("\n")
    assert lines <= 400, f"{path} has {lines} lines: is it one idea?"
