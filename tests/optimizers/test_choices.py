"""From problem to plan: what "auto" chooses, at small and at real size, and within its budget. Nothing is run."""

import warnings

import numpy as np
import pytest
import tensorflow as tf

from tests.optimizers.table_problems import bratu, bundle, denoising, photographs, poses, states
from tfjac.optimizers import LeastSquaresProblem

DENSE = {"cholesky", "kernel"}
SPARSE = {"sparse", "schur"}
PRODUCTS = {"cg", "schur_cg"}

CHOICES = {
    "denoising by gathers": (denoising(32, True), {"sparse"}),
    "denoising by gathers, 128": (denoising(128, True), {"sparse"}),
    "denoising by slices": (denoising(32, False), {"sparse"}),
    "states as columns": (states(900, False), DENSE | {"sparse"}),
    "states as rows": (states(900, True), {"sparse"}),
    "flat bundle": (bundle(12, 200, 1000), DENSE | SPARSE),
    "a list of photographs": (photographs(6, 100, 40), {"schur"}),
    "padded grid": (bratu(32), {"sparse"}),
    "a constant pose": (poses(300), {"sparse"}),
}

LARGE = {
    "denoising by slices, 128": denoising(128, False),
    "flat bundle of BAL's first": bundle(49, 7776, 31843),
    "padded grid, 160": bratu(160),
    "a constant pose among 2,000": poses(2000),
}
BUDGET = 2 * 10**9


def plan_of(problem, **given):
    residuals, variable, options = problem
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return LeastSquaresProblem(residuals, variable, **options, **given).plan()


@pytest.mark.by_day(None)
@pytest.mark.parametrize("name", CHOICES)
def test_what_is_chosen(name):
    problem, expected = CHOICES[name]
    plan = plan_of(problem, memory_budget=8 * 10**9)
    assert plan.solver in expected and plan.memory < 8 * 10**9


@pytest.mark.by_day(one_in=4)
@pytest.mark.parametrize("name", LARGE)
def test_at_real_size_nothing_plans_more_than_its_budget(name):
    plan = plan_of(LARGE[name], memory_budget=BUDGET)
    assert plan.memory <= BUDGET
    assert plan.solver in PRODUCTS | SPARSE | DENSE


@pytest.mark.by_day(None)
def test_the_op_that_keeps_j_from_being_sparse_is_named():
    """A running sum of rows: each example depends on all rows before its own."""
    rng = np.random.default_rng(0)
    table, index = tf.Variable(rng.normal(size=(1000, 3))), rng.integers(0, 1000, 1200)
    plan = LeastSquaresProblem(lambda: tf.gather(tf.math.cumsum(table), index) - 1.0, table).plan()
    (hint,) = plan.hints
    assert "of type Cumsum lets an example touch 3,000 columns of J" in hint
    assert "make the running sums the variable" in hint
    assert hint in str(plan)
    assert plan_of(states(900, True)).hints == ()
