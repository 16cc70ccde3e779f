"""XLA's calls of the CUDA kernels, without a GPU: its programs for the CPU are led to the handlers for CUDA, emulated.

`cuda_calls.cc` stands between the two. It has to be there before the package is imported, so what runs on it are
processes of their own.
"""

import os
import subprocess
import sys

import numpy as np
import pytest

from build_tools.settings import read_settings
from build_tools.toolchain import find_tensorflow
from tests.gpu import build
from tests.gpu.build_calls import build_shim
from tests.gpu.conftest import CACHE, emulated_library
from tfjac import ops
from tfjac.ops._library import native_folder

FILES = [f"tests/ops/test_{name}.py" for name in ("values", "blocks", "damped_solve", "example_grams")]
SUITE = """
import ctypes, sys
import pytest
failed = pytest.main(["-q", "-m", "", "-p", "no:cacheprovider", "-p", "no:xdist", *sys.argv[1:]])
counts = ctypes.CDLL(None)
print(counts.tfjac_test_calls(), "calls,", counts.tfjac_test_allocated(), "workspaces left")
sys.exit(failed)
"""
NO_MEMORY = """
import ctypes
import tensorflow as tf
from tfjac import ops
gram = tf.function(ops.jacobian_gram, jit_compile=True)
a, d = [tf.ones([5, 2, 1, 3])], [tf.ones([5, 2, 2, 1, 4])]
ctypes.CDLL(None).tfjac_test_out_of_memory(True)
try:
    gram(a, d, ["gio"])
except tf.errors.OpError as error:
    print(type(error).__name__, error.message)
ctypes.CDLL(None).tfjac_test_out_of_memory(False)
print(gram(a, d, ["gio"])[0].numpy()[0, 0])
"""
FIT = """
import ctypes
import keras, numpy as np
import tfjac
counts, before = ctypes.CDLL(None), 0
random = np.random.default_rng(0)
x = random.standard_normal((60, 3)).astype("float32")
for solver in ("cholesky", "kernel"):
    keras.utils.set_random_seed(0)
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(7, "tanh"), keras.layers.Dense(1)])
    model.compile(tfjac.LevenbergMarquardt(solver=solver), "mse", jit_compile=True)
    losses = model.fit(x, np.sin(x).sum(1), batch_size=60, epochs=12, verbose=0).history["loss"]
    calls = counts.tfjac_test_calls() if hasattr(counts, "tfjac_test_calls") else 0
    print(calls - before, *losses)
    before = calls
"""


@pytest.fixture(scope="module")
def on_cuda():
    """Give what runs a program, with CUDA's handlers or without."""
    if not ops.load_ops() or not ops.ops_info().cuda_architectures:
        pytest.skip("the native ops were built without CUDA kernels")
    emulated = emulated_library(CACHE / "emulated")
    include = find_tensorflow(read_settings().tensorflow).directory / "include"
    library = build_shim(CACHE / "calls", include)
    settings = {
        "LD_PRELOAD": f"{emulated} {library}",
        "TFJAC_TEST_LIBRARY": str(native_folder() / "libtfjac.so"),
        "TFJAC_EMULATED_CUBLAS": str(emulated),
        "TFJAC_EMULATED_CUSOLVER": str(emulated),
    }

    def run(code, *arguments, calls=True):
        environment = os.environ | {"PYTHONPATH": str(build.ROOT)} | (settings if calls else {})
        command = [sys.executable, "-c", code, *arguments]
        finished = subprocess.run(command, cwd=build.ROOT, env=environment, capture_output=True, text=True)
        assert finished.returncode == 0, finished.stdout[-3000:] + finished.stderr[-1000:]
        return finished.stdout.splitlines()

    return run


@pytest.mark.by_day(None)
def test_values(on_cuda):
    """The tests of the ops, as they are, where XLA compiles them; but for factors whose sizes are far apart."""
    said = on_cuda(SUITE, *FILES, "-k", "native and jit and not very_different")
    passed, counts = said[-2].split(), said[-1].split()
    assert int(passed[0]) > 70 and passed[1] == "passed,", said[-5:]
    assert int(counts[0]) > 150 and counts[1:] == ["calls,", "0", "workspaces", "left"]


@pytest.mark.by_day(None)
def test_no_memory_is_an_error(on_cuda):
    error, corner = on_cuda(NO_MEMORY)
    assert error.startswith("ResourceExhaustedError") and "bytes of workspace on the GPU: " in error
    assert "scratch memory: XLA FFI" in error  # what XLA says on the CPU, which has no memory of a GPU
    assert float(corner) == 5 * 2 * 2**2


@pytest.mark.by_day(None)
def test_fit(on_cuda):
    """Steps by JᵀJ and by J·Jᵀ are the same as with the kernels for the CPU."""
    for line, line_on_cpu in zip(on_cuda(FIT), on_cuda(FIT, calls=False), strict=True):
        found, expected = np.array(line.split(), float), np.array(line_on_cpu.split(), float)
        assert found[0] >= 24 and expected[0] == 0  # calls: a matrix and a solution in each step
        assert expected[-1] < expected[1] / 30
        np.testing.assert_allclose(found[1:], expected[1:], rtol=2e-2)
