"""`plan()`: what it says of solver, memory and operations, against the sizes written out by hand."""

import re

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfjac
from tfjac.linear.solvers.plan import plan_of
from tfjac.linear.solvers.problem_sizes import LayerSizes, ProblemSizes
from tfjac.optimizers import AutoSolver, LeastSquaresProblem, LevenbergMarquardt


def sizes_of(examples, *layers, is_double=False, prior=True):
    layers = [LayerSizes(examples, 10, 1, 1, i, o) for i, o in layers]
    rows = examples and 10 * examples
    return ProblemSizes(rows, sum(each.i * each.o for each in layers), (tuple(layers),), 4, prior, is_double)


REASONS = {
    "kernel": (sizes_of(20, (30, 10)), AutoSolver(), r"J·Jᵀ is the smaller matrix, 200 × 200"),
    "cholesky": (sizes_of(50, (30, 10)), AutoSolver(), r"JᵀJ is the smaller matrix, 300 × 300"),
    "qr": (sizes_of(50, (3, 10), is_double=True), AutoSolver(), r"J is factored rather than squared"),
    "cg": (sizes_of(2000, (200, 100)), AutoSolver(), r"a factorisation .* would take several times as long"),
}


@pytest.mark.parametrize("name", REASONS)
def test_reasons(name):
    sizes, solver, words = REASONS[name]
    plan = plan_of(solver, sizes)
    assert plan.solver == name
    assert re.search(words, plan.reason) and plan.reason in str(plan)


def test_other_reasons():
    few = plan_of(AutoSolver(), sizes_of(2, (10, 10)))
    assert few.solver == "cholesky" and few.reason == "few parameters"
    prior = plan_of(AutoSolver(), sizes_of(20, (30, 10), prior=False))
    assert prior.solver == "cholesky" and prior.reason.startswith("a regulariser weighs")
    tight = plan_of(AutoSolver(memory_budget=1e3), sizes_of(20, (30, 10)))
    assert tight.solver == "cg" and tight.reason == "neither JᵀJ nor J·Jᵀ fits the memory budget"


def test_numbers_by_hand():
    plan = plan_of(tfjac.optimizers.CholeskySolver(), sizes_of(50, (30, 10)))
    assert (plan.residuals, plan.parameters, plan.dtype, plan.reason) == (500, 300, "float32", "asked for")
    factors = 4 * 50 * (30 + 10 * 10)
    assert plan.held == factors and plan.memory == 2 * 300**2 * 4 + factors
    assert plan.flops_per_step == 50 * 300**2 and plan.flops_per_attempt == pytest.approx(300**3 / 3)
    kernel = plan_of(tfjac.optimizers.KernelSolver(), sizes_of(20, (30, 10)))
    assert kernel.memory == 2 * 200**2 * 4 + 4 * 20 * (30 + 10 * 10)
    assert kernel.flops_per_attempt == pytest.approx(200**3 / 3)
    assert kernel.flops_per_step == 20**2 * 30 + 200**2 * 10


@pytest.mark.by_day(None)
def test_in_fit_and_for_a_problem():
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(60, "tanh"), keras.layers.Dense(2)])
    model.compile(optimizer=LevenbergMarquardt(), loss="mse")
    with pytest.raises(ValueError, match=r"no plan before the first step"):
        model.optimizer.plan()
    model.fit(np.ones((8, 4)), np.ones((8, 2)), verbose=0)
    plan = model.optimizer.plan()
    assert plan.solver == "kernel or cholesky" and plan.residuals is None and plan.memory is None
    assert "plan(batch_size=…)" in str(plan)
    assert model.optimizer.plan(batch_size=8).solver == model.optimizer.solver_used == "kernel"
    assert model.optimizer.plan(batch_size=800).residuals == 1600
    assert model.optimizer.plan(batch_size=800).solver == "cholesky"

    w = tf.Variable([1.0, 2.0], dtype=tf.float64)
    problem = LeastSquaresProblem(lambda x: tf.exp(-w[0] * x) - w[1], w)
    plan = problem.plan(np.ones(5))
    assert (plan.residuals, plan.parameters, plan.solver, plan.dtype) == (5, 2, "qr", "float64")
    np.testing.assert_array_equal(w, [1, 2])


@pytest.mark.parametrize(
    ("memory", "kept", "matrices"), [("auto", "JᵀJ", 1), (0.9, "JᵀJ", 1), (4, "sums of JᵀJ", 2), (None, None, 0)]
)
def test_what_is_remembered_of_earlier_batches(memory, kept, matrices):
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(8, "tanh"), keras.layers.Dense(1)])
    model.compile(optimizer=LevenbergMarquardt(memory=memory), loss="mse")
    model.train_on_batch(np.ones((8, 3)), np.ones((8, 1)))
    found = re.findall("remembered of earlier batches: (.*), ([0-9,]+) bytes", str(model.optimizer.plan()))
    assert [name for name, _ in found] == [kept] * (kept is not None)
    for _, size in found:  # of 41 weights: the matrices, and some vectors beside them
        assert 0 <= int(size.replace(",", "")) - matrices * 41**2 * 4 <= 8 * 41 * 4


def test_another_batch_than_the_graph_is_for():
    with pytest.raises(ValueError, match=r"traced for 50 examples. Received: batch_size=7"):
        plan_of(AutoSolver(), sizes_of(50, (30, 10)), 7)
