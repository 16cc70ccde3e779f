"""What is asked of the CUDA launchers: ours beside what a GPU allows, or beside PyTorch; and the right results."""

import dataclasses
import functools
import itertools
from collections.abc import Callable

import numpy as np

from tests.gpu.launchers import blocks_of, example_blocks_of, systems_of
from tests.gpu.problems import Problem

PIECE = 2**27  # numbers of J at a time, where the expected result goes through it


@dataclasses.dataclass(frozen=True)
class Task:
    """A question, ready to be answered.

    Attributes:
        ours: launches it.
        results: the tensors that it writes.
        expected: gives what they must be, in float64, without any launcher.
        reference: what to time beside it; or gives the seconds, for whether TF32 is allowed.
        is_floor: whether it gives seconds.
        also: more to time, by name.
    """

    ours: Callable
    results: tuple
    expected: Callable
    reference: Callable
    is_floor: bool = False
    also: dict = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Question:
    """What to time against what.

    Attributes:
        name: what is computed.
        aim: the ratio of our time to the reference's that is to be reached.
        reference: what that is, in words.
        ask: gives the task, for a bench, a dtype and the sizes.
        sizes: whole numbers.
    """

    name: str
    aim: float
    reference: str
    ask: Callable
    sizes: tuple

    def task(self, bench, dtype) -> Task:
        """Give the task; a rehearsal makes the sizes smaller."""
        return self.ask(bench, dtype, *(min(size, bench.largest) for size in self.sizes))


@functools.lru_cache(maxsize=1)  # for both dtypes
def mlp(n, m, *sizes):
    """Give the factors of an MLP with biases: a layer's bias shares d with its weights."""
    blocks = []
    for i, o in itertools.pairwise(sizes):
        blocks += [(1, 1, i, o, "gio"), (1, 1, 1, "=", "gio")]
    return Problem(np.random.default_rng(0), n, m, blocks)


@functools.lru_cache(maxsize=1)
def layer(n, m, t, i, o):
    """Give the factor of one layer that is used at t positions, as a convolution is."""
    return Problem(np.random.default_rng(0), n, m, [(t, 1, i, o, "gio")])


def factors_of(bench, problem, dtype):
    """Give the factors (a, d) as tensors; what is shared stays shared."""
    put = functools.cache(lambda k: bench.put({id(d): d for d in problem.d}[k], dtype))
    return [(bench.put(a, dtype), put(id(d))) for a, d in zip(problem.a, problem.d)]


def doubled(factors):
    """Give factors in float64."""
    return [(a.double(), d.double()) for a, d in factors]


def rows_of(bench, factors):
    """Give J as `[n, m, p]`: the definition, written down."""
    blocks = [bench.torch.einsum("ntgi,nmtgo->nmgio", a, d).flatten(2) for a, d in factors]
    return bench.torch.cat(blocks, dim=2)


def matrix_of(bench, factors):
    """Give J as the matrix `[n·m, p]`."""
    return rows_of(bench, factors).flatten(0, 1)


