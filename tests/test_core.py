"""The table of the core names tests that there are, of every part."""

import ast
import pathlib

from tests.core import CORE, is_core

ROOT = pathlib.Path(__file__).parent
PARTS = {"graph", "rules", "jacobians", "interception", "black_box", "ops", "optimizers"}


def test_all_names_are_there():
    missing = []
    for module, names in CORE.items():
        path = ROOT / f"{module}.py"
        defined = [node.name for node in ast.parse(path.read_text()).body if isinstance(node, ast.FunctionDef)]
        missing += [f"{module}::{name}" for name in names if name not in defined]
    assert not missing, "\n".join(missing)


def test_every_part_has_a_core():
    assert {module.split("/")[0] for module in CORE if "/" in module} >= PARTS


def test_the_table_says_which():
    assert is_core(ROOT / "test_core.py", "test_anything")
    assert is_core(ROOT / "optimizers" / "test_fit.py", "test_every_solver_trains_alike")
    assert not is_core(ROOT / "optimizers" / "test_fit.py", "test_convolutions")
    assert not is_core(ROOT / "test_examples.py", "test_anything")
