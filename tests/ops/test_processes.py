"""What needs a process of its own: numbers of threads, instruction sets, loading late or elsewhere, SavedModels."""

import json
import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from tests.ops.factors import Problem
from tfjac import ops
from tfjac.ops import _library

ROOT = pathlib.Path(__file__).parents[2]


def run(code, *arguments, **environment):
    """Run Python code in a fresh process and give what it prints."""
    finished = subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
    )
    assert finished.returncode == 0, finished.stderr[-3000:]
    return finished.stdout


BITS = """
import hashlib, json, sys
import numpy as np
import tensorflow as tf
tf.config.threading.set_intra_op_parallelism_threads(int(sys.argv[1]))
from tests.ops.test_tiles import GRAM_CASES, KERNEL_CASES, NORM_CASES
from tests.ops.factors import Problem
from tfjac import ops

found = {}
def note(name, *tensors):
    found[name] = [hashlib.sha256(x.numpy().tobytes()).hexdigest() for x in tensors]

for name, case in (GRAM_CASES | KERNEL_CASES | NORM_CASES).items():
    for dtype in (tf.float32, tf.float64):
        problem = Problem(np.random.default_rng(0), *case)
        a, d = problem.tensors(dtype)
        norms = ops.jacobian_row_norms(a, d)
        if name in NORM_CASES:
            note(f"{name} {dtype}", norms)
        else:
            gram = ops.jacobian_gram(a, d, problem.layouts, tf.constant(problem.residual, dtype))
            rows = ops.jacobian_rows(a, d, problem.layouts)
            note(f"{name} {dtype}", norms, *gram, rows, ops.jacobian_kernel(a, d))
random = np.random.default_rng(0)
root = random.standard_normal((700, 700))
matrix, rhs = tf.constant(root @ root.T), tf.constant(random.standard_normal(700))
note("solve", ops.damped_solve(matrix, rhs, tf.ones_like(rhs), tf.constant([1.0, 2.0], tf.float64))[0])
print(json.dumps([ops.ops_info().instruction_set, found]))
"""


def test_same_bits_for_any_number_of_threads(need_native):
    results = [json.loads(run(BITS, threads))[1] for threads in (1, 2, 5)]
    assert results[0] == results[1] == results[2]


VALUES = """
import numpy as np
import tensorflow as tf
from tests.ops.test_tiles import *
from tests.ops.test_damped_solve import positive_definite
rng = np.random.default_rng(3)
for case in GRAM_CASES:
    test_gram(case, rng)
for case in KERNEL_CASES:
    test_kernel(case, rng)
for case in NORM_CASES:
    test_row_norms(case, rng)
for layout in ("gio", "ogi"):
    test_rows_past_the_cache(layout, rng)
test_damped_solve(300, rng)
print(ops.ops_info().instruction_set)
"""


@pytest.mark.parametrize("name", ["baseline", "avx2"])
def test_lesser_instruction_sets(name, need_native):
    if name == "avx2" and ops.ops_info().instruction_set == "baseline":
        pytest.skip("this processor does not have AVX2")
    assert run(VALUES, TFJAC_ISA=name).split() == [name]


LATE = """
import tensorflow as tf
tf.function(lambda x: x + 1, jit_compile=True)(tf.ones(3))  # TensorFlow now has its list of XLA kernels
from tfjac import ops
a, d = [tf.ones([3, 1, 1, 2])], [tf.ones([3, 2, 1, 1, 4])]
inner = tf.function(lambda a, d: ops.jacobian_row_norms(a, d))
inner(a, d)  # traced outside of what is compiled below
print(float(tf.reduce_sum(tf.function(lambda a, d: inner(a, d) + 1, jit_compile=True)(a, d))))
"""


def test_loaded_after_the_first_compilation():
    assert float(run(LATE)) == 3 * 2 * (2 * 4 + 1)


