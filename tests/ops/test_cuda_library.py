"""The CUDA library on any machine: it compiles, loads, registers its kernels, and without a GPU fails politely."""

import ctypes
import os
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.framework import kernels

from build_tools.settings import read_settings
from build_tools.toolchain import find_nvcc
from tests.gpu import build
from tests.gpu.arrays import HostArrays
from tests.gpu.conftest import CACHE, emulated_library
from tests.gpu.launchers import LaunchError, Launchers
from tests.gpu.problems import Problem
from tfjac import ops
from tfjac.ops._library import native_folder

LIBRARY = native_folder() / "libtfjac_cuda.so"
OPS = (
    "TfjacJacobianRows", "TfjacJacobianGram", "TfjacJacobianKernel", "TfjacJacobianRowNorms", "TfjacDampedSolve",
    "TfjacExampleGrams",
)  # fmt: skip


@pytest.fixture
def with_cuda():
    if not ops.load_ops() or not ops.ops_info().cuda_architectures:
        pytest.skip("the native ops were built without CUDA kernels")


@pytest.mark.by_day(None)
def test_compiles_without_warnings():
    if find_nvcc(read_settings().cuda_architectures) is None:
        pytest.skip("nvcc was not found")
    build.build_cuda(build.ROOT / "build" / "cuda_check", architectures=("90",))


@pytest.mark.usefixtures("with_cuda")
@pytest.mark.parametrize("op", OPS)
def test_kernels_are_registered(op):
    registered = {
        (kernel.device_type, tf.as_dtype(kernel.constraint[0].allowed_values.list.type[0]))
        for kernel in kernels.get_registered_kernels_for_op(op).kernel
        if kernel.device_type in ("CPU", "GPU")
    }
    assert registered == {(device, dtype) for device in ("CPU", "GPU") for dtype in (tf.float32, tf.float64)}
    assert "GPU" in ops.ops_info().compiled


@pytest.mark.usefixtures("with_cuda")
def test_needs_no_tensorflow_and_no_cuda_libraries():
    needed = subprocess.run(["ldd", LIBRARY], capture_output=True, text=True, check=True).stdout
    assert not [word for word in ("tensorflow", "cublas", "cusolver", "libcuda", "not found") if word in needed]


@pytest.mark.usefixtures("with_cuda")
@pytest.mark.skipif(bool(tf.config.list_physical_devices("GPU")), reason="there is a GPU")
def test_launch_without_a_gpu_is_an_error_with_a_message(rng):
    launchers = Launchers(LIBRARY, HostArrays())
    problem = launchers.problem(Problem(rng, 3, 2, [(1, 1, 2, 3, "gio"), (2, 1, 2, 2, "gio")]), np.float32)
    for op in ("jacobian_rows", "jacobian_gram", "jacobian_row_norms"):
        with pytest.raises(LaunchError, match="cudaError"):
            getattr(launchers, op)(problem)
    with pytest.raises(LaunchError, match=r"cudaError|cuBLAS"):  # which is called first
        launchers.jacobian_kernel(problem)
    with pytest.raises(LaunchError, match="cudaError"):
        launchers.damped_solve(np.eye(3), np.ones(3), np.ones(3), [1.0], np.float32)


@pytest.mark.usefixtures("with_cuda")
def test_missing_solver_is_named():
    """cuSOLVER is looked for once in a process, so this asks for a file that is not there in another one."""
    program = "\n".join(
        [
            "import ctypes, sys",
            "library = ctypes.CDLL(sys.argv[1])",
            "library.tfjac_cuda_error_message.restype = ctypes.c_char_p",
            "sizes = (ctypes.c_int64 * 6)(100, 1)",
            "code = library.tfjac_cuda_damped_solve_workspace_f32(None, sizes, (ctypes.c_int64 * 1)())",
            "print(library.tfjac_cuda_error_message(code).decode())",
        ]
    )
    said = subprocess.run(
        [sys.executable, "-c", program, LIBRARY], env={"TFJAC_CUSOLVER": "/nowhere.so"}, capture_output=True, text=True
    )
    assert "cuSOLVER was not found" in said.stdout and "TFJAC_CUSOLVER" in said.stdout, said.stderr


def test_driver_is_asked_without_a_launch(with_cuda):
    """Here there is none, which is an error code with a name."""
    library = ctypes.CDLL(str(LIBRARY))
    library.tfjac_cuda_error_message.restype = ctypes.c_char_p
    if not tf.config.list_physical_devices("GPU"):
        assert b"cudaError" in library.tfjac_cuda_error_message(library.tfjac_cuda_driver_status())


LIBRARIES = """
import ctypes, sys
import numpy as np
from tests.gpu.arrays import HostArrays
from tests.gpu.launchers import LIBRARY_WHERE_FASTER, ALWAYS_LIBRARY, LaunchError, Launchers
from tests.gpu.problems import CASES, Problem
launchers = Launchers(sys.argv[1], HostArrays())
problem = Problem(np.random.default_rng(0), *CASES["mlp"])
gram = lambda use: (launchers.use_library(use), launchers.jacobian_gram(launchers.problem(problem, np.float64)))[1][0]
if sys.argv[2:]:
    try:
        gram(ALWAYS_LIBRARY)
    except LaunchError as error:
        print(error)  # not there yet
    launchers.library.tfjac_cuda_search_in(sys.argv[2].encode())
for use in (LIBRARY_WHERE_FASTER, ALWAYS_LIBRARY):
    try:
        right = np.allclose(gram(use), problem.rows().T @ problem.rows())
    except LaunchError as error:
        right = error
    print(right)
"""


@pytest.mark.parametrize("failure", [{}, {"TFJAC_EMULATED_FAILURE": "1"}])
def test_cublas_is_looked_for_in_folders_and_its_failure_is_told(failure, tmp_path):
    """In a process by itself, emulated."""
    library = emulated_library(CACHE / "emulated-small_limits", True)
    (tmp_path / "libcublas.so.12").symlink_to(library)
    said = subprocess.run(
        [sys.executable, "-c", LIBRARIES, library, tmp_path],
        env=os.environ | {"TFJAC_EMULATED_CUBLAS": "", "PYTHONPATH": str(build.ROOT)} | failure,
        capture_output=True, text=True,
    )  # fmt: skip
    assert "cuBLAS was not found" in said.stdout.splitlines()[0], said.stderr
    fails = "cuBLAS failed with status 7" if failure else "True"
    assert said.stdout.splitlines()[1:] == [fails, fails]


def test_runtime_version_is_known(with_cuda):
    assert ctypes.CDLL(str(LIBRARY)).tfjac_cuda_runtime_version() >= 11000
