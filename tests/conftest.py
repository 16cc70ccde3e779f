"""Flags of the whole suite, and what it sets before TensorFlow is imported; `tests/fixtures.py` has the fixtures."""

import gc
import os

import pytest

from tests.days import left_to_the_night

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("KERAS_BACKEND", "tensorflow")
if os.environ.get("TFJAC_TEST_GPU"):
    os.environ.setdefault("TF_FORCE_GPU_ALLOW_GROWTH", "true")  # workers share it
else:
    os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
# What XLA compiles runs once or twice here: LLVM's optimisations would take a quarter of the time, and save nothing.
os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0")
# NumPy and SciPy judge small matrices here. Threads of theirs wait for work in a loop, ten times as long as they work.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


def pytest_addoption(parser):
    group = parser.getgroup("tfjac")
    group.addoption("--require-native", action="store_true", help="fail, not skip, where there are no native ops")
    group.addoption(
        "--all-peers", action="store_true", help="compare each case of other packages' suites, not a sample"
    )
    group.addoption("--require-gpu", action="store_true", help="fail, not skip, where there is no GPU")


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config):
    """Import TensorFlow where tests run: not in the process that only hands them to others."""
    if hasattr(config, "workerinput") or not config.getoption("numprocesses", None):
        config.pluginmanager.import_plugin("tests.fixtures")


def pytest_collection_modifyitems(items):
    """Mark what is left to `make nightly`."""
    for item in left_to_the_night(items):
        item.add_marker(pytest.mark.nightly)


def pytest_collection_finish():
    """TensorFlow, Keras and the tests themselves are never garbage, and graphs are made faster than they become it.

    Otherwise looking through all of it again takes 4 % of a run. What a test wants freed, it collects itself.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 10, 10)


def pytest_terminal_summary(terminalreporter):
    """Print which layers' per-example Jacobians come from a rule, and which from the fallback."""
    rows = {
        row
        for reports in terminalreporter.stats.values()
        for report in reports
        for key, row in getattr(report, "user_properties", [])
        if key == "per-example Jacobian"
    }
    if rows:
        terminalreporter.section("per-example Jacobian of every layer with weights")
        terminalreporter.write("\n".join(sorted(rows)) + "\n")
