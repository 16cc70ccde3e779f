"""Programs compiled by XLA: on the CPU they call the native kernels, unless plain HLO is asked for."""

import itertools
import json

import numpy as np
import pytest
import tensorflow as tf

from tests.ops.factors import CASES, Problem
from tests.ops.test_damped_solve import positive_definite
from tests.ops.test_values import check, every_op
from tests.processes import run
from tfjac import ops

pytestmark = pytest.mark.usefixtures("need_native")


@pytest.fixture
def plain_hlo(monkeypatch):
    monkeypatch.setenv("TFJAC_XLA", "hlo")


def test_unknown_lowering_is_refused(monkeypatch):
    monkeypatch.setenv("TFJAC_XLA", "HLO")
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"must be one of call, hlo\. Received: 'HLO'"):
        tf.function(ops.jacobian_kernel, jit_compile=True)([tf.ones([1] * 4)], [tf.ones([1] * 5)])


@pytest.mark.by_day(None)
@pytest.mark.parametrize("case", ["mlp", "convolution"])
def test_factors_of_very_different_sizes_in_plain_hlo(case, plain_hlo, rng):
    problem = Problem(rng, *CASES[case])
    a, d = problem.tensors(tf.float32)
    compute = tf.function(every_op(problem.layouts), jit_compile=True)
    residual = tf.constant(problem.residual, tf.float32)
    check(compute([x * 1e20 for x in a], [y / 1e20 for y in d], residual), problem, tf.float32)


@pytest.mark.by_day(one_in=5)
@pytest.mark.parametrize("case, dtype", zip(CASES, itertools.cycle([tf.float32, tf.float64])))
def test_values_in_plain_hlo(case, dtype, rng, plain_hlo):
    problem = Problem(rng, *CASES[case])
    compute = tf.function(every_op(problem.layouts), jit_compile=True)
    check(compute(*problem.tensors(dtype), tf.constant(problem.residual, dtype)), problem, dtype)


@pytest.mark.by_day(one_in=3)
@pytest.mark.parametrize("p", [0, 1, 200])
def test_damped_solve_in_plain_hlo(p, dtype, rng, plain_hlo):
    matrix, damping = positive_definite(rng, p) - 0.1 * np.eye(p), np.array([0.0, 0.3, np.nan, 2.0])
    inputs = [tf.constant(x, dtype) for x in (matrix, np.ones(p), np.ones(p), damping)]
    solution, success = tf.function(ops.damped_solve, jit_compile=True)(*inputs)
    lowest = np.linalg.eigvalsh(matrix).min(initial=np.inf)
    good = [lowest + x > 0 for x in damping]  # not with NaN
    np.testing.assert_array_equal(success, np.array(good) if p else True)
    for k in np.flatnonzero(good):
        expected = np.linalg.solve(matrix + damping[k] * np.eye(p), np.ones(p))
        np.testing.assert_allclose(solution[k], expected, rtol=2e-3 if dtype == tf.float32 else 1e-8)
    np.testing.assert_array_equal(tf.boolean_mask(solution, ~success), 0)


@pytest.mark.parametrize("platform", ["CPU", "GPU"])
@pytest.mark.parametrize("lowering", ["call", "hlo"])
def test_what_is_compiled(lowering, platform, rng, monkeypatch):
    """TensorFlow makes the program for a GPU where there is none."""
    monkeypatch.setenv("TFJAC_XLA", lowering)
    problem = Problem(rng, *CASES["mlp"])
    a, d = problem.tensors(tf.float32)

    @tf.function(jit_compile=True)
    def compute(a, d):
        gram, gradient = ops.jacobian_gram(a, d, problem.layouts)
        return ops.damped_solve(gram, gradient, gradient, tf.constant(1.0)), ops.jacobian_kernel(a, d)

    text = compute.experimental_get_compiler_ir(a, d)(stage="hlo", platform_name=platform)
    calls = lowering == "call" and platform in ops.ops_info().compiled
    for op in ("jacobian_gram", "jacobian_kernel", "damped_solve"):
        assert (f"tfjac_{op}_f32" in text) == calls


def test_same_bits_as_outside_of_xla(dtype, rng):
    problem = Problem(rng, 300, 3, [(1, 1, 30, 20, "gio"), (1, 1, 1, 20, "gio"), (5, 2, 4, 3, "igo")])
    a, d = problem.tensors(dtype)
    residual = tf.constant(problem.residual, dtype)

    def compute(a, d, residual):
        gram, gradient = ops.jacobian_gram(a, d, problem.layouts, residual)
        return gram, gradient, ops.jacobian_kernel(a, d)

    outside, inside = (tf.function(compute, jit_compile=jit)(a, d, residual) for jit in (False, True))
    for x, y in zip(outside, inside):
        np.testing.assert_array_equal(x, y)
    system = outside[0], outside[1], tf.ones_like(outside[1]), tf.constant([0.5, 3.0], dtype)
    outside, inside = (tf.function(ops.damped_solve, jit_compile=jit)(*system) for jit in (False, True))
    assert np.all(inside[1])
    np.testing.assert_array_equal(outside[0], inside[0])


ONE_THREAD = """
import concurrent.futures, json
import numpy as np
import tensorflow as tf
from tfjac import ops
tf.config.threading.set_intra_op_parallelism_threads(1)
tf.config.threading.set_inter_op_parallelism_threads(1)
rng = np.random.default_rng(0)
a, d = [tf.constant(rng.normal(size=(900, 1, 1, 30)))], [tf.constant(rng.normal(size=(900, 1, 1, 1, 20)))]

@tf.function(jit_compile=True)
def step(a, d):
    gram, gradient = ops.jacobian_gram([a], [d], ["gio"], tf.ones([900, 1], tf.float64))
    return ops.damped_solve(gram, gradient, tf.ones_like(gradient), tf.constant(1.0, tf.float64))[0]

program = tf.function(lambda: tf.add_n([step(a[0] * k, d[0]) for k in (1.0, 2.0, 3.0)]))
with concurrent.futures.ThreadPoolExecutor(4) as pool:
    found = list(pool.map(lambda _: program().numpy(), range(8)))
assert all(np.array_equal(x, found[0]) for x in found)
rows = (a[0].numpy().reshape(900, 30, 1) * d[0].numpy().reshape(900, 1, 20)).reshape(900, 600)
right = sum(np.linalg.solve(k * k * rows.T @ rows + np.eye(600), k * rows.sum(0)) for k in (1, 2, 3))
print(json.dumps(float(np.abs(found[0] - right).max())))
"""


@pytest.mark.by_day(None)
def test_many_calls_on_one_thread():
    assert json.loads(run(ONE_THREAD)) < 1e-10
