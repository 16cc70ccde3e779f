"""What runs by day: a thinned product has every value, each part has a core, and each file a test."""

import ast
import itertools
import pathlib

import pytest

from tests.days import SHARE, is_drawn, kept_by_day, values

pytestmark = pytest.mark.core

ROOT = pathlib.Path(__file__).parent
PARTS = {"graph", "rules", "jacobians", "interception", "black_box", "ops", "optimizers"}

IN_PROCESSES = {
    "interception/test_strategies",
    "jacobians/test_memory",
    "ops/test_cuda_calls",
    "ops/test_memory",
    "optimizers/test_distributed_solvers",
    "optimizers/test_workers",
    "privacy/test_dp_replicas",
    "test_survivors",
}
"""Files that are for the night as a whole: they start processes, whose parts have other tests by day."""


def _marked(path):
    """Return the source of the decorators of each test of a file, a dict from names, and of what marks all of them."""
    tree = ast.parse(path.read_text())
    tests = [each for each in tree.body if isinstance(each, ast.FunctionDef) and each.name.startswith("test_")]
    whole = [
        ast.unparse(each.value)
        for each in tree.body
        if isinstance(each, ast.Assign) and "pytestmark" in ast.unparse(each)
    ]
    return {each.name: " ".join(map(ast.unparse, each.decorator_list)) for each in tests}, " ".join(whole)


FILES = {path.relative_to(ROOT).with_suffix("").as_posix(): _marked(path) for path in sorted(ROOT.rglob("test_*.py"))}


def test_every_part_has_a_core():
    core = {
        name
        for name, (tests, whole) in FILES.items()
        if "mark.core" in whole or "mark.core" in " ".join(tests.values())
    }
    assert {name.split("/")[0] for name in core if "/" in name} >= PARTS


def test_files_keep_a_test_by_day():
    without = {
        name for name, (tests, _) in FILES.items() if tests and all("by_day(None)" in each for each in tests.values())
    }
    assert without == IN_PROCESSES


def test_a_test_says_once_which_cases_run_by_day():
    assert not [name for name, (tests, _) in FILES.items() if any(each.count("by_day(") > 1 for each in tests.values())]


def test_a_thinned_product_keeps_every_value():
    dtypes, modes, twins = ("float32", "float64"), ("eager", "graph", "xla"), (True, False)
    cases = [dict(zip("abc", each)) for each in itertools.product(dtypes, modes, twins)]
    kept = values(cases)
    assert len(kept) == 3  # of 12: as many as the longest axis has values
    assert all({cases[k][axis] for k in kept} == {case[axis] for case in cases} for axis in "abc")
    assert kept_by_day(cases, "values") == kept and kept_by_day(cases, None) == set()
    assert kept_by_day(cases, one_in=5) == {0, 5, 10}
    with pytest.raises(ValueError, match="Received: 'some'"):
        kept_by_day(cases, "some")


def test_each_commit_draws_other_cases_of_the_night():
    cases = [f"tests/test_a.py::test_b[{k}]" for k in range(4000)]
    drawn = [{case for case in cases if is_drawn(case, commit)} for commit in ("abc", "abd")]
    assert all(0.7 * len(cases) < SHARE * len(each) < 1.3 * len(cases) for each in drawn)
    assert len(drawn[0] & drawn[1]) < len(drawn[0]) / 4 and not any(is_drawn(case, "") for case in cases)
