"""The native ops against what they must beat: `python -m benchmarks.native_ops [filter]`.

Every question is timed in one run, side by side; what counts are the ratios. Rows of the table say what is compared
with what, the ratio of the medians that was aimed at, and the one that was reached.
"""

import concurrent.futures
import ctypes
import dataclasses
import datetime
import itertools
import json
import os
import pathlib
import platform
import statistics
import sys
import time
from collections.abc import Callable

import numpy as np
import tensorflow as tf

from benchmarks.harness import measure
from tfjac import ops
from tfjac.linear.factors.forms import DenseFactor, OuterFactor
from tfjac.linear.factors.weighted_kernel import kernel_of_blocks

RESULTS = pathlib.Path(__file__).parent / "results" / "native_ops.json"


@dataclasses.dataclass(frozen=True)
class Question:
    """What to time against what.

    Attributes:
        name: what is computed.
        aim: time of `ours` over time of `reference` that is to be reached; None: none, just told.
        make: gives (ours, reference), two callables without arguments, for a dtype.
        reference: what it is compared with, in words.
    """

    name: str
    aim: float | None
    reference: str
    make: Callable


def mlp_factors(n, sizes, dtype):
    """Give random factors (a, d, layouts) of an MLP with biases on `n` examples; one residual per output."""
    random = np.random.default_rng(0)
    a, d = [], []
    for i, o in itertools.pairwise(sizes):
        to_d = tf.constant(random.standard_normal((n, sizes[-1], 1, 1, o)), dtype)
        a += [tf.constant(random.standard_normal((n, 1, 1, i)), dtype), tf.ones([n, 1, 1, 1], dtype)]
        d += [to_d, to_d]
    return a, d, ["gio"] * len(a)


