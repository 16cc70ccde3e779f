"""Types of the public API: every signature has them, they are those of the options, and a checker finds them."""

import ast
import dataclasses
import functools
import inspect
import pathlib
import re
import subprocess
import sys
import types
import typing

import pytest

import tfjac
import tfjac.callbacks
import tfjac.manifolds
import tfjac.ops
import tfjac.optimizers
import tfjac.testing
import tfjac.types
from tfjac.black_box import estimators
from tfjac.black_box.measurement import ON_FAILURE
from tfjac.drive import options as module_of_options
from tfjac.drive.options import Options
from tfjac.explaining.report import GradientPath
from tfjac.fits import least_squares as module_of_least_squares
from tfjac.fits.results.curve_fit_result import Deviations
from tfjac.fits.results.statistics import Statistics
from tfjac.graph.nodes import Node
from tfjac.interception import Hook
from tfjac.interception.intercept import Intercepted
from tfjac.jacobians.full import MODES
from tfjac.laplace.laplace import STRUCTURES
from tfjac.laplace.likelihoods import LIKELIHOODS
from tfjac.laplace.posterior import AVERAGES, Prediction
from tfjac.linear.solvers import SOLVERS
from tfjac.linear.solvers.preconditioners import KINDS
from tfjac.linear.solvers.schur_jacobi import KINDS_OF_BLOCKS
from tfjac.objective.robust import LOSSES
from tfjac.ops import OpsInfo
from tfjac.steps.damping import DAMPINGS
from tfjac.steps.damping.scaling import SCALINGS

ROOT = pathlib.Path(tfjac.__file__).resolve().parent
MODULES = (
    tfjac, tfjac.optimizers, tfjac.callbacks, tfjac.manifolds, tfjac.handlers, tfjac.rules, estimators, tfjac.testing,
    tfjac.ops, tfjac.models, tfjac.parameters,
)  # fmt: skip
RETURNED = (Deviations, GradientPath, Hook, Intercepted, Node, OpsInfo, Prediction, Statistics)
"""Classes that are not exported, and that users meet all the same."""

SPECIAL = ("__init__", "__call__", "__getitem__", "__iter__", "__len__", "__enter__", "__exit__", "__add__", "__radd__")


def exported(module):
    """Pairs of a name and what it names: those of `__all__`, or else what is defined in the module."""
    names = getattr(module, "__all__", None)
    if names is not None:
        return [(name, getattr(module, name)) for name in names]
    own = [(name, value) for name, value in vars(module).items() if not name.startswith("_")]
    return [(name, value) for name, value in own if getattr(value, "__module__", None) == module.__name__]


def functions_of(value):
    """Functions behind an attribute of a class: a property has one or two."""
    if isinstance(value, property):
        return [each for each in (value.fget, value.fset) if each is not None]
    if isinstance(value, functools.cached_property):
        return [value.func]
    if isinstance(value, (classmethod, staticmethod)):
        return [value.__func__]
    return [value] if inspect.isfunction(value) else []


def public_functions():
    """Dict from names to all public functions, and public methods and properties of public classes, of tfjac."""
    found, classes = {}, set(RETURNED)
    for module in MODULES:
        for name, value in exported(module):
            if inspect.isclass(value):
                classes.add(value)
            elif callable(value) and not isinstance(value, types.ModuleType):
                found[f"{module.__name__}.{name}"] = value
    bases = {base for each in classes for base in each.__mro__ if base.__module__.startswith("tfjac.")}
    for each in bases:
        for name, value in vars(each).items():
            if not name.startswith("_") or name in SPECIAL:
                for k, function in enumerate(functions_of(value)):
                    if function.__module__.startswith("tfjac."):  # and not what Keras or an Enum put there
                        found[f"{each.__module__}.{each.__qualname__}.{name}" + "=" * k] = function
    return found


FUNCTIONS = public_functions()