def expected_gram(bench, factors, residual):
    """Give (JᵀJ, Jᵀr) in float64, some examples at a time."""
    factors, residual = doubled(factors), residual.double()
    p = sum(a.shape[2] * a.shape[3] * d.shape[4] for a, d in factors)
    gram, gradient = 0, 0
    step = max(1, PIECE // (residual.shape[1] * p))
    for begin in range(0, len(residual), step):
        part = slice(begin, begin + step)
        rows = matrix_of(bench, [(a[part], d[part]) for a, d in factors])
        gram, gradient = gram + rows.T @ rows, gradient + rows.T @ residual[part].flatten()
    return gram, gradient


def expected_kernel(bench, factors):
    """Give J·Jᵀ in float64, some columns at a time."""
    kernel = 0
    for a, d in doubled(factors):
        step = max(1, PIECE // (d.shape[0] * d.shape[1] * d.shape[3] * d.shape[4]))
        for begin in range(0, a.shape[3], step):
            rows = matrix_of(bench, [(a[..., begin : begin + step], d)])
            kernel = kernel + rows @ rows.T
    return (kernel,)


def bytes_of(*tensors) -> int:
    """Count the bytes of tensors, each once."""
    return sum({x.data_ptr(): x.nbytes for x in tensors}.values())


def rows(bench, dtype, n, m, *sizes):
    """J of an MLP, beside a copy that writes as much."""
    problem = mlp(n, m, *sizes)
    on_device, factors = bench.launchers.problem(problem, dtype), factors_of(bench, problem, dtype)
    out = bench.empty((problem.n, problem.m, problem.p), dtype)
    ours = bench.launch("jacobian_rows", dtype, on_device.factors, out)
    floor = lambda tf32: out.nbytes / bench.copy_rate()  # noqa: E731
    return Task(ours, (out,), lambda: (rows_of(bench, doubled(factors)),), floor, True)


def remaining_operations(problem):
    """Count the floating-point operations of JᵀJ that are left after both symmetries, block by block."""
    total, sizes = 0.0, [(a.shape[3], d.shape[4]) for a, d in zip(problem.a, problem.d)]
    for k, (i, o) in enumerate(sizes):
        through_rows = problem.n * problem.m * (i * o) * (i * o + 1)
        total += min(through_rows, problem.n * i * (i + 1) * o * (o + 1) / 2)
        total += sum(2 * problem.n * i * o * j * q for j, q in sizes[:k])
    return total


def gram(bench, dtype, problem):
    """JᵀJ and Jᵀr of an MLP, beside its operations at the rate of matmul, and its bytes at the rate of a copy."""
    on_device, factors = bench.launchers.problem(problem, dtype), factors_of(bench, problem, dtype)
    out, gradient = bench.empty((problem.p, problem.p), dtype), bench.empty((problem.p,), dtype)
    workspace = bench.workspace("jacobian_gram", dtype, on_device.factors)
    pointers = (on_device.residual, out, gradient, workspace)
    ours = bench.launch("jacobian_gram", dtype, on_device.factors, *pointers)
    residual, formed = bench.put(problem.residual, dtype), matrix_of(bench, factors)

    def floor(tf32):
        moved = bytes_of(out, gradient, residual, *itertools.chain(*factors)) / bench.copy_rate()
        return max(moved, remaining_operations(problem) / bench.matmul_rate(dtype, tf32))

    also = {"product of J, formed before": lambda: formed.T @ formed}
    return Task(ours, (out, gradient), lambda: expected_gram(bench, factors, residual), floor, True, also)


def gram_of_mlp(bench, dtype, *sizes):
    """JᵀJ of an MLP."""
    return gram(bench, dtype, mlp(*sizes))


def gram_of_layer(bench, dtype, *sizes):
    """JᵀJ of one layer."""
    return gram(bench, dtype, layer(*sizes))


def kernel(bench, dtype, problem, reference):
    """J·Jᵀ, beside what `reference` makes of the factors."""
    on_device, factors = bench.launchers.problem(problem, dtype), factors_of(bench, problem, dtype)
    size = problem.n * problem.m
    out, blocks = bench.empty((size, size), dtype), blocks_of(on_device)
    workspace = bench.workspace("jacobian_kernel", dtype, blocks)
    ours = bench.launch("jacobian_kernel", dtype, blocks, out, workspace)
    return Task(ours, (out,), lambda: expected_kernel(bench, factors), reference(bench, factors))


def by_pairs(_bench, factors):
    """J·Jᵀ in PyTorch as one would write it for layers that are used once: (a aᵀ) ∘ (d dᵀ)."""

    def call():
        total = 0
        for a, d in factors:
            n, m = d.shape[:2]
            a, d = a[:, 0, 0], d.reshape(n * m, -1)
            total = total + (a @ a.T)[:, None, :, None] * (d @ d.T).reshape(n, m, n, m)
        return total.reshape(n * m, n * m)

    return call


def of_formed_rows(bench, factors):
    """The product of J with itself; J is formed before."""
    formed = matrix_of(bench, factors)
    return lambda: formed @ formed.T


def kernel_by_pairs(bench, dtype, *sizes):
    """J·Jᵀ of an MLP, beside the same in PyTorch."""
    return kernel(bench, dtype, mlp(*sizes), by_pairs)


def kernel_of_few_rows(bench, dtype, *sizes):
    """J·Jᵀ of an MLP, beside the product of J with itself."""
    return kernel(bench, dtype, mlp(*sizes), of_formed_rows)


def kernel_of_layer(bench, dtype, *sizes):
    """J·Jᵀ of one layer that is used at several positions, beside the product of J with itself."""
    return kernel(bench, dtype, layer(*sizes), of_formed_rows)


def row_norms(bench, dtype, *sizes):
    """Squared norms of the rows of an MLP's J, beside a copy of the factors."""
    problem = mlp(*sizes)
    on_device, factors = bench.launchers.problem(problem, dtype), factors_of(bench, problem, dtype)
    out = bench.empty((problem.n, problem.m), dtype)
    ours = bench.launch("jacobian_row_norms", dtype, on_device.factors, out)

    def expected():
        return (sum((a * a).sum((1, 2, 3))[:, None] * (d * d).sum((2, 3, 4)) for a, d in doubled(factors)),)

    floor = lambda tf32: bytes_of(out, *itertools.chain(*factors)) / bench.copy_rate()  # noqa: E731
    return Task(ours, (out,), expected, floor, True)


def example_grams(bench, dtype, n, m, p):
    """JᵀJ and Jᵀr of each example, beside a copy of what must be read and written; also PyTorch's bmm."""
    jacobian, residual = bench.random((n, m, p), dtype), bench.random((n, m), dtype)
    out, gradient = bench.empty((n, p, p), dtype), bench.empty((n, p), dtype)
    inputs = example_blocks_of(bench.arrays, jacobian, residual)
    ours = bench.launch("example_grams", dtype, inputs, out, gradient)

    def both(j, r):
        return bench.torch.bmm(j.mT, j), bench.torch.bmm(j.mT, r[..., None])[..., 0]

    floor = lambda tf32: bytes_of(jacobian, residual, out, gradient) / bench.copy_rate()  # noqa: E731
    expected = lambda: both(jacobian.double(), residual.double())  # noqa: E731
    return Task(ours, (out, gradient), expected, floor, True, {"bmm": lambda: both(jacobian, residual)[0]})


def damped(bench, matrix, scaling, damping):
    """Give A + λD, in PyTorch."""
    return matrix + damping[..., None, None] * bench.torch.diag_embed(scaling)


def by_cholesky(bench, whole, rhs):
    """Solve systems in PyTorch, one for each matrix."""
    factor, _ = bench.torch.linalg.cholesky_ex(whole)
    return bench.torch.cholesky_solve(rhs.expand(whole.shape[:-1])[..., None], factor)[..., 0]


def solve(bench, dtype, p, k=1, each=False):
    """(A + λD)⁻¹b, of one system or of k, beside Cholesky in PyTorch, of all at once."""
    torch, shape = bench.torch, (k,) if each else ()
    root = bench.random((*shape, p, p + 8), dtype)
    matrix, rhs = root @ root.mT / p, bench.random((*shape, p), dtype)
    scaling, damping = torch.ones_like(rhs), torch.full_like(bench.random((k,), dtype), 0.1)
    solution, success = bench.empty((k, p), dtype), torch.zeros(k, dtype=torch.uint8, device=bench.device)
    systems = systems_of(bench.arrays, matrix, rhs, scaling, damping)
    workspace = bench.workspace("damped_solve", dtype, systems)
    ours = bench.launch("damped_solve", dtype, systems, solution, success, workspace)

    def expected():
        whole = damped(bench, matrix.double(), scaling.double(), damping.double())
        return by_cholesky(bench, whole, rhs.double()), torch.ones_like(success).double()

    def reference():
        return by_cholesky(bench, damped(bench, matrix, scaling, damping), rhs)

    return Task(ours, (solution, success), expected, reference)


def solves(bench, dtype, k, p):
    """K systems."""
    return solve(bench, dtype, p, k, True)


def step(bench, dtype, *sizes):
    """One step of Levenberg-Marquardt from the factors: JᵀJ, Jᵀr and the solution, beside the same through J."""
    problem = mlp(*sizes)
    torch, p = bench.torch, problem.p
    on_device, factors = bench.launchers.problem(problem, dtype), factors_of(bench, problem, dtype)
    matrix, gradient = bench.empty((p, p), dtype), bench.empty((p,), dtype)
    scaling, damping = torch.ones_like(gradient), torch.ones_like(gradient[:1])
    solution, success = bench.empty((1, p), dtype), torch.zeros(1, dtype=torch.uint8, device=bench.device)
    systems = systems_of(bench.arrays, matrix, gradient, scaling, damping)
    first = bench.workspace("jacobian_gram", dtype, on_device.factors)
    second = bench.workspace("damped_solve", dtype, systems)
    form = bench.launch("jacobian_gram", dtype, on_device.factors, on_device.residual, matrix, gradient, first)
    find = bench.launch("damped_solve", dtype, systems, solution, success, second)
    residual = bench.put(problem.residual, dtype)

    def expected():
        gram, right = expected_gram(bench, factors, residual)
        whole = damped(bench, gram, scaling.double(), damping.double())
        return by_cholesky(bench, whole, right), torch.ones_like(success).double()

    def reference():
        formed = matrix_of(bench, factors)
        return by_cholesky(bench, damped(bench, formed.T @ formed, scaling, damping), formed.T @ residual.flatten())

    return Task(lambda: (form(), find()), (solution, success), expected, reference)


COPY, READING = "writing as fast as a copy does", "reading the factors as fast as a copy does"
RATE = "its operations at the rate of matmul, or its bytes at that of a copy"
PRODUCT, BYTES = "the product of J with itself, formed before", "what must be read and written, as fast as a copy does"
ROWS, PAIRS = 1 / 0.7, 1.5  # of the rate of matmul: from rows of J, or most of it from pairs

# fmt: off
QUESTIONS = (  # sizes: examples, residuals of each, then the widths of the layers; or positions, inputs, outputs
    Question("rows, 784-16-10, 1,000 examples", 1.3, COPY, rows, (1000, 10, 784, 16, 10)),
    Question("rows, 8-50-50-1, 20,000 examples", 1.3, COPY, rows, (20_000, 1, 8, 50, 50, 1)),
    Question("gram, one layer 55-55, one output, 10,000 examples", PAIRS, RATE, gram_of_layer, (10_000, 1, 1, 55, 55)),
    Question("gram, 784-16-10, 256 examples", PAIRS, RATE, gram_of_mlp, (256, 10, 784, 16, 10)),
    Question("gram, 784-16-10, 4,096 examples", PAIRS, RATE, gram_of_mlp, (4096, 10, 784, 16, 10)),
    Question("gram, 8-50-50-1, 20,000 examples", PAIRS, RATE, gram_of_mlp, (20_000, 1, 8, 50, 50, 1)),
    Question("gram, 8-50-50-1, 100,000 examples", PAIRS, RATE, gram_of_mlp, (100_000, 1, 8, 50, 50, 1)),
    Question("gram, 1-20-1, 100,000 examples", ROWS, RATE, gram_of_mlp, (100_000, 1, 1, 20, 1)),
    Question("kernel, 784-16-10, 256 examples", 1 / 3, "the same in PyTorch", kernel_by_pairs, (256, 10, 784, 16, 10)),
    Question("kernel, 784-1024-1024-10, 100 examples", 1 / 3, "the same in PyTorch", kernel_by_pairs,
             (100, 10, 784, 1024, 1024, 10)),
    Question("kernel, 784-1024-1024-10, 100 rows", 2, PRODUCT, kernel_of_few_rows, (10, 10, 784, 1024, 1024, 10)),
    Question("kernel, 784-1024-1024-10, 16 rows", 2, PRODUCT, kernel_of_few_rows, (16, 1, 784, 1024, 1024, 10)),
    Question("kernel, convolution 27-16 at 196 positions, 64 examples", 2, PRODUCT, kernel_of_layer,
             (64, 10, 196, 27, 16)),
    Question("norms, 784-1024-1024-10, 10,000 examples", 1.5, READING, row_norms, (10_000, 10, 784, 1024, 1024, 10)),
    Question("example grams, 100,000 of 25 x 5", 2, BYTES, example_grams, (100_000, 25, 5)),
    Question("example grams, 10,000 of 40 x 20", 2, BYTES, example_grams, (10_000, 40, 20)),
    Question("example grams, 256 of 64 x 200", 2, BYTES, example_grams, (256, 64, 200)),
    Question("solve, p = 61", 1, "PyTorch", solve, (61,)),
    Question("solve, p = 3,000", 1, "PyTorch", solve, (3000,)),
    Question("solve, 1,000 systems of p = 16", 1, "PyTorch, all at once", solves, (1000, 16)),
    Question("solve, 256 systems of p = 100", 1, "PyTorch, all at once", solves, (256, 100)),
    Question("solve, 32 systems of p = 500", 1, "PyTorch, all at once", solves, (32, 500)),
    Question("step, 8-50-50-1, 20,000 examples", 0.5, "through J in PyTorch", step, (20_000, 1, 8, 50, 50, 1)),
)
# fmt: on
