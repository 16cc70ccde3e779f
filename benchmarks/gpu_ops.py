"""The CUDA launchers against the GPU's own limits and libraries: `python -m benchmarks.gpu_ops [filter]`.

Needs a CUDA GPU, nvcc and PyTorch; neither TensorFlow nor tfjac. Times are medians of CUDA events on one stream, ours
and the reference in turn. What counts are the ratios: beside each stands the one aimed at. The results go to
benchmarks/results/, with the date and the device in the file's name.

Not yet run on a GPU: no machine with one was at hand when this was written.
"""

import dataclasses
import datetime
import itertools
import json
import pathlib
import sys
from collections.abc import Callable

import numpy as np

from benchmarks.gpu_harness import Bench
from tests.gpu.launchers import Systems, blocks_of
from tests.gpu.problems import Problem

RESULTS = pathlib.Path(__file__).parent / "results"


@dataclasses.dataclass(frozen=True)
class Question:
    """What to time against what.

    Attributes:
        name: what is computed.
        aim: the ratio of our time to the reference's that is to be reached.
        reference: what that is, in words.
        make: gives (ours, seconds of the reference or a callable to be timed), for a dtype.
    """

    name: str
    aim: float
    reference: str
    make: Callable


def mlp(n, *sizes):
    """Give the factors of an MLP with biases, one residual per output: a layer's bias shares d with its weights."""
    blocks = []
    for i, o in itertools.pairwise(sizes):
        blocks += [(1, 1, i, o, "gio"), (1, 1, 1, "=", "gio")]
    return Problem(np.random.default_rng(0), n, sizes[-1], blocks)


def rows(bench, problem, dtype):
    on_device = bench.launchers.problem(problem, dtype)
    out = bench.empty((problem.n, problem.m, problem.p), dtype)
    ours = bench.launch("jacobian_rows", dtype, on_device.factors, out)
    return ours, out.nbytes / bench.copy_rate()


def remaining_operations(problem):
    """Count the floating-point operations of JᵀJ that are left after both symmetries, block by block."""
    total, sizes = 0.0, [(a.shape[3], d.shape[4]) for a, d in zip(problem.a, problem.d)]
    for k, (i, o) in enumerate(sizes):
        through_rows = problem.n * problem.m * (i * o) * (i * o + 1)
        total += min(through_rows, problem.n * i * (i + 1) * o * (o + 1) / 2)
        total += sum(2 * problem.n * i * o * j * q for j, q in sizes[:k])
    return total


def gram(bench, problem, dtype):
    on_device = bench.launchers.problem(problem, dtype)
    out, gradient = bench.empty((problem.p, problem.p), dtype), bench.empty((problem.p,), dtype)
    workspace = bench.workspace("jacobian_gram", dtype, on_device.factors)
    pointers = (on_device.residual, out, gradient, workspace)
    ours = bench.launch("jacobian_gram", dtype, on_device.factors, *pointers)
    return ours, remaining_operations(problem) / bench.matmul_rate(dtype)


def kernel(bench, problem, dtype):
    on_device, size = bench.launchers.problem(problem, dtype), problem.n * problem.m
    out, blocks = bench.empty((size, size), dtype), blocks_of(on_device)
    workspace = bench.workspace("jacobian_kernel", dtype, blocks)
    ours = bench.launch("jacobian_kernel", dtype, blocks, out, workspace)
    factors = [
        (bench.arrays.put(a[:, 0, 0].astype(dtype)), bench.arrays.put(d[:, :, 0, 0].astype(dtype)))
        for a, d in zip(problem.a, problem.d)
    ]

    def reference():
        total = 0
        for a, d in factors:
            of_d = (d.reshape(size, -1) @ d.reshape(size, -1).T).reshape(problem.n, problem.m, problem.n, problem.m)
            total = total + (a @ a.T)[:, None, :, None] * of_d
        return total.reshape(size, size)

    return ours, reference


def row_norms(bench, problem, dtype):
    on_device = bench.launchers.problem(problem, dtype)
    out = bench.empty((problem.n, problem.m), dtype)
    ours = bench.launch("jacobian_row_norms", dtype, on_device.factors, out)
    numbers = sum(a.size for a in problem.a) + sum(d.size for d in {id(d): d for d in problem.d}.values())
    return ours, numbers * np.dtype(dtype).itemsize / bench.copy_rate()


def solve(bench, p, dtype):
    torch = bench.torch
    root = bench.random((p, p + 8), dtype)
    matrix, rhs, scaling = root @ root.T / p, bench.random((p,), dtype), torch.ones_like(root[:, 0])
    damping, solution = torch.full_like(rhs[:1], 0.1), torch.empty_like(rhs)
    success = torch.empty(1, dtype=torch.bool, device="cuda")
    inputs = (matrix, rhs, scaling, damping)
    systems = Systems(p, 1, *(x.data_ptr() for x in inputs))
    workspace = bench.workspace("damped_solve", dtype, systems)
    launch = bench.launch("damped_solve", dtype, systems, solution, success, workspace)

    def reference():
        factor, _ = torch.linalg.cholesky_ex(matrix + damping * torch.diag(scaling))
        return torch.cholesky_solve(rhs[:, None], factor)

    return (lambda: (launch(), inputs)), reference


