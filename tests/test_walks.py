"""The walks of CONTRIBUTING, which lead through all places of a part: as they say it is, and such parts are added."""

import ast
import pathlib
import re
from typing import get_args

import keras
import numpy as np
import pytest
import scipy.optimize
import tensorflow as tf

import tfjac
from tfjac import handlers, types
from tfjac.explanations.scores import Explained
from tfjac.linear import solvers
from tfjac.ops import _library
from tfjac.optimizers import CholeskySolver
from tfjac.steps import damping

ROOT = pathlib.Path(__file__).resolve().parent.parent
WALKS = {
    "damping": {"MultiplicativeDamping", "multiplicative"},
    "solver": {"LSMRSolver", "lsmr"},
    "handler": {"clip_by_global_norm"},
    "explanation": {"attention_rollout"},
    "native op": {"schur_complement"},
}
"""For each walk, the names of the part that it shows. The walk of an op is in `test_op_types.py`."""


def walk(part):
    """Return the text of the walk that adds a part."""
    return re.split(rf"^## Add an? {part}$", (ROOT / "CONTRIBUTING.md").read_text(), flags=re.MULTILINE)[1].split(
        "\n## "
    )[0]


def declared_in(path):
    """Return the names that a file defines, imports or lists as strings; what it only uses or tells of is not there."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            yield node.name
        elif isinstance(node, ast.ImportFrom) and path.name in ("__init__.py", "optimizers.py"):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


@pytest.mark.by_day(None)
@pytest.mark.parametrize("part", WALKS)
def test_a_walk_leads_to_all_places(part):
    text = walk(part)
    named = {ROOT / path for path in re.findall(r"`((?:tfjac|docs|tests)/[\w/]+\.(?:py|md))`", text)}
    declaring = {path for path in (ROOT / "tfjac").rglob("*.py") if WALKS[part] & set(declared_in(path))}
    assert declaring and declaring <= named, declaring - named
    assert all(any(name in path.read_text() for name in WALKS[part]) for path in named), named


def rosenbrock(x):
    return np.array([10 * (x[1] - x[0] ** 2), 1 - x[0]])


def minimum_by(**options):
    x = tf.Variable([-1.2, 1.0], dtype=tf.float64)
    found = tfjac.least_squares(lambda: tf.stack([10 * (x[1] - x[0] ** 2), 1 - x[0]]), x, **options)
    assert found.success
    np.testing.assert_allclose(found.x, scipy.optimize.least_squares(rosenbrock, [-1.2, 1.0]).x, rtol=1e-6)
    return found


def test_a_damping_is_added(monkeypatch):
    class Halved(damping.Damping):
        """λ is halved after success, and four times as large after failure."""

        state_names = ("damping",)

        @staticmethod
        def factor(verdict):
            return tf.where(verdict.accepted, tf.constant(0.5, tf.float64), tf.constant(4.0, tf.float64))

        def start(self, curvature, length):
            return (self.clip(1e-2 * curvature, curvature),)

        def propose(self, state, solve, curvature):
            return solve(self.clip(state[0], curvature))

        def update(self, state, proposal, verdict, curvature):
            return (self.clip(proposal.damping * self.factor(verdict), curvature),)

    monkeypatch.setitem(damping.DAMPINGS, "halved", Halved)
    dampings = np.array(minimum_by(damping="halved", window=1, acceleration=None).history.damping)
    ratios = dampings[1:] / dampings[:-1]
    np.testing.assert_allclose(np.log2(ratios), np.round(np.log2(ratios)), atol=1e-6)


@pytest.mark.by_day(None)
def test_a_solver_is_added(monkeypatch):
    asked = []

    class Counted(CholeskySolver):
        """That of Cholesky, which counts how often it is traced."""

        name = "counted"
        names = ("counted",)

        def prepare(self, linearisation):
            asked.append(linearisation.num_parameters)
            return super().prepare(linearisation)

    monkeypatch.setitem(solvers.SOLVERS, "counted", Counted)
    minimum_by(solver="counted")
    assert asked and set(asked) == {2}


def test_a_handler_is_added():
    def cubed():
        return lambda gradient: gradient**3

    x = tf.constant([1.0, -2.0, 3.0])
    edited = tfjac.intercept(
        lambda x: tfjac.tap(2 * x, "here"), {"here": handlers.sequence(cubed(), handlers.scale(0.5))}
    )
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.reduce_sum(edited(x) ** 2)
    np.testing.assert_allclose(tape.gradient(y, x), 2 * 0.5 * (4 * x.numpy()) ** 3, rtol=1e-6)


def test_an_explanation_is_added():
    """Gradient times input, which for a linear model is its weights times the input, and adds up to the score."""

    def gradient_times_input(model, x):
        explained = Explained(model, x)
        points = explained.points()
        gradients = explained.gradients(points, explained.classes, explained.inputs.arrays)
        return explained.adding_up("gradient_times_input", [g * p for g, p in zip(gradients, points)])

    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2, use_bias=False)])
    x = np.random.default_rng(0).normal(size=(4, 3)).astype(np.float32)
    found, kernel = gradient_times_input(model, x), model.layers[-1].kernel.numpy()
    np.testing.assert_array_equal(found.classes, np.argmax(x @ kernel, axis=1))
    np.testing.assert_allclose(found.attributions, x * kernel.T[found.classes], rtol=1e-5)


def test_names_are_listed_for_type_checkers():
    assert set(get_args(types.DampingName)) == set(damping.DAMPINGS)
    assert set(get_args(types.SolverName)) == set(solvers.SOLVERS)


@pytest.mark.parametrize("op", _library.OP_NAMES)
def test_a_native_op_has_the_files_of_its_walk(op):
    folder = ROOT / "custom_ops" / op
    assert all((folder / f"{op}{end}").exists() for end in (".h", "_op.cc", "_kernel.cc", "_cpu.cc"))
    assert (folder / f"{op}_gpu.cu.cc").exists() == (op not in _library.WITHOUT_CUDA)
    assert (folder / f"{op}_xla.cc").exists()
    assert (ROOT / "tfjac/ops" / f"{op}.py").exists() and callable(getattr(tfjac.ops, op))
