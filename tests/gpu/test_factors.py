"""The launchers of the ops on factors against NumPy in float64."""

from types import SimpleNamespace

import numpy as np
import pytest

from tests.gpu.launchers import ALWAYS_LIBRARY, NEVER_LIBRARY, blocks_of
from tests.gpu.problems import CASES, STACKS, Problem, random_case, stack_of, tolerance

USES = {"tiles": NEVER_LIBRARY, "library": ALWAYS_LIBRARY}


def check(launchers, problem, dtype):
    on_device, rows = launchers.problem(problem, dtype), problem.rows()
    found = {
        "rows": launchers.jacobian_rows(on_device),
        "kernel": launchers.jacobian_kernel(on_device),
        "norms": launchers.jacobian_row_norms(on_device),
    }
    expected = {"rows": problem.jacobian(), "kernel": rows @ rows.T, "norms": (problem.jacobian() ** 2).sum(-1)}
    for name, value in found.items():
        np.testing.assert_allclose(value, expected[name], **tolerance(dtype), err_msg=name)
    np.testing.assert_array_equal(found["kernel"], found["kernel"].T)


@pytest.mark.by_day("values")
@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("case", STACKS)
def test_kernel_of_several_blocks(case, use, launchers, dtype, rng):
    launchers.use_library(USES[use])
    stack = stack_of(rng, *STACKS[case])
    found = launchers.jacobian_kernel(*(launchers.problem(problem, dtype) for problem in stack))
    rows = np.concatenate([problem.rows() for problem in stack])
    np.testing.assert_allclose(found, rows @ rows.T, **tolerance(dtype))
    np.testing.assert_array_equal(found, found.T)


@pytest.mark.by_day(one_in=10)
@pytest.mark.parametrize("n", [2_000, 20_000, 200_000])
def test_workspace_does_not_grow_with_the_number_of_examples(n, launchers, dtype, rng):
    """Nor with the square of it, as the kernel does, which is 160 GB of float32 for the last."""
    problem = launchers.problem(Problem(rng, n, 1, [(1, 1, 3, 2, "gio"), (2, 1, 2, 3, "gio")]), dtype)
    for op, sizes in (("jacobian_kernel", blocks_of(problem)), ("jacobian_gram", problem.factors)):
        assert 0 < launchers.workspace_size(op, dtype, sizes) < 600 * 2**20


@pytest.mark.by_day(one_in=3)
@pytest.mark.parametrize("inputs, outputs", [(784, 16), (784, 256), (4096, 64), (64, 4096)])
@pytest.mark.parametrize("m", [1, 10])
def test_workspace_does_not_grow_with_the_number_of_parameters(inputs, outputs, m, launchers, dtype):
    """JᵀJ of the last has 275 GB of float32, and its pairs a quarter of that."""
    for use in USES.values():
        launchers.use_library(use)
        factors = launchers.sizes(4096, m, [(1, 1, inputs, outputs)] * 2)
        assert launchers.workspace_size("jacobian_gram", dtype, factors) < 600 * 2**20


@pytest.mark.by_day(one_in=3)
@pytest.mark.parametrize("positions, inputs, outputs", [(128, 512, 5000), (128, 1, 50_000), (2, 100, 10_000)])
def test_workspace_does_not_grow_with_the_number_of_outputs(positions, inputs, outputs, launchers, dtype):
    blocks = blocks_of(SimpleNamespace(factors=launchers.sizes(1000, 2, [(positions, 1, inputs, outputs)])))
    assert launchers.workspace_size("jacobian_kernel", dtype, blocks) < 600 * 2**20


def check_gram(launchers, problem, dtype):
    on_device, rows = launchers.problem(problem, dtype), problem.rows()
    gram, gradient = launchers.jacobian_gram(on_device)
    np.testing.assert_allclose(gram, rows.T @ rows, **tolerance(dtype))
    np.testing.assert_allclose(gradient, rows.T @ problem.residual.ravel(), **tolerance(dtype))
    np.testing.assert_array_equal(gram, gram.T)
    again, zeros = launchers.jacobian_gram(on_device, with_residual=False)
    np.testing.assert_array_equal(again, gram)
    np.testing.assert_array_equal(zeros, 0)


@pytest.mark.by_day(one_in=23)
@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("case", CASES)
def test_rows_kernel_and_norms(case, use, launchers, dtype, rng):
    launchers.use_library(USES[use])
    check(launchers, Problem(rng, *CASES[case]), dtype)


@pytest.mark.by_day(one_in=72)
@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("case", CASES)
def test_gram(case, use, launchers, dtype, rng):
    launchers.use_library(USES[use])
    check_gram(launchers, Problem(rng, *CASES[case]), dtype)


@pytest.mark.by_day("values")
@pytest.mark.parametrize("seed", range(4))
def test_random_shapes(seed, launchers, dtype):
    rng = np.random.default_rng(seed)
    problem = Problem(rng, *random_case(rng))
    check(launchers, problem, dtype)
    check_gram(launchers, problem, dtype)


def test_same_bits_every_time(launchers, dtype, rng):
    on_device = launchers.problem(Problem(rng, *CASES["mlp"]), dtype)
    for op in (launchers.jacobian_rows, launchers.jacobian_kernel, launchers.jacobian_row_norms):
        np.testing.assert_array_equal(op(on_device), op(on_device))
    for first, second in zip(launchers.jacobian_gram(on_device), launchers.jacobian_gram(on_device)):
        np.testing.assert_array_equal(first, second)