def step(bench, problem, dtype):
    """One step of Levenberg-Marquardt from the factors: JᵀJ, Jᵀr and the solution, against the same through J."""
    torch, p = bench.torch, problem.p
    on_device = bench.launchers.problem(problem, dtype)
    matrix, gradient = bench.empty((p, p), dtype), bench.empty((p,), dtype)
    scaling, damping = torch.ones_like(gradient), torch.full_like(gradient[:1], 0.1)
    solution, success = torch.empty_like(gradient), torch.empty(1, dtype=torch.bool, device="cuda")
    systems = Systems(p, 1, *(x.data_ptr() for x in (matrix, gradient, scaling, damping)))
    first = bench.workspace("jacobian_gram", dtype, on_device.factors)
    second = bench.workspace("damped_solve", dtype, systems)
    form = bench.launch("jacobian_gram", dtype, on_device.factors, on_device.residual, matrix, gradient, first)
    find = bench.launch("damped_solve", dtype, systems, solution, success, second)
    factors = [
        (bench.arrays.put(a[:, 0, 0].astype(dtype)), bench.arrays.put(d[:, :, 0, 0].astype(dtype)))
        for a, d in zip(problem.a, problem.d)
    ]
    residual = bench.arrays.put(problem.residual.astype(dtype)).reshape(-1)

    def reference():
        blocks = [(a[:, None, :, None] * d[:, :, None, :]).reshape(len(residual), -1) for a, d in factors]
        whole = torch.cat(blocks, dim=1)
        factor, _ = torch.linalg.cholesky_ex(whole.T @ whole + damping * torch.diag(scaling))
        return torch.cholesky_solve((whole.T @ residual)[:, None], factor)

    return (lambda: (form(), find())), reference


QUESTIONS = (
    Question(
        "rows, 784-16-10, 1,000 examples",
        1.3,
        "writing as fast as a copy does",
        lambda bench, dtype: rows(bench, mlp(1000, 784, 16, 10), dtype),
    ),
    Question(
        "rows, 8-50-50-1, 20,000 examples",
        1.3,
        "writing as fast as a copy does",
        lambda bench, dtype: rows(bench, mlp(20_000, 8, 50, 50, 1), dtype),
    ),
    Question(
        "gram, one layer 55-55, one output, 10,000 examples",
        1 / 0.7,
        "its operations at the rate of matmul",
        lambda bench, dtype: gram(bench, Problem(np.random.default_rng(0), 10_000, 1, [(1, 1, 55, 55, "gio")]), dtype),
    ),
    Question(
        "gram, 784-16-10, 256 examples",
        1 / 0.7,
        "its operations at the rate of matmul",
        lambda bench, dtype: gram(bench, mlp(256, 784, 16, 10), dtype),
    ),
    Question(
        "gram, 8-50-50-1, 20,000 examples",
        1 / 0.7,
        "its operations at the rate of matmul",
        lambda bench, dtype: gram(bench, mlp(20_000, 8, 50, 50, 1), dtype),
    ),
    Question(
        "kernel, 784-16-10, 256 examples",
        1 / 3,
        "the same in PyTorch",
        lambda bench, dtype: kernel(bench, mlp(256, 784, 16, 10), dtype),
    ),
    Question(
        "kernel, 784-1024-1024-10, 100 examples",
        1 / 3,
        "the same in PyTorch",
        lambda bench, dtype: kernel(bench, mlp(100, 784, 1024, 1024, 10), dtype),
    ),
    Question(
        "norms, 784-1024-1024-10, 10,000 examples",
        1.5,
        "reading the factors as fast as a copy does",
        lambda bench, dtype: row_norms(bench, mlp(10_000, 784, 1024, 1024, 10), dtype),
    ),
    Question("solve, p = 61", 1.0, "PyTorch", lambda bench, dtype: solve(bench, 61, dtype)),
    Question("solve, p = 3,000", 1.0, "PyTorch", lambda bench, dtype: solve(bench, 3000, dtype)),
    Question(
        "step, 8-50-50-1, 20,000 examples",
        0.5,
        "through J in PyTorch",
        lambda bench, dtype: step(bench, mlp(20_000, 8, 50, 50, 1), dtype),
    ),
)


def answer(bench, question, dtype):
    """Time one question; give a line of the results."""
    try:
        ours, reference = question.make(bench, dtype)
        if callable(reference):
            timings = bench.compare({"ours": ours, "reference": reference})
            reference = timings["reference"]["seconds"]
        else:
            timings = bench.compare({"ours": ours})
        ratio = timings["ours"]["seconds"] / reference
        found = timings["ours"] | {"reference_seconds": reference, "ratio": ratio, "reached": ratio <= question.aim}
    except Exception as error:  # one question that cannot be answered does not stop the others
        found = {"error": f"{type(error).__name__}: {error}"[:300]}
    return {
        "name": question.name,
        "dtype": np.dtype(dtype).name,
        "aim": question.aim,
        "reference": question.reference,
    } | found


def main(wanted=""):
    """Answer the questions whose name contains `wanted`; print a table and write the results."""
    bench, lines = Bench(), []
    for question in QUESTIONS:
        for dtype in (np.float32, np.float64):
            if wanted not in question.name:
                continue
            line = answer(bench, question, dtype)
            lines.append(line)
            told = line.get("error") or f"{line['seconds'] * 1e3:9.3f} ms, ratio {line['ratio']:.2f}"
            print(f"{line['name']:52} {line['dtype']:8} {told}, aim {line['aim']:.2f}: {line['reference']}", flush=True)
            bench.torch.cuda.empty_cache()
    date = datetime.date.today().isoformat()
    record = {"device": bench.arrays.device, "date": date, "torch": bench.torch.__version__, "questions": lines}
    RESULTS.mkdir(exist_ok=True)
    name = "".join(c if c.isalnum() else "-" for c in bench.arrays.device.lower())
    path = RESULTS / f"gpu_ops-{name}-{date}.json"
    path.write_text(json.dumps(record, indent=1) + "\n")
    print("written to", path)


if __name__ == "__main__":
    main(*sys.argv[1:2])
