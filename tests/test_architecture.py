"""Imports run one way, and one file alone touches TensorFlow's internals. Read from the syntax tree, not the text."""

import ast
import graphlib
import pathlib
import re
import subprocess
import sys

import pytest

pytestmark = pytest.mark.core

ROOT = pathlib.Path(__file__).resolve().parent.parent / "tfjac"
LAYERS = {
    "ops": 0,
    "graph": 1,
    "linear": 2,
    "steps": 3,
    "jacobians": 3,
    "objective": 4,
    "explaining": 4,
    "flops": 4,
    "interception": 4,
    "black_box": 4,
    "privacy": 4,
    "drive": 5,
    "fits": 6,
    "keras": 7,
    "laplace": 8,
    "parameters": 8,
    "explanations": 8,
    "influence": 9,
}
RUNNING = {
    "SMALL",
    "axes",
    "compiled_by_xla",
    "cond",
    "forgotten_with_graphs",
    "numbers_in_all",
    "resolution_of",
    "verified",
    "while_loop",
}
"""What the algebra of steps has of `tfjac.graph`: how ops are run, and nothing that reads a graph."""
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
PRIVATE = "graph/_private/"
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


MODULES = {("tfjac." + path[:-3].replace("/", ".")).removesuffix(".__init__"): path for path in FILES}


def sources():
    """Return the files that each file imports from: what a package shows is from where that has it."""
    of_file = {path: [module for module in imported_modules(path) if module.startswith("tfjac.")] for path in FILES}
    faces = {path: {name.rpartition(".")[2]: name for name in of_file[path]} for path in FILES if "__init__" in path}

    def file_of(module):
        if module in MODULES:
            return None if "__init__" in MODULES[module] else MODULES[module]
        package, _, name = module.rpartition(".")
        path = MODULES.get(package)
        shown = faces.get(path, {}).get(name)
        return file_of(shown) if shown not in (None, module) else path

    return {path: {file_of(module) for module in modules} - {path, None} for path, modules in of_file.items()}


def test_imports_run_in_no_circle():
    try:
        graphlib.TopologicalSorter(
            {path: found for path, found in sources().items() if "__init__" not in path}
        ).prepare()
    except graphlib.CycleError as error:
        raise AssertionError(error.args[1]) from None


def test_the_algebra_of_steps_reads_no_graph():
    found = []
    for path in FILES:
        if not path.startswith(("linear/", "steps/")):
            continue
        names = [module.removeprefix("tfjac.graph.") for module in imported_modules(path) if "tfjac.graph." in module]
        found += [f"{path} imports {name}" for name in names if name not in RUNNING]
        text = (ROOT / path).read_text()
        found += [f"{path} names {name}" for name in ("tf.Graph", "FuncGraph", "tf.Variable") if name in text]
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


JACOBIANS = {"shapes": 0, "passes": 1, "factors": 2}
"""Floors of `jacobians/`; all else stands above them."""


def floor_of(module):
    """Return the floor of `jacobians/` that a dotted name belongs to, or None for another package."""
    parts = module.split(".")
    return JACOBIANS.get(parts[2], 3) if parts[:2] == ["tfjac", "jacobians"] and len(parts) > 2 else None


def test_floors_of_the_jacobians_import_downwards():
    found = []
    for path in FILES:
        own = floor_of("tfjac." + path.removesuffix(".py").replace("/", "."))
        for module in imported_modules(path) if own in (0, 1, 2) else ():
            other = floor_of(module)
            if other is not None and other > own:
                found.append(f"{path} imports {module}")
    assert not found, found


OF_PYTHON = {"_replace", "_asdict", "_make", "_fields", "_getframe"}
"""Members with an underscore that Python documents."""


def own_names(tree):
    """Return the names that a file defines or assigns, as its own."""
    stored = [node for node in ast.walk(tree) if isinstance(getattr(node, "ctx", None), ast.Store)]
    assigned = {node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "") for node in stored}
    return assigned | {node.name for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.ClassDef))}


def private_accesses(tree, own=frozenset()):
    """Yield how a file reaches what is private to others, as dotted names.

    That is TensorFlow's and Keras' modules of that kind by attribute, as in `tf.python.ops`, and a member with an
    underscore that is read off anything but `self`, `cls` and `super()`, if no file of the folder defines that name.

    Args:
        tree: syntax tree of the file.
        own: the `own_names` of the folder.
    """
    own = own | own_names(tree) | OF_PYTHON
    for node in ast.walk(tree):
        if not isinstance(node, ast.Attribute):
            continue
        whole, holder = ast.unparse(node), ast.unparse(node.value)
        if re.fullmatch(r"(tf|tensorflow)\.(python|core)|keras\.src", whole):
            yield whole
        is_private = node.attr.startswith("_") and not node.attr.startswith("__")
        if is_private and holder not in ("self", "cls", "super()") and node.attr not in own:
            yield whole


def test_only_one_file_touches_private_tensorflow():
    private = ("tensorflow.python", "tensorflow.core", "keras.src")
    others = [path for path in FILES if not path.startswith(PRIVATE)]
    found = [
        f"{path} imports {module}; such imports belong in {PRIVATE}"
        for path in others
        for module in imported_modules(path)
        if module.startswith(private)
    ]
    trees = {path: ast.parse((ROOT / path).read_text()) for path in FILES}
    of_folder = {}
    for path in FILES:
        folder = pathlib.PurePosixPath(path).parent
        of_folder[folder] = of_folder.get(folder, frozenset()) | own_names(trees[path])
    for path in others:
        for whole in private_accesses(trees[path], of_folder[pathlib.PurePosixPath(path).parent]):
            found.append(f"{path} reaches {whole}; that belongs in {PRIVATE}")
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
    private = [path for path in FILES if path.startswith(PRIVATE)]
    assert any(module.startswith("tensorflow.python") for path in private for module in imported_modules(path))
    assert any(
        "_flatten_layers" in whole
        for path in private
        for whole in private_accesses(ast.parse((ROOT / path).read_text()))
    )
    assert {pathlib.PurePosixPath(path).parts[0] for path in FILES} >= {*LAYERS}


def test_a_file_is_one_room():
    lines = {path: (ROOT / path).read_text().count("\n") for path in FILES}
    assert not {path: number for path, number in lines.items() if number > 400}, "is each of them one idea?"


def test_functions_of_the_loop_take_few_arguments():
    found = []
    for path in FILES:
        functions = [
            node for node in ast.walk(ast.parse((ROOT / path).read_text())) if isinstance(node, ast.FunctionDef)
        ]
        for each in functions if path.startswith(("steps/", "drive/")) else ():
            names = [argument.arg for argument in each.args.posonlyargs + each.args.args + each.args.kwonlyargs]
            if len([name for name in names if name not in ("self", "cls")]) > 8:
                found.append(f"{path}: {each.name}")
    assert not found, found


NOT_SAID = re.compile(r"\b(anew|nobody|somebody)\b", re.IGNORECASE)


def test_some_words_are_not_used():
    """Plain ones are: again, not anew; who or what it is, not nobody."""
    folders = [(ROOT, "*.py"), (ROOT.parent / "docs", "*.md"), (ROOT.parent / "custom_ops", "*.[ch]*")]
    paths = [path for folder, pattern in folders for path in folder.rglob(pattern)]
    found = [path.relative_to(ROOT.parent).as_posix() for path in paths if NOT_SAID.search(path.read_text())]
    assert paths and not found, found


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


@pytest.mark.by_day(None)
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
