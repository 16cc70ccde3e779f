"""The launchers under test: emulated on the host, everywhere; on a GPU where there is one.

Needs neither TensorFlow nor tfjac: `pytest --confcutdir=tests/gpu tests/gpu` leaves the suite's own conftest out.
"""

import contextlib
import os

import numpy as np
import pytest

from build_tools.toolchain import ToolMissing
from tests.gpu import build
from tests.gpu.arrays import HostArrays, gpu_arrays
from tests.gpu.launchers import LIBRARY_WHERE_FASTER, Launchers

CACHE = build.ROOT / "build" / "gpu_tests"
VARIANTS = ["emulated", "emulated-small_limits", "emulated-small_limits-falling", "gpu", "gpu-small_limits"]


def pytest_addoption(parser):
    with contextlib.suppress(ValueError):  # where the suite's conftest is there, it has it already
        parser.addoption("--require-gpu", action="store_true", help="fail, not skip, where there is no GPU")


def emulated_library(folder, small_limits=False):
    """Build the launchers for the host; skip the test where there is no compiler."""
    try:
        return build.build_emulated(folder, small_limits)
    except ToolMissing as missing:
        pytest.skip(f"the kernels cannot be emulated: {missing}")


@pytest.fixture(scope="session")
def gpu():
    """Give (arrays on the GPU, ""), or (None, why there are none). The emulation has a cuBLAS of its own."""
    stand_in = str(emulated_library(CACHE / "emulated"))
    os.environ["TFJAC_EMULATED_CUBLAS"] = os.environ["TFJAC_EMULATED_CUSOLVER"] = stand_in
    return gpu_arrays()


@pytest.fixture(params=VARIANTS)
def launchers(request, gpu):
    """Run the test with the launchers of every variant."""
    device, *options = request.param.split("-")
    arrays, reason = gpu
    if device == "gpu" and arrays is None:
        if request.config.getoption("--require-gpu"):
            pytest.fail(f"no GPU: {reason} (--require-gpu was given)")
        pytest.skip(f"no GPU: {reason}")
    small = "small_limits" in options
    builder = emulated_library if device == "emulated" else build.build_cuda
    given = os.environ.get("TFJAC_EMULATED_LIBRARY") if device == "emulated" else None  # set by sanitize.py
    if device == "gpu" and not small:
        given = os.environ.get("TFJAC_CUDA_LIBRARY")
    library = given or builder(CACHE / (device + "-small_limits" * small), small)
    launchers = Launchers(library, HostArrays() if device == "emulated" else arrays)
    if device == "emulated":
        launchers.library.tfjac_emulation_falling("falling" in options)
    yield launchers
    launchers.use_library(LIBRARY_WHERE_FASTER)


@pytest.fixture(params=[np.float32, np.float64], ids=["float32", "float64"])
def dtype(request):
    """Run the test in single and in double precision."""
    return request.param


@pytest.fixture
def rng():
    """Give a NumPy random generator with a fixed seed."""
    return np.random.default_rng(20263)
