"""What needs a process of its own: numbers of threads, instruction sets."""

import json

import numpy as np
import pytest
import tensorflow as tf

from tests.ops.factors import Problem
from tests.processes import run
from tfjac import ops
from tfjac.ops._library import INFO, native_folder

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


@pytest.mark.by_day(None)
def test_same_bits_for_any_number_of_threads(need_native):
    alone, together = [json.loads(run(BITS, threads))[1] for threads in (1, 5)]
    assert alone == together


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


@pytest.mark.by_day(None)
def test_lesser_instruction_sets(need_native):
    """Those that were compiled beside the best, which the same tests see in this process; `make test` compiles all."""
    instruction_sets = json.loads((native_folder() / INFO).read_text())["instruction_sets"]
    lesser = instruction_sets[: instruction_sets.index(ops.ops_info().instruction_set)]
    if not lesser:
        pytest.skip("compiled for one instruction set alone, without TFJAC_INSTRUCTION_SETS=all")
    for name in lesser:
        assert run(VALUES, TFJAC_ISA=name).split() == [name]


@pytest.mark.by_day(one_in=4)
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
