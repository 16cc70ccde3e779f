"""The launchers under test: emulated on the host, everywhere; on a GPU where there is one.

Needs neither TensorFlow nor tfjac: `pytest --confcutdir=tests/gpu tests/gpu` leaves the suite's own conftest out.
"""

import contextlib
import os

import numpy as np
import pytest

from tests.gpu import build
from tests.gpu.arrays import HostArrays, gpu_arrays
from tests.gpu.launchers import LIBRARY_WHERE_FASTER, Launchers

VARIANTS = ["emulated", "emulated-small_limits", "emulated-small_limits-falling", "gpu", "gpu-small_limits"]


def pytest_addoption(parser):
    with contextlib.suppress(ValueError):  # where the suite's conftest is there, it has it already
        parser.addoption("--require-gpu", action="store_true", help="fail, not skip, where there is no GPU")


@pytest.fixture(scope="session")
def libraries(tmp_path_factory):
    """Give a function that builds each variant of the library at most once."""
    built = {}

    def library(device, small_limits):
        if (device, small_limits) not in built:
            path = tmp_path_factory.mktemp(device) / "libtfjac_cuda.so"
            (build.build_emulated if device == "emulated" else build.build_cuda)(path, small_limits)
            built[device, small_limits] = path
        return built[device, small_limits]

    if gpu_arrays()[0] is None:
        stand_in = tmp_path_factory.mktemp("libraries") / "libraries.so"
        build.build_libraries(stand_in)
        os.environ["TFJAC_CUBLAS"] = os.environ["TFJAC_CUSOLVER"] = str(stand_in)
    return library


@pytest.fixture(params=VARIANTS)
def launchers(request, libraries):
    """Run the test with the launchers of every variant."""
    device, *options = request.param.split("-")
    if device == "gpu":
        arrays, reason = gpu_arrays()
        if arrays is None:
            message = f"no GPU: {reason}"
            pytest.fail(f"{message} (--require-gpu was given)") if request.config.getoption(
                "--require-gpu"
            ) else pytest.skip(message)
    else:
        arrays = HostArrays()
    launchers = Launchers(libraries(device, "small_limits" in options), arrays)
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