def test_inner_function_traced_outside_of_xla(implementation, dtype, rng):
    problem = Problem(rng, 4, 2, [(3, 1, 4, 2, "gio"), (1, 1, 2, 3, "ogi")])
    a, d = problem.tensors(dtype)
    matrix = tf.constant(np.eye(3) * 2, dtype)

    @tf.function
    def inner(a, d):
        gram, _ = ops.jacobian_gram(a, d, problem.layouts)
        solution, _ = ops.damped_solve(matrix, matrix[0], matrix[1], tf.constant(0.5, dtype))
        return [ops.jacobian_rows(a, d, problem.layouts), gram, ops.jacobian_kernel(a, d), solution]

    outside = inner(a, d)
    inside = tf.function(lambda a, d: inner(a, d), jit_compile=True)(a, d)
    for x, y in zip(outside, inside):
        np.testing.assert_allclose(x, y, rtol=1e-5, atol=1e-5)


RELOAD = """
import sys
import numpy as np
import tensorflow as tf
import tfjac
tfjac.load_ops()
loaded = tf.saved_model.load(sys.argv[1])
data = np.load(sys.argv[1] + "/data.npz")
found = loaded.compute(tf.constant(data["a"]), tf.constant(data["d"]))
for name, value in found.items():
    np.testing.assert_allclose(value, data[name], rtol=1e-10, atol=1e-12)
print("same")
"""


def test_saved_model_in_a_fresh_process(implementation, tmp_path, rng):
    problem = Problem(rng, 6, 2, [(2, 1, 4, 3, "ogi")])

    class Module(tf.Module):
        @tf.function(
            input_signature=[tf.TensorSpec([None, 2, 1, 4], tf.float64), tf.TensorSpec([None, 2, 2, 1, 3], tf.float64)]
        )
        def compute(self, a, d):
            gram, gradient = ops.jacobian_gram([a], [d], problem.layouts, d[:, :, 0, 0, 0])
            solution, _ = ops.damped_solve(gram, gradient, tf.ones_like(gradient), tf.constant(1.0, tf.float64))
            rows = ops.jacobian_rows([a], [d], problem.layouts)
            kernel, norms = ops.jacobian_kernel([a], [d]), ops.jacobian_row_norms([a], [d])
            return {"gram": gram, "solution": solution, "rows": rows, "kernel": kernel, "norms": norms}

    module = Module()
    folder = str(tmp_path / "model")
    a, d = (xs[0] for xs in problem.tensors(tf.float64))
    values = {name: value.numpy() for name, value in module.compute(a, d).items()}
    tf.saved_model.save(module, folder)
    np.savez(f"{folder}/data.npz", a=a, d=d, **values)
    assert run(RELOAD, folder).strip() == "same"


@pytest.mark.parametrize(
    "record, words",
    [
        ({"reason": "", "tensorflow": "1.2.3"}, ["1.2.3", tf.__version__]),
        ({"reason": "no C++ compiler (g++) was found"}, ["no C\\+\\+ compiler"]),
        (None, ["have not been compiled"]),
        ({"reason": "", "tensorflow": tf.__version__}, ["does not load"]),
    ],
    ids=["other_tensorflow", "no_compiler", "not_built", "broken"],
)
def test_one_warning_where_there_is_nothing_to_load(record, words, tmp_path, monkeypatch):
    monkeypatch.setattr(_library, "NATIVE_DIR", tmp_path)
    monkeypatch.setattr(_library, "_loaded", None)
    if record is not None:
        (tmp_path / "_build_info.json").write_text(json.dumps(record))
    with pytest.warns(RuntimeWarning, match=".*".join(words)) as caught:
        assert not ops.load_ops()
        assert ops.jacobian_row_norms([tf.ones([1, 1, 1, 1])], [tf.ones([1, 1, 1, 1, 1])]) == 1
    assert len(caught) == 1
    info = ops.ops_info()
    assert not info.native and info.reason and not any(info.ops.values())
    with pytest.raises(RuntimeError, match="not available"), ops.implementation("native"):
        pass
