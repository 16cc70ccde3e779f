"""The launchers under test: emulated on the host, everywhere; on a GPU where there is one.

Needs neither TensorFlow nor tfjac: `pytest --confcutdir=tests/gpu tests/gpu` leaves the suite's own conftest out.
"""

import contextlib
import os

import numpy as np
import pytest

from build_tools.toolchain import ToolMissing
from tests.gpu import build, restarts
from tests.gpu.arrays import HostArrays, gpu_arrays
from tests.gpu.build import CACHE
from tests.gpu.launchers import LIBRARY_WHERE_FASTER, Launchers, nvidia_folders

VARIANTS = ["emulated", "emulated-small_limits", "emulated-small_limits-falling", "gpu", "gpu-small_limits"]


def pytest_addoption(parser):
    with contextlib.suppress(ValueError):  # where the suite's conftest is there, it has it already
        parser.addoption("--require-gpu", action="store_true", help="fail, not skip, where there is no GPU")
    parser.addoption("--gpu-alone", action="store_true", help="no test but the launchers' on the GPU")
    parser.addoption("--begun", metavar="FILE", help="leave out the tests listed there; list each when it begins")


def pytest_collection_modifyitems(config, items):
    if config.getoption("--gpu-alone", False):
        items[:] = [item for item in items if variant_of(item).startswith("gpu")]
    if begun := config.getoption("--begun", None):
        items[:] = restarts.not_begun(items, begun)


def pytest_runtest_setup(item):
    if begun := item.config.getoption("--begun", None):
        restarts.begin(item, begun)


def pytest_sessionfinish(session):
    begun = session.config.getoption("--begun", None)
    if begun and not session.shouldstop:
        restarts.finish(begun)


def variant_of(item) -> str:
    """Say which launchers a test is of; empty where of none."""
    return item.callspec.params.get("launchers", "") if hasattr(item, "callspec") else ""


def emulated_library(folder, small_limits=False):
    """Build the launchers for the host; skip the test where there is no compiler."""
    try:
        return build.build_emulated(folder, small_limits)
    except ToolMissing as missing:
        pytest.skip(f"the kernels cannot be emulated: {missing}")


@pytest.fixture(scope="session")
def gpu():
    """Give (arrays on the GPU, ""), or (None, why there are none)."""
    return gpu_arrays()


@pytest.fixture(scope="session")
def emulation():
    """Let the emulated launchers find the cuBLAS of the emulation."""
    stand_in = str(emulated_library(CACHE / "emulated"))
    os.environ["TFJAC_EMULATED_CUBLAS"] = os.environ["TFJAC_EMULATED_CUSOLVER"] = stand_in


def emulated_launchers(options):
    """Give launchers on the host; `sanitize.py` may have built them."""
    small = "small_limits" in options
    given = os.environ.get("TFJAC_EMULATED_LIBRARY")
    library = given or emulated_library(CACHE / ("emulated" + "-small_limits" * small), small)
    launchers = Launchers(library, HostArrays())
    launchers.library.tfjac_emulation_falling("falling" in options)
    return launchers


@pytest.fixture(scope="session")
def cuda_library():
    """Give the library of the launchers as they are used."""
    return build.cuda_library()


@pytest.fixture(scope="session")
def small_cuda_library():
    """Give the one with small limits; skip the test where it cannot be built, and another is given."""
    if build.given_library() and not build.has_nvcc():
        pytest.skip("there is no nvcc, and the library that TFJAC_CUDA_LIBRARY names has the usual limits")
    return build.cuda_library_of_small_limits()


@pytest.fixture(params=VARIANTS)
def launchers(request):
    """Run the test with the launchers of every variant."""
    device, *options = request.param.split("-")
    if device == "emulated":
        request.getfixturevalue("emulation")
        launchers = emulated_launchers(options)
    else:
        arrays, reason = request.getfixturevalue("gpu")
        if arrays is None and request.config.getoption("--require-gpu"):
            pytest.fail(f"no GPU: {reason} (--require-gpu was given)")
        if arrays is None:
            pytest.skip(f"no GPU: {reason}")
        library = request.getfixturevalue("small_cuda_library" if options else "cuda_library")
        launchers = Launchers(library, arrays, nvidia_folders())
    yield launchers
    launchers.use_library(LIBRARY_WHERE_FASTER)
    if device == "gpu" and request.config.getoption("--begun", None):
        restarts.stop_if_broken(request.session, launchers.arrays)


@pytest.fixture(params=[np.float32, np.float64], ids=["float32", "float64"])
def dtype(request):
    """Run the test in single and in double precision."""
    return request.param


@pytest.fixture
def rng():
    """Give a NumPy random generator with a fixed seed."""
    return np.random.default_rng(20263)
