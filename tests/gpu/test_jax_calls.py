"""The handlers of XLA's calls in programs of JAX, against NumPy in float64: on the CPU, on a GPU, and emulated.

Needs jax, NumPy and pytest, neither TensorFlow nor tfjac; for the CPU the Eigen in TensorFlow's package. In the
emulation programs for the CPU call the handlers for CUDA (`tests/ops/cuda_calls.cc`).
"""

import ctypes
import os
import pathlib

import numpy as np
import pytest

from build_tools.toolchain import ToolMissing
from tests.gpu.build_calls import build_cpu_calls, build_cuda_calls, build_shim
from tests.gpu.conftest import CACHE, emulated_library
from tests.gpu.jax_calls import Calls, calls_on_gpu
from tests.gpu.problems import CASES, STACKS, Problem, stack_of, tolerance

DENSE = ["one_of_everything", "one_output", "mlp", "two_folds", "positions", "long_rows", "groups", "many_factors"]


@pytest.fixture(scope="module", params=["cpu", "emulated", "cuda"])
def calls(request):
    """Run the test with the handlers on every device."""
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # other tests want memory as well
    jax = pytest.importorskip("jax", reason="jax is not installed")
    include, folder = pathlib.Path(jax.ffi.include_dir()), CACHE / "calls" / request.param
    try:
        if request.param == "cpu":
            return Calls(jax, "cpu", build_cpu_calls(folder, include))
        if request.param == "emulated":
            request.getfixturevalue("emulation")  # names the emulated cuBLAS and cuSOLVER
            handlers = build_cuda_calls(folder, include, emulated_library(CACHE / "emulated"))
            return Calls(jax, "emulated", shim(folder, include, handlers))
    except ToolMissing as missing:
        pytest.skip(f"the handlers cannot be built: {missing}")
    try:
        jax.devices("cuda")
    except RuntimeError as error:
        pytest.skip(f"JAX sees no GPU: {error}")
    return calls_on_gpu(jax, folder)


def shim(folder, include, handlers):
    """Build what leads programs for the CPU to the handlers for CUDA, and load these, for it to find."""
    os.environ["TFJAC_TEST_LIBRARY"] = str(handlers)
    ctypes.CDLL(str(handlers))
    return build_shim(folder, include)


@pytest.mark.by_day(None)
@pytest.mark.parametrize("p", [7, 90])
def test_damped_solve(p, calls, dtype, rng):
    """By one block of threads, and by cuSOLVER with workspace."""
    root, rhs, scaling = rng.standard_normal((p, p + 3)), rng.standard_normal(p), rng.uniform(0.5, 2, p)
    matrix, damping = root @ root.T / p, np.array([0.5, 1.0, -1e3])
    results = [((3, p), dtype), ((3,), np.bool_)]
    solution, success = calls("damped_solve", dtype, results, matrix, rhs, scaling, damping)
    np.testing.assert_array_equal(success, [True, True, False])
    for k in range(2):
        expected = np.linalg.solve(matrix + damping[k] * np.diag(scaling), rhs)
        np.testing.assert_allclose(solution[k], expected, atol=1e-3 if dtype == np.float32 else 1e-10)
    np.testing.assert_array_equal(solution[2], 0)


def test_example_grams(calls, dtype, rng):
    jacobian, residual = rng.standard_normal((30, 25, 5)), rng.standard_normal((30, 25))
    results = [((30, 5, 5), dtype), ((30, 5), dtype)]
    gram, gradient = calls("example_grams", dtype, results, jacobian, residual)
    np.testing.assert_allclose(gram, jacobian.swapaxes(1, 2) @ jacobian, **tolerance(dtype))
    np.testing.assert_allclose(gradient, np.einsum("nmp,nm->np", jacobian, residual), **tolerance(dtype))


@pytest.mark.by_day("values")
@pytest.mark.parametrize("case", DENSE)
def test_jacobian_gram(case, calls, dtype, rng):
    problem = Problem(rng, *CASES[case])
    rows, p = problem.rows(), problem.p
    results, attributes = [((p, p), dtype), ((p,), dtype)], {"layouts": "".join(problem.layouts)}
    attributes["count"] = np.int64(len(problem.a))
    operands = (*problem.a, *problem.d, problem.residual)
    gram, gradient = calls("jacobian_gram", dtype, results, *operands, **attributes)
    np.testing.assert_allclose(gram, rows.T @ rows, **tolerance(dtype))
    np.testing.assert_allclose(gradient, rows.T @ problem.residual.ravel(), **tolerance(dtype))
    again, zeros = calls("jacobian_gram", dtype, results, *operands[:-1], **attributes)
    np.testing.assert_array_equal(again, gram)
    np.testing.assert_array_equal(zeros, 0)


@pytest.mark.by_day("values")
@pytest.mark.parametrize("case", ["once", "equation_and_border", "absent", "groups"])
def test_jacobian_kernel(case, calls, dtype, rng):
    stack = stack_of(rng, *STACKS[case])
    rows = np.concatenate([problem.rows() for problem in stack])
    a, d = ([x for problem in stack for x in getattr(problem, name)] for name in "ad")
    attributes = {"count": np.int64(len(a)), "blocks": np.int64(len(stack))}
    (kernel,) = calls("jacobian_kernel", dtype, [((len(rows), len(rows)), dtype)], *a, *d, **attributes)
    np.testing.assert_allclose(kernel, rows @ rows.T, **tolerance(dtype))


@pytest.mark.by_day(one_in=3)
def test_large_products_by_many_threads(calls, dtype, rng):
    """A size that is worth several threads on the CPU, and workspace of megabytes on a GPU."""
    problem = Problem(rng, 300, 2, [(1, 1, 30, 20, "gio"), (3, 1, 21, 5, "gio")])
    rows, p = problem.rows(), problem.p
    attributes = {"count": np.int64(2), "layouts": "giogio"}
    results = [((p, p), dtype), ((p,), dtype)]
    gram, _ = calls("jacobian_gram", dtype, results, *problem.a, *problem.d, problem.residual, **attributes)
    error = np.abs(gram - rows.T @ rows).max() / np.abs(gram).max()
    assert error < (1e-5 if dtype == np.float32 else 1e-13)


def test_no_workspace_is_an_error_with_the_reason(calls, dtype, rng):
    if not hasattr(calls.library, "tfjac_test_out_of_memory"):
        pytest.skip("there is memory, but in the emulation")
    problem = Problem(rng, *CASES["mlp"])
    results, attributes = [((99, 99), dtype)], {"count": np.int64(len(problem.a)), "blocks": np.int64(1)}
    calls.library.tfjac_test_out_of_memory(True)
    try:
        with pytest.raises(Exception, match=r"no \d+ bytes of workspace on the GPU: .*scratch memory: XLA FFI"):
            calls("jacobian_kernel", dtype, results, *problem.a, *problem.d, **attributes)
    finally:
        calls.library.tfjac_test_out_of_memory(False)
    assert calls("jacobian_kernel", dtype, results, *problem.a, *problem.d, **attributes)[0].shape == (99, 99)
