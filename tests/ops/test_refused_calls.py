"""A handler that XLA refuses since its name is taken: a warning names it, and XLA's own code computes its op."""

import pytest

from build_tools.compilation import Step, compile_step, only_one, run_steps
from build_tools.settings import ROOT, read_settings
from build_tools.toolchain import find_compiler, find_tensorflow
from tests.gpu.conftest import CACHE
from tests.processes import run
from tfjac import ops

TAKEN = """
import ctypes, sys, warnings
import tensorflow as tf
assert ctypes.CDLL(sys.argv[1]).tfjac_test_take(b"tfjac_damped_solve_f64")
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    import tfjac
print(*[each.message for each in caught if "XLA refuses" in str(each.message)], sep=" AND ")
one = tf.constant(1.0, tf.float64)
systems = [tf.linalg.diag([one, 3 * one]), tf.stack([4 * one, 8 * one]), tf.stack([one, one]), one]
grams = [tf.ones([2, 3, 2], tf.float64), tf.ones([2, 3], tf.float64)]
for op, inputs in ((tfjac.ops.damped_solve, systems), (tfjac.ops.example_grams, grams)):
    compiled = tf.function(op, jit_compile=True)
    program = compiled.experimental_get_compiler_ir(*inputs)(stage="hlo")
    print("tfjac_" in program, compiled(*inputs)[0].numpy().round(9).tolist())
"""


@pytest.fixture(scope="module")
def taker():
    """Build a library that takes names."""
    tensorflow = find_tensorflow(read_settings().tensorflow).directory
    include = tensorflow / "include"
    if not ops.load_ops() or not (include / "xla/ffi/api/ffi.h").is_file():
        pytest.skip("there are no native ops, or none that XLA calls")
    compiler, folder = find_compiler(read_settings().compiler).command, CACHE / "taken_name"
    flags = (*compiler, "-std=c++17", "-O1", "-fPIC", "-fvisibility-inlines-hidden", "-Wall", "-isystem", include)
    compiled = compile_step(flags, ROOT / "tests" / "ops" / "taken_name.cc", folder / "taken_name.o")
    link = (*compiler, "-shared", compiled.output, f"-L{tensorflow}", "-l:libtensorflow_framework.so.2")
    with only_one(folder):
        run_steps([compiled], jobs=1)
        run_steps([Step(link, folder / "libtaken_name.so", (compiled.output,))], jobs=1)
    return folder / "libtaken_name.so"


def test_a_taken_name(taker):
    warning, solved, grams = run(TAKEN, taker).splitlines()
    assert "tfjac_damped_solve_f64 for Host: " in warning and " AND " not in warning
    assert len(warning.split("Host: ")[1].split(". Results")[0]) > 10  # XLA's reason
    assert solved == "False [2.0, 2.0]" and grams.startswith("True [[[3.0, 3.0]")
