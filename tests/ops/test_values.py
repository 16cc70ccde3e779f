"""The ops on factors against NumPy in float64: native and twin, eager, tf.function and XLA, both dtypes."""

import numpy as np
import pytest
import tensorflow as tf

from tests.fixtures import ON_GPU
from tests.ops.factors import CASES, Problem, tolerance
from tests.ops.ways import ways_in_turn
from tfjac import ops

pytestmark = pytest.mark.usefixtures("implementation")


def every_op(layouts):
    """Give a function of (a, d, residual) that computes all that the ops on factors can."""

    def compute(a, d, residual):
        gram, gradient = ops.jacobian_gram(a, d, layouts, residual)
        gram_alone, zeros = ops.jacobian_gram(a, d, layouts)
        return {
            "rows": ops.jacobian_rows(a, d, layouts),
            "gram": gram,
            "gradient": gradient,
            "gram_alone": gram_alone,
            "zeros": zeros,
            "kernel": ops.jacobian_kernel(a, d),
            "norms": ops.jacobian_row_norms(a, d),
        }

    return compute


def expected_of(problem):
    rows = problem.rows()
    return {
        "rows": problem.jacobian(),
        "gram": rows.T @ rows,
        "gradient": rows.T @ problem.residual.ravel(),
        "gram_alone": rows.T @ rows,
        "zeros": np.zeros(rows.shape[1]),
        "kernel": rows @ rows.T,
        "norms": (problem.jacobian() ** 2).sum(-1),
    }


def check(found, problem, dtype):
    for name, expected in expected_of(problem).items():
        assert found[name].dtype == dtype
        np.testing.assert_allclose(found[name], expected, **tolerance(dtype), err_msg=name)
    np.testing.assert_array_equal(found["zeros"], 0)
    np.testing.assert_allclose(found["gram"], np.transpose(found["gram"]), rtol=1e-5, atol=1e-5)


@pytest.mark.by_day(one_in=18)
@ways_in_turn(CASES)
def test_values(case, compiled, dtype, rng):
    problem = Problem(rng, *CASES[case])
    found = compiled(every_op(problem.layouts))(*problem.tensors(dtype), tf.constant(problem.residual, dtype))
    check(found, problem, dtype)


@pytest.mark.core
@pytest.mark.skipif(ON_GPU, reason="squares of a and d must be in range there: docs/kernels.md")
@ways_in_turn(["mlp", "positions", "many_positions", "groups", "convolution"])
def test_factors_of_very_different_sizes(case, compiled, dtype, rng, request):
    """Entries of J of moderate size, from an a and a d whose squares are out of range, one above and one below."""
    problem = Problem(rng, *CASES[case])
    factors = problem.tensors(dtype)
    decades = 20 if dtype == tf.float32 else 160
    if dtype == tf.float64 and request.node.callspec.params["compiled"] == "jit":
        decades = 70  # row norms do without in XLA's programs: see docs/kernels.md
    for k, (a, d) in enumerate(zip(*factors)):
        scale = tf.constant(10.0 ** rng.integers(-decades, decades + 1, a.shape[:3]), dtype)
        factors[0][k], factors[1][k] = a * scale[..., None], d / scale[:, None, ..., None]
    check(compiled(every_op(problem.layouts))(*factors, tf.constant(problem.residual, dtype)), problem, dtype)


@pytest.mark.parametrize("half", [tf.float16, tf.bfloat16])
def test_half_precision_is_computed_in_float32(half, rng):
    problem = Problem(rng, *CASES["mlp"])
    for arrays in (problem.a, problem.d):
        arrays[:] = [tf.cast(tf.constant(x, half), tf.float64).numpy() for x in arrays]
    problem.residual = tf.cast(tf.constant(problem.residual, half), tf.float64).numpy()
    a, d = problem.tensors(half)
    compute, residual = every_op(problem.layouts), tf.constant(problem.residual, half)
    check(compute(a, d, residual), problem, tf.float32)
    check(compute(problem.tensors(tf.float32)[0], d, residual), problem, tf.float32)
    solution, _ = ops.damped_solve(*(tf.constant(x, half) for x in ([[2.0]], [3.0], [1.0], 2.0)))
    assert solution.dtype == tf.float32 and solution == 0.75


@pytest.mark.core
@pytest.mark.parametrize("batch", [0, 5])
def test_open_batch_dimension(batch, rng, dtype):
    problem = Problem(rng, batch, 2, [(3, 1, 4, 2, "gio"), (1, 1, 2, 3, "ogi")])
    a, d = problem.tensors(dtype)
    specs = [[tf.TensorSpec([None, *x.shape[1:]], dtype) for x in xs] for xs in (a, d)]
    function = tf.function(every_op(problem.layouts), input_signature=[*specs, tf.TensorSpec([None, 2], dtype)])
    check(function(a, d, tf.constant(problem.residual, dtype)), problem, dtype)
    assert function.get_concrete_function().output_shapes["rows"].as_list() == [None, 2, 14]


def test_map_over_problems(rng, dtype):
    problems = [Problem(rng, 4, 2, [(3, 1, 4, 2, "gio"), (1, 1, 2, 3, "ogi")]) for _ in range(3)]
    stacked = [
        [tf.stack(xs) for xs in zip(*(problem.tensors(dtype)[which] for problem in problems))] for which in (0, 1)
    ]
    residual = tf.constant([problem.residual for problem in problems], dtype)
    compute = every_op(problems[0].layouts)
    signature = {name: dtype for name in expected_of(problems[0])}
    found = tf.map_fn(lambda one: compute(*one), (*stacked, residual), fn_output_signature=signature)
    for k, problem in enumerate(problems):
        check({name: value[k] for name, value in found.items()}, problem, dtype)
