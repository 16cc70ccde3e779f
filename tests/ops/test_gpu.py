"""The ops on a GPU through TensorFlow, where a GPU build of it runs: set TFJAC_TEST_GPU=1 to let it."""

import numpy as np
import pytest
import tensorflow as tf

from tests.fixtures import skip_or_fail
from tests.ops.factors import CASES, Problem, tolerance
from tests.ops.test_damped_solve import positive_definite
from tests.ops.test_values import every_op, expected_of
from tfjac import ops


@pytest.fixture
def gpu(request, need_native):
    """Run the test on the first GPU, with native kernels."""
    if not tf.config.list_physical_devices("GPU"):
        skip_or_fail(request.config, "--require-gpu", "TensorFlow sees no GPU (it may only with TFJAC_TEST_GPU=1)")
    if not ops.ops_info().cuda_architectures:
        skip_or_fail(request.config, "--require-gpu", "the native ops were built without CUDA kernels")
    with tf.device("/GPU:0"):
        yield


@pytest.mark.parametrize("case", CASES)
def test_ops_on_factors(case, gpu, dtype, rng):
    problem = Problem(rng, *CASES[case])
    found = every_op(problem.layouts)(*problem.tensors(dtype), tf.constant(problem.residual, dtype))
    for name, expected in expected_of(problem).items():
        assert "GPU" in found[name].device
        np.testing.assert_allclose(found[name], expected, **tolerance(dtype), err_msg=name)


@pytest.mark.parametrize("p", [1, 64, 200])
def test_damped_solve(p, gpu, dtype, rng):
    matrix, rhs = positive_definite(rng, p), rng.standard_normal(p)
    inputs = [tf.constant(x, dtype) for x in (matrix, rhs, np.ones(p), [0.5, 2.0])]
    solution, success = ops.damped_solve(*inputs)
    for k, damping in enumerate((0.5, 2.0)):
        np.testing.assert_allclose(solution[k], np.linalg.solve(matrix + damping * np.eye(p), rhs), atol=1e-3)
    np.testing.assert_array_equal(success, [True, True])
