"""Fixtures shared by the whole suite."""

import contextlib
import gc
import os
import random
import signal
import warnings
import zlib

import hypothesis
import keras
import numpy as np
import pytest
import tensorflow as tf

from tfjac import ops
from tfjac.graph.running.verifying import SWITCH

hypothesis.settings.register_profile("tfjac", deadline=None, derandomize=True, max_examples=25)
hypothesis.settings.load_profile("tfjac")

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    ops.load_ops()  # the one warning where there are none comes here, and not in the test that is first to call one


ON_GPU = bool(tf.config.list_physical_devices("GPU"))
if ON_GPU:
    tf.config.experimental.enable_tensor_float_32_execution(False)  # results are compared up to float32's rounding


def skip_or_fail(config, flag: str, reason: str):
    """Skip the running test with the reason, or fail it if the flag says that it must run."""
    if config.getoption(flag):
        pytest.fail(f"{reason} ({flag} was given)")
    pytest.skip(reason)


@pytest.fixture(autouse=True)
def _unverified(request, monkeypatch):
    """Without the switch of `make verify` where a test is marked `unverified`, with what it could not see under it."""
    if request.node.get_closest_marker("unverified"):
        monkeypatch.delenv(SWITCH, raising=False)


@pytest.fixture(autouse=True)
def _seeded(request):
    """Under the switch of `make verify` the cotangents drawn for verification are those of the test, run after run.

    They come from Python's `random`, as do the weights of layers without a seed.
    """
    if os.environ.get(SWITCH):
        keras.utils.set_random_seed(zlib.crc32(request.node.nodeid.encode()))


@pytest.fixture(autouse=True)
def _single_precision():
    """See that each test leaves Keras as it found it: layers of the next one would be made in another precision.

    Keras takes its policy from floatx when it is asked for it first, and keeps it apart from then on.
    """
    yield
    assert (keras.config.floatx(), keras.config.dtype_policy().name) == ("float32", "float32")


@pytest.fixture(params=["native", "twin"])
def implementation(request):
    """Run the test with the native ops and again with their twins."""
    if request.param == "native" and not ops.load_ops():
        skip_or_fail(request.config, "--require-native", f"no native ops: {ops.ops_info().reason}")
    with ops.implementation(request.param) if request.param == "twin" else contextlib.nullcontext():
        yield request.param


@pytest.fixture(params=["eager", "function", "jit"])
def compiled(request):
    """Give a function that wraps its argument to run eagerly, as a tf.function, or compiled by XLA."""
    if request.param == "eager":
        return lambda function: function
    return tf.function(jit_compile=request.param == "jit", autograph=False)


@pytest.fixture(params=[tf.float32, tf.float64], ids=["float32", "float64"])
def dtype(request):
    """Run the test in single and in double precision."""
    return request.param


@pytest.fixture(autouse=True)
def seeded():
    """Verification draws its cotangents by Python's `random`: the same for a test, whatever ran before it."""
    random.seed(20260)


@pytest.fixture
def rng():
    """Give a NumPy random generator with a fixed seed."""
    return np.random.default_rng(20260)


@pytest.fixture
def ctrl_c():
    """Python's own handling of Ctrl-C, which a process in the background starts without."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def need_native(request):
    """Skip (or fail) where there are no native ops."""
    if not ops.load_ops():
        skip_or_fail(request.config, "--require-native", f"no native ops: {ops.ops_info().reason}")


@pytest.fixture(scope="module")
def others_frozen():
    """Let the module's collections look at what its own tests make: what all before them have left takes seconds."""
    gc.freeze()


@pytest.fixture
def record_coverage(record_property):
    """Give a function `(layer, way)` that adds a row to the table of covered layers at the end of the run."""
    return lambda layer, way: record_property("per-example Jacobian", f"{layer:45s} {way}")
