"""What a mutant has to survive: the cases of rules, and the tests that need no more than parameters and numbers."""

import functools
import inspect
import itertools
import re

import numpy as np

from tests.graph import test_custom_gradients, test_example_axis, test_symbolic_sizes
from tests.jacobians import (
    test_complex,
    test_control_flow,
    test_fallback,
    test_segments,
    test_sizes_of_one,
    test_tables,
    test_vectorized_map,
    test_weight_paths,
)
from tests.rules.cases import APART, MIXING
from tests.rules.running import check, check_mixes

MODULES = [
    test_custom_gradients,
    test_example_axis,
    test_symbolic_sizes,
    test_complex,
    test_control_flow,
    test_fallback,
    test_segments,
    test_sizes_of_one,
    test_tables,
    test_vectorized_map,
    test_weight_paths,
]
RUNS = [(check, APART), (check_mixes, MIXING)]
FIXTURES = {"rng": lambda: np.random.default_rng(20260), "record_coverage": lambda: lambda layer, way: None}


def checks(pattern=""):
    """List the checks whose names match `pattern`: pairs of their kind and a function that raises where it fails."""
    found = [(case.name, run, functools.partial(run, case)) for run, cases in RUNS for case in cases]
    found += [test for module in MODULES for test in _tests_of(module)]
    return [(kind, run) for name, kind, run in found if re.search(pattern, name)]


def _tests_of(module):
    """The tests of a module whose arguments are parameters or `FIXTURES`, for all parameters: name, test, function."""
    for name, test in inspect.getmembers(module, inspect.isfunction):
        marks = [mark for mark in getattr(test, "pytestmark", ()) if mark.name == "parametrize"]
        known = {*FIXTURES, *(argument for mark in marks for argument in _arguments(mark))}
        if not name.startswith("test_") or not known.issuperset(inspect.signature(test).parameters):
            continue
        for chosen in itertools.product(*map(_choices, marks)):
            parameters = {argument: value for choice in chosen for argument, value in choice.items()}
            said = " ".join(map(str, parameters.values()))
            yield f"{name} {said}", test, functools.partial(_run, test, parameters)


def _arguments(mark):
    names = mark.args[0]
    return [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)


def _choices(mark):
    """The values of the parameters of one mark, by argument."""
    names = _arguments(mark)
    return [dict(zip(names, [value] if len(names) == 1 else value)) for value in mark.args[1]]


def _run(test, parameters):
    own = [name for name in inspect.signature(test).parameters if name not in parameters]
    test(**parameters, **{name: FIXTURES[name]() for name in own})
