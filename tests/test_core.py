"""The tables of the core and of the night name tests that there are; what a thinned product keeps has every value."""

import ast
import itertools
import pathlib

import pytest

from tests.core import CORE, is_core
from tests.nightly import NIGHTLY, none, one_in, values

ROOT = pathlib.Path(__file__).parent
PARTS = {"graph", "rules", "jacobians", "interception", "black_box", "ops", "optimizers"}


@pytest.mark.parametrize("table", [CORE, NIGHTLY], ids=["core", "nightly"])
def test_all_names_are_there(table):
    missing = []
    for module, names in table.items():
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


def test_a_thinned_product_keeps_every_value():
    dtypes, modes, twins = ("float32", "float64"), ("eager", "graph", "xla"), (True, False)
    cases = [dict(zip("abc", each)) for each in itertools.product(dtypes, modes, twins)]
    kept = values(cases)
    assert len(kept) == 3  # of 12: as many as the longest axis has values
    assert all({cases[k][axis] for k in kept} == {case[axis] for case in cases} for axis in "abc")
    assert none(cases) == set()
    assert one_in(5)(cases) == {0, 5, 10}


IN_PROCESSES = {
    "interception/test_strategies",
    "jacobians/test_memory",
    "ops/test_cuda_calls",
    "ops/test_memory",
    "optimizers/test_distributed_solvers",
    "optimizers/test_workers",
}
"""Files that are for the night as a whole: they start processes, whose parts have other tests by day."""


def test_other_files_keep_a_test_by_day():
    for module in NIGHTLY.keys() - IN_PROCESSES:
        tree = ast.parse((ROOT / f"{module}.py").read_text())
        defined = {n.name for n in ast.walk(tree) if isinstance(n, ast.FunctionDef) and n.name.startswith("test_")}
        assert defined - {name for name, kept in NIGHTLY[module].items() if kept is none}, module