def fill_memory(bytes_, fresh):
    """Give a callable that fills memory with memset on all cores: the same each time, or newly allocated."""
    cores = len(os.sched_getaffinity(0))
    pool = concurrent.futures.ThreadPoolExecutor(cores)
    block = None if fresh else np.ones(bytes_, np.uint8)

    def fill():
        to = np.empty(bytes_, np.uint8) if fresh else block
        addresses = [part.ctypes.data for part in np.array_split(to, cores)]
        list(pool.map(lambda address: ctypes.memset(address, 1, bytes_ // cores), addresses))

    return fill


def rows(n, sizes):
    def make(dtype):
        a, d, layouts = mlp_factors(n, sizes, dtype)
        result = ops.jacobian_rows(a, d, layouts)
        fill = fill_memory(tf.size(result).numpy() * dtype.size, fresh=True)
        return (lambda: ops.jacobian_rows(a, d, layouts)), fill

    return make


def gram(n, sizes, n_in_double=None):
    def make(dtype):
        examples = n_in_double if n_in_double and dtype == tf.float64 else n  # else a round takes minutes
        a, d, layouts = mlp_factors(examples, sizes, dtype)
        jacobian = ops.jacobian_rows(a, d, layouts)
        jacobian = tf.reshape(jacobian, [-1, jacobian.shape[-1]])
        reference = tf.function(lambda: tf.matmul(jacobian, jacobian, transpose_a=True))
        ours = tf.function(lambda: ops.jacobian_gram(a, d, layouts))
        return ours, reference

    return make


def normal_equations(n, sizes):
    """JᵀJ and Jᵀr from factors, against all that they take by way of the dense rows."""

    def make(dtype):
        a, d, layouts = mlp_factors(n, sizes, dtype)
        residual = tf.constant(np.random.default_rng(1).standard_normal((n, sizes[-1])), dtype)

        def reference():
            jacobian = ops.jacobian_rows(a, d, layouts)
            jacobian = tf.reshape(jacobian, [-1, jacobian.shape[-1]])
            r = tf.reshape(residual, [-1, 1])
            return tf.matmul(jacobian, jacobian, transpose_a=True), tf.matmul(jacobian, r, transpose_a=True)

        return tf.function(lambda: ops.jacobian_gram(a, d, layouts, residual)), tf.function(reference)

    return make


def kernel(n, sizes):
    def make(dtype):
        a, d, _ = mlp_factors(n, sizes, dtype)
        m = sizes[-1]

        @tf.function
        def reference():
            total = 0
            for k in range(0, len(a), 2):  # weights and bias of a layer share d
                inputs = tf.reshape(a[k], [n, -1])
                outputs = tf.reshape(d[k], [n * m, -1])
                of_inputs = tf.matmul(inputs, inputs, transpose_b=True) + 1.0
                of_outputs = tf.reshape(tf.matmul(outputs, outputs, transpose_b=True), [n, m, n, m])
                total += of_inputs[:, None, :, None] * of_outputs
            return tf.reshape(total, [n * m, n * m])

        return tf.function(lambda: ops.jacobian_kernel(a, d)), reference

    return make


def dual_step(dense, outer, sizes):
    """Jᵀ(JJᵀ + λI)⁻¹r for two blocks of rows: of a second-order equation, dense, and of a network itself."""

    def make(dtype):
        random, shapes = np.random.default_rng(0), list(itertools.pairwise(sizes))
        numbers = [count for i, o in shapes for count in (i * o, o)]
        equation = [DenseFactor(tf.constant(random.standard_normal((dense, 1, q)), dtype)) for q in numbers]
        a, d, _ = mlp_factors(outer, sizes, dtype)
        border = [OuterFactor(x, y) for x, y in zip(a, d)]
        residual = tf.constant(random.standard_normal(dense + outer), dtype)
        ones, damping = tf.ones_like(residual), tf.constant(0.1, dtype)

        def adjoint(u):
            of_blocks = zip(equation, border)
            parts = [tf.reshape(part, [-1, 1, 1]) for part in tf.split(u, [dense, outer])]
            return tf.concat([sum(f.adjoint_matmul(x) for f, x in zip(pair, parts)) for pair in of_blocks], 0)

        def ours():
            kernel = kernel_of_blocks([equation, border], [(dense, 1), (outer, 1)], dtype)
            return adjoint(ops.damped_solve(kernel, residual, ones, damping)[0])

        def reference():
            blocks = (equation, border)
            rows = tf.concat([tf.concat([f.dense()[:, 0] for f in block], 1) for block in blocks], 0)
            kernel = tf.matmul(rows, rows, transpose_b=True)
            factor = tf.linalg.cholesky(tf.linalg.set_diag(kernel, tf.linalg.diag_part(kernel) + damping))
            weights = tf.linalg.cholesky_solve(factor, residual[:, None])
            return tf.matmul(rows, weights, transpose_a=True)

        return tf.function(ours), tf.function(reference)

    return make


def row_norms(n, sizes):
    def make(dtype):
        a, d, _ = mlp_factors(n, sizes, dtype)
        d = [tf.identity(x) for x in d]
        cores = len(os.sched_getaffinity(0))
        pool = concurrent.futures.ThreadPoolExecutor(cores)
        parts = [part for x in a + d for part in np.array_split(x.numpy().ravel(), cores)]
        per_core = [parts[core::cores] for core in range(cores)]

        def read():  # np.max runs at the speed of memory
            list(pool.map(lambda mine: [np.max(part) for part in mine], per_core))

        return (lambda: ops.jacobian_row_norms(a, d)), read

    return make


def damped_solve(p, k):
    def make(dtype):
        random = np.random.default_rng(0)
        root = random.standard_normal((p, p)).astype(np.float32)
        matrix = tf.constant(root @ root.T / p, dtype)
        rhs, scaling = tf.constant(random.standard_normal(p), dtype), tf.ones([p], dtype)
        damping = tf.constant(np.linspace(0.1, 1, k), dtype)

        @tf.function
        def reference():
            solutions = []
            for j in range(k):
                factor = tf.linalg.cholesky(
                    tf.linalg.set_diag(matrix, tf.linalg.diag_part(matrix) + damping[j] * scaling)
                )
                solutions.append(tf.linalg.cholesky_solve(factor, rhs[:, None]))
            return solutions

        return tf.function(lambda: ops.damped_solve(matrix, rhs, scaling, damping)), reference

    return make


def overhead(op):
    """A call on the sizes of a small problem (p = 61) with hardly an example, against an op that does nothing."""

    def make(dtype):
        a, d, layouts = mlp_factors(1, (4, 10, 1), dtype)
        call = {"rows": lambda: ops.jacobian_rows(a, d, layouts), "gram": lambda: ops.jacobian_gram(a, d, layouts)}[op]
        return call, lambda: tf.identity(a[0])

    return make


PER_CALL = "an empty op's call, plus 30 µs"
QUESTIONS = [
    Question("rows, 8-50-50-1, 20,000 examples", 1.5, "memset of fresh memory", rows(20_000, (8, 50, 50, 1))),
    Question("rows, 784-16-10, 512 examples", 1.5, "memset of fresh memory", rows(512, (784, 16, 10))),
    Question("gram, one output, 8-50-50-1, 10,000 examples", 0.5, "tf.matmul(J, J)", gram(10_000, (8, 50, 50, 1))),
    Question("gram, one output, 61 parameters, 20,000 examples", None, "tf.matmul(J, J)", gram(20_000, (4, 10, 1))),
    Question(
        "gram, ten outputs, 784-16-10, 256 (float64: 64) examples", 0.1, "tf.matmul(J, J)", gram(256, (784, 16, 10), 64)
    ),
    *(
        Question(
            f"gram and gradient, {'-'.join(map(str, sizes))}, {n:,} examples",
            aim,
            "dense rows and tf.matmul",
            normal_equations(n, sizes),
        )
        for n, sizes, aim in [(20_000, (1, 20, 1), 0.6), (8192, (8, 20, 20, 1), 0.5), (506, (13, 20, 20, 1), 0.5)]
    ),
    Question("kernel, 784-16-10, 256 examples", 0.5, "TensorFlow ops", kernel(256, (784, 16, 10))),
    Question("kernel, 784-1024-1024-10, 100 examples", 0.5, "TensorFlow ops", kernel(100, (784, 1024, 1024, 10))),
    Question(
        "dual step, 900 and 120 rows, 2-64-64-48-48-1",
        0.5,
        "dense rows, tf.matmul and tf.linalg.cholesky",
        dual_step(900, 120, (2, 64, 64, 48, 48, 1)),
    ),
    Question("row norms, 784-1024-1024-10, 500 examples", 1.5, "reading once", row_norms(500, (784, 1024, 1024, 10))),
    Question("damped solve, p = 3,000", 0.45, "tf.linalg.cholesky and cholesky_solve", damped_solve(3000, 1)),
    Question(
        "damped solve, p = 3,000, 4 dampings", 0.45, "tf.linalg.cholesky and cholesky_solve", damped_solve(3000, 4)
    ),
    Question("call of rows, 61 parameters", None, PER_CALL, overhead("rows")),
    Question("call of gram, 61 parameters", None, PER_CALL, overhead("gram")),
]


def processor_seconds(function: Callable, calls: int = 3) -> float:
    """Give the time that a call keeps processors busy, all threads together: other programs disturb it less."""
    samples = []
    for _ in range(calls):
        start = time.process_time()
        function()
        samples.append(time.process_time() - start)
    return statistics.median(samples)


def answer(question: Question, dtype: tf.DType, rounds: int) -> dict:
    """Time one question in one dtype."""
    functions = question.make(dtype)
    timings = measure(dict(zip(("ours", "reference"), functions)), rounds=rounds)
    ours, reference = timings["ours"], timings["reference"]
    result = {
        "question": question.name,
        "dtype": dtype.name,
        "reference": question.reference,
        "seconds": ours.median,
        "spread": ours.spread,
        "reference_seconds": reference.median,
        "reference_spread": reference.spread,
    }
    if question.reference == PER_CALL:
        extra = ours.median - reference.median
        return result | {"aim": 30e-6, "reached": extra, "good": extra <= 30e-6, "unit": "seconds"}
    ratio = ours.median / reference.median
    busy = [processor_seconds(function) for function in functions]
    result |= {"aim": question.aim, "reached": ratio, "reached_in_processor_time": busy[0] / busy[1], "unit": "ratio"}
    return result | {"good": question.aim is None or ratio <= question.aim}


def line_of(result: dict) -> str:
    scale, unit = (1e6, " µs") if result["unit"] == "seconds" else (1, "")
    aim = "none" if result["aim"] is None else f"{result['aim'] * scale:.2f}{unit}"
    busy = result.get("reached_in_processor_time")
    return (
        f"{result['question']:57} {result['dtype']:8} {result['seconds'] * 1e3:9.3f} ms   "
        f"reached {result['reached'] * scale:6.2f}{unit} {f'({busy:.2f} in processor time)' if busy else ''}   "
        f"aim {aim}   {'' if result['good'] else 'MISSED   '}against {result['reference']}"
    )


def main(pattern: str = "", rounds: int = 15) -> list:
    """Answer the questions whose name contains `pattern`; without one, write the results as they come."""
    if not ops.load_ops():
        raise SystemExit(f"There are no native ops to time: {ops.ops_info().reason}")
    results = []
    for question in QUESTIONS:
        for dtype in (tf.float32, tf.float64):
            if pattern in question.name:
                results.append(answer(question, dtype, rounds))
                print(line_of(results[-1]), flush=True)
                if not pattern:
                    write(results)
    return results


def write(results: list) -> None:
    """Write the results, with what they were measured on."""
    record = {
        "date": datetime.date.today().isoformat(),
        "processor": platform.processor() or platform.machine(),
        "cores": len(os.sched_getaffinity(0)),
        "load_average": os.getloadavg(),  # above the number of cores: other programs were running
        "instruction_set": ops.ops_info().instruction_set,
        "tensorflow": tf.__version__,
        "results": results,
    }
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:2])