def test_there_is_something_to_look_at():
    assert len(FUNCTIONS) > 300
    assert "tfjac.jacobian" in FUNCTIONS and any(name.endswith("LeastSquaresResult.covariance") for name in FUNCTIONS)


def test_every_public_signature_has_types():
    untyped = []
    for name, function in FUNCTIONS.items():
        signature = inspect.signature(function)
        missing = [
            each.name
            for each in signature.parameters.values()
            if each.annotation is each.empty and each.name not in ("self", "cls", "_cls")
        ]
        missing += ["return"] if signature.return_annotation is signature.empty else []
        untyped += [f"{name}: {', '.join(missing)}"] if missing else []
    assert not untyped, "\n".join(untyped)


def test_every_type_can_be_resolved():
    """Such as those in quotes: their names are known in the module."""
    for name, function in FUNCTIONS.items():
        assert isinstance(typing.get_type_hints(inspect.unwrap(function)), dict), name


def test_least_squares_shows_what_options_holds():
    parameters = dict(inspect.signature(tfjac.least_squares).parameters)
    for name in ("residuals", "variables", "args"):
        del parameters[name]
    fields = {field.name: field for field in dataclasses.fields(Options)}
    assert {name: (each.default, each.annotation) for name, each in parameters.items()} == {
        name: (field.default, field.type) for name, field in fields.items()
    }


def test_a_checker_sees_what_options_holds():
    """The overload for one problem lists names, types and defaults of the options, but for the type of a callback."""
    one, many, _ = listed_in(module_of_least_squares, "least_squares")
    (fields,) = listed_in(module_of_options, "Options")
    for name in ("residuals", "variables", "args"):
        del one[name]
    assert list(one) == list(fields)
    assert [name for name in one if one[name] != fields[name]] == ["callback", "batch_dims"]
    assert [name for name in many if name not in ("residuals", "variables") and many[name] != one[name]] == [
        "batch_dims"
    ]


def listed_in(module, name):
    """For each function or class of a name in a module, a dict of its arguments or fields: annotation and default."""
    found = [node for node in ast.parse(inspect.getsource(module)).body if getattr(node, "name", "") == name]
    return [dict(_fields_of(node) if isinstance(node, ast.ClassDef) else _arguments_of(node.args)) for node in found]


def _fields_of(node):
    for each in node.body:
        if isinstance(each, ast.AnnAssign):
            yield each.target.id, (ast.dump(each.annotation), ast.dump(each.value))


def _arguments_of(args):
    without = [None] * (len(args.args) - len(args.defaults))
    for each, default in zip([*args.args, *args.kwonlyargs], [*without, *args.defaults, *args.kw_defaults]):
        yield each.arg, (ast.dump(each.annotation), default and ast.dump(default))


def test_names_of_options_are_those_that_are_known():
    known = {
        "JacobianMode": MODES,
        "GradientName": estimators.ESTIMATORS,
        "OnFailure": ON_FAILURE,
        "LikelihoodName": LIKELIHOODS,
        "StructureName": STRUCTURES,
        "AverageName": AVERAGES,
        "DampingName": DAMPINGS,
        "ScalingName": SCALINGS,
        "SolverName": SOLVERS,
        "LossName": LOSSES,
        "PreconditionerName": KINDS,
        "BlocksName": KINDS_OF_BLOCKS,
    }
    for name, table in known.items():
        assert set(typing.get_args(getattr(tfjac.types, name))) == set(table), name


