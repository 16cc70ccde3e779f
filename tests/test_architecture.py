"""Imports run one way, and one file alone touches TensorFlow's internals. Read from the syntax tree, not the text."""

import ast
import pathlib
import re
import subprocess
import sys

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
    "privacy": 3,
    "laplace": 4,
    "parameters": 4,
    "explanations": 4,
}
WINGS = {
    "facts": 0,
    "_private": 1,
    "reading": 2,
    "running": 2,
    "gradients": 3,
    "copying": 4,
    "nodes": 5,
    "paths": 5,
    "examples": 6,
    "targets": 6,
    "op_facts": 7,
    "op_types": 8,
}
"""The wings of `graph/`, and the floors that they stand on."""
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


def test_imports_run_one_way():
    found = []
    for path in FILES:
        own = pathlib.PurePosixPath(path).parts[0]
        if own not in LAYERS:  # the package itself, or the public checkers
            continue
        for module in imported_modules(path):
            other = layer_of(module)
            if other is not None and other != own and not LAYERS[other] < LAYERS[own]:
                found.append(f"{path} imports {module}")
    assert not found, found


def wing_of(module):
    """Return the wing of `graph/` that a dotted name belongs to, or None."""
    parts = module.split(".")
    return parts[2] if parts[:2] == ["tfjac", "graph"] and len(parts) > 2 and parts[2] in WINGS else None


def test_wings_of_the_graph_import_downwards():
    found = []
    for path in FILES:
        parts = pathlib.PurePosixPath(path).with_suffix("").parts
        if parts[0] != "graph" or parts[1] == "__init__":
            continue
        assert parts[1] in WINGS, f"{path} stands outside the wings"
        for module in imported_modules(path):
            other = wing_of(module)
            if module == "tfjac.graph" or other in (None, parts[1]):
                continue
            if not WINGS[other] < WINGS[parts[1]]:
                found.append(f"{path} imports {module}")
    assert not found, found


def owned_names(tree):
    """Return the names of attributes and methods that the package's classes have themselves."""
    assigned = {
        node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)
    }
    defined = {node.name for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.ClassDef))}
    stated = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    return assigned | defined | stated


OURS = set().union(*(owned_names(ast.parse((ROOT / path).read_text())) for path in FILES))
OF_NAMED_TUPLES = {"_replace", "_asdict", "_make", "_fields"}


def private_accesses(tree):
    """Yield how code reaches what is private to others: dotted names, and members with an underscore that are not ours.

    `ast.unparse` gives the dotted name, so that `tf.python.ops` is seen as well as an import of it. A member with an
    underscore is ours if it is read off `self` or `cls`, or if any class of the package has one of that name.
    """
    for node in ast.walk(tree):
        if not isinstance(node, ast.Attribute):
            continue
        whole = ast.unparse(node)
        if re.match(r"(tf|tensorflow)\.(python|core)\b|keras\.src\b", whole):
            yield whole
        name = node.attr
        if name.startswith("_") and not name.startswith("__") and name not in OURS | OF_NAMED_TUPLES:
            yield whole
        strings = [each.value for each in ast.walk(node) if isinstance(each, ast.Constant)]
        yield from (each for each in strings if isinstance(each, str) and each.startswith("tensorflow.python"))


def test_only_one_file_touches_private_tensorflow():
    private = ("tensorflow.python", "tensorflow.core", "keras.src")
    others = [path for path in FILES if path != PRIVATE]
    found = [
        f"{path} imports {module}; such imports belong in {PRIVATE}"
        for path in others
        for module in imported_modules(path)
        if module.startswith(private)
    ]
    trees = {path: ast.parse((ROOT / path).read_text()) for path in others}
    found += [
        f"{path} reaches {whole}; that belongs in {PRIVATE}"
        for path in others
        for whole in private_accesses(trees[path])
    ]
    assert not found, found


@pytest.mark.parametrize(
    "code",
    [
        "tf.python.framework.ops",
        "x = keras.src.backend",
        "layer._flatten_layers()",
        "strategy.extended._get_cross(x)._all_reduce()",
    ],
)
def test_private_accesses_are_seen(code):
    assert list(private_accesses(ast.parse(code)))


def test_the_rules_are_not_vacuous():
    assert PRIVATE in FILES
    assert any(module.startswith("tensorflow.python") for module in imported_modules(PRIVATE))
    assert {pathlib.PurePosixPath(path).parts[0] for path in FILES} >= {"ops", "graph", "black_box", "optimizers"}


def test_a_file_is_one_room():
    lines = {path: (ROOT / path).read_text().count("\n") for path in FILES}
    assert not {path: number for path, number in lines.items() if number > 400}, "is each of them one idea?"


HEAVY = ("scipy.stats", "pandas", "matplotlib")
"""What is imported where it is used: it takes long, or may not be there."""


def test_heavy_packages_are_imported_where_they_are_used():
    found = []
    for path in FILES:
        for node in ast.parse((ROOT / path).read_text()).body:
            names = [alias.name for alias in node.names] if isinstance(node, (ast.Import, ast.ImportFrom)) else []
            base = f"{node.module}." if isinstance(node, ast.ImportFrom) and node.module else ""
            found += [f"{path} imports {base}{name}" for name in names if f"{base}{name}".startswith(HEAVY)]
    assert not found, found


def test_tfjac_is_imported_without_them():
    """In a process where they cannot be imported; Keras does without them, too."""
    program = f"""
import sys
class Refused:
    def find_spec(self, name, path=None, target=None):
        if name.startswith({HEAVY + ("sklearn",)!r}):
            raise ImportError(name)
sys.meta_path.insert(0, Refused())
import tfjac
assert not [name for name in sys.modules if name.startswith({HEAVY!r})]
print(tfjac.__file__)
"""
    found = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT.parent, capture_output=True, text=True, check=False
    )
    assert found.returncode == 0, found.stderr
    assert found.stdout.startswith(str(ROOT))
