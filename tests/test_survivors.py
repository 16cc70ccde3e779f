"""The list of mutants that live names code that is there; whether they live is shown by `make mutate` alone."""

import ast
import pathlib

import pytest

from tests.mutation.survivors import known

ROOT = pathlib.Path(__file__).resolve().parent.parent / "tfjac"


def functions_of(module):
    path = ROOT / module
    tree = ast.parse(path.read_text()) if path.exists() else ast.Module([], [])
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


@pytest.mark.by_day(None)
def test_the_listed_functions_are_there():
    functions = {module: functions_of(module) for module, _, _ in known()}
    gone = {(module, name) for module, name, _ in known() if name not in functions[module]}
    assert functions and not gone, gone