def test_types_imports_nothing_of_tfjac():
    tree = ast.parse((ROOT / "types.py").read_text())
    imported = [node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    imported += [each.name for node in ast.walk(tree) if isinstance(node, ast.Import) for each in node.names]
    assert imported and not [name for name in imported if name.startswith("tfjac")]


USERS_FILE = """
import numpy as np
import tensorflow as tf
import tfjac
from tfjac.optimizers import CholeskySolver

w = tf.Variable([1.0])
result = tfjac.least_squares(lambda: w - 1.0, [w], solver=CholeskySolver(), bounds=(None, [3.0]), args=(1, "x"))
reveal_type(result)  # LeastSquaresResult | Any
reveal_type(result.steps)  # int | Any
reveal_type(tfjac.least_squares(lambda w: w - 1.0, {"w": w}, batch_dims=1))  # BatchedLeastSquaresResult | Any
reveal_type(tfjac.LeastSquaresProblem(lambda: w, w).solve())  # LeastSquaresResult | Any
reveal_type(tfjac.LeastSquaresProblem(lambda w: w, w, batch_dims=1).solve())  # BatchedLeastSquaresResult | Any
tfjac.least_squares(lambda: w, w, solver="cholesk")  # error: No overload variant
tfjac.least_squares(lambda: w, w, max_step=3)  # error: No overload variant
tfjac.least_squares(lambda: w, w, max_steps=3).covariances()  # error: has no attribute "covariances"
fit = tfjac.curve_fit(lambda x, a, b: a * x + b, np.zeros(3), np.zeros(3), max_steps=3)
reveal_type(fit)  # CurveFitResult
reveal_type(fit.parameter_names())  # list[str]
reveal_type(fit.status)  # Status
popt, pcov = fit
full = tfjac.jacobian(lambda: w, w, mode="forward")
reveal_type(full)  # Any
reveal_type(tfjac.batch_jacobian(lambda: w, {"w": w}))  # Any
reveal_type(tfjac.jacobian_operator(lambda: w, w).num_parameters)  # int
tfjac.jacobian(lambda: w, w, mode="sideways")  # error: Argument "mode" to "jacobian" has incompatible type
tfjac.batch_jacobian(lambda: w, w, chunk_size="all")  # error: Argument "chunk_size" to "batch_jacobian" has
tfjac.LevenbergMarquardt(damping="nielson")  # error: Argument "damping" to "LevenbergMarquardt" has
tfjac.normal_equations(lambda: w, w).step(1e-3, "identity").solved
"""


@pytest.mark.by_day(None)
def test_a_checker_finds_the_types(tmp_path):
    pytest.importorskip("mypy", reason="mypy is not installed, which reads the types")
    (tmp_path / "users.py").write_text(USERS_FILE)
    (tmp_path / "mypy.ini").write_text("[mypy]\nignore_missing_imports = True\nfollow_imports = silent\n")
    command = [sys.executable, "-m", "mypy", "--config-file", "mypy.ini", "--cache-dir", str(tmp_path / "cache")]
    environment = {"MYPYPATH": str(ROOT.parent), "PYTHONPATH": ":".join(filter(None, sys.path))}
    told = subprocess.run(
        [*command, "users.py"], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300
    )
    found = {}
    for number, kind, text in re.findall(r"^users\.py:(\d+): (note|error): (.*)$", told.stdout, re.MULTILINE):
        revealed = re.match(r'Revealed type is "(.*)"', text)
        if kind == "error":
            found[int(number)] = f"error: {text}"
        elif revealed:
            found[int(number)] = re.sub(r"\b(\w+\.)+", "", revealed[1])
    lines = USERS_FILE.splitlines()
    expected = {k: line.split("  # ")[1] for k, line in enumerate(lines, 1) if "  # " in line}
    assert set(found) == set(expected), told.stdout + told.stderr
    for number, text in expected.items():
        assert found[number].startswith(text) or (text.startswith("error: has") and text[7:] in found[number]), (
            lines[number - 1], found[number]
        )  # fmt: skip


def test_signatures_are_short():
    """They show what converts to a tensor by its name: written out, NumPy's part of it is 400 characters."""
    shown = {name: str(inspect.signature(function)) for name, function in FUNCTIONS.items()}
    assert not [name for name, text in shown.items() if "numpy._typing" in text or len(text) > 1200]
