"""A whole step of Levenberg-Marquardt in JAX on a GPU: by JAX alone, and by the kernels of this package.

    python -m benchmarks.gpu_step_in_jax [--out FOLDER] [--rehearse]

Both programs are compiled by XLA, start from the weights of an MLP and end with new ones. JAX's forms J by
`vmap(jacrev)`, then JᵀJ and its Cholesky factor. Ours runs the network forward and backward once, and gives the factors
of J to the calls of `jacobian_gram` and `damped_solve`. Needs a CUDA GPU, JAX, and nvcc or a library that
TFJAC_CUDA_LIBRARY names; neither TensorFlow nor tfjac. A step that is wrong, by JAX's in float64, is not timed. The
aim is a fifth of JAX's time. `--rehearse` does it on the host, with few examples and the calls for the CPU.
"""

import argparse
import itertools
import json
import pathlib
import statistics
import sys
import time

import numpy as np

from tests.gpu.build import CACHE
from tests.gpu.jax_calls import Calls, calls_on_gpu

AIM = 0.2
CASES = (((8, 50, 50, 1), 20_000), ((1, 20, 1), 100_000), ((784, 16, 10), 1000))
TOLERANCE = {"float32": 2e-2, "float64": 1e-8}  # of the step: the condition of the damped matrix stands in it
DAMPING, ROUNDS, SECONDS = 1.0, 15, 1.0


def network(jnp, sizes):
    """Give a function of flat weights and one example: an MLP with tanh."""

    def predict(weights, x):
        for number, (w, b) in enumerate(layers(weights, sizes)):
            x = (x if number == 0 else jnp.tanh(x)) @ w + b
        return x

    return predict


def layers(weights, sizes):
    """Cut flat weights into pairs of a matrix and a bias."""
    begin, found = 0, []
    for i, o in itertools.pairwise(sizes):
        middle, end = begin + i * o, begin + i * o + o
        found.append((weights[begin:middle].reshape(i, o), weights[middle:end]))
        begin = end
    return found


def step_of_jax(jax, sizes):
    """One step as one would write it in JAX."""
    jnp, predict = jax.numpy, network(jax.numpy, sizes)

    def step(weights, x, y):
        rows = jax.vmap(jax.jacrev(predict), (None, 0))(weights, x).reshape(-1, weights.size)
        residual = (jax.vmap(predict, (None, 0))(weights, x) - y).reshape(-1)
        damped = rows.T @ rows + DAMPING * jnp.eye(weights.size, dtype=weights.dtype)
        factor = jax.scipy.linalg.cho_factor(damped, lower=True)
        return weights - jax.scipy.linalg.cho_solve(factor, rows.T @ residual)

    return step


def step_of_ours(jax, calls: Calls, sizes):
    """One step with the kernels: the network runs forward and backward, and J is never formed."""
    jnp = jax.numpy

    def step(weights, x, y):
        inputs, values, pairs = [], x, layers(weights, sizes)
        for number, (w, b) in enumerate(pairs):
            inputs.append(values if number == 0 else jnp.tanh(values))
            values = inputs[-1] @ w + b
        n, m, p, dtype = len(x), sizes[-1], weights.size, weights.dtype
        cotangents = [jnp.broadcast_to(jnp.eye(m, dtype=dtype), (n, m, m))]
        for (w, _), hidden in zip(pairs[:0:-1], inputs[:0:-1]):
            cotangents.insert(0, (cotangents[0] @ w.T) * (1 - hidden * hidden)[:, None])
        a, d = [], []
        for value, cotangent in zip(inputs, cotangents):
            a += [value.reshape(n, 1, 1, -1), jnp.ones((n, 1, 1, 1), dtype)]
            d += [cotangent.reshape(n, m, 1, 1, -1)] * 2
        attributes = {"layouts": "gio" * len(a), "count": np.int64(len(a))}
        shapes = [((p, p), dtype), ((p,), dtype)]
        gram, gradient = calls.within("jacobian_gram", dtype, shapes, *a, *d, values - y, **attributes)
        ones, damping = jnp.ones(p, dtype), jnp.full(1, DAMPING, dtype)
        results = [((1, p), dtype), ((1,), np.bool_)]
        solution, _ = calls.within("damped_solve", dtype, results, gram, gradient, ones, damping)
        return weights - solution[0]

    return step


def median_times(jax, programs: dict) -> dict:
    """Time programs in turn, after a warm-up; give the median seconds of each."""
    samples, end = {name: [] for name in programs}, None
    for done in range(-1, ROUNDS):
        if done >= 3 and time.monotonic() > end:
            break
        for name, program in programs.items():
            begin = time.perf_counter()
            for _ in range(3):
                result = program()
            jax.block_until_ready(result)
            samples[name].append((time.perf_counter() - begin) / 3)
        if done < 0:
            samples, end = {name: [] for name in programs}, time.monotonic() + SECONDS
    return {name: statistics.median(found) for name, found in samples.items()}


def compare(jax, calls, sizes, n, dtype) -> dict:
    """Check and time one network; give a line of the results."""
    rng, count = np.random.default_rng(0), sum(i * o + o for i, o in itertools.pairwise(sizes))
    weights = np.concatenate([
        np.append(rng.standard_normal(i * o) / np.sqrt(i), np.zeros(o)) for i, o in itertools.pairwise(sizes)
    ])  # fmt: skip
    x, y = rng.standard_normal((n, sizes[0])), rng.standard_normal((n, sizes[-1]))
    given = [jax.numpy.asarray(array, dtype) for array in (weights, x, y)]
    programs = {"ours": jax.jit(step_of_ours(jax, calls, sizes)), "JAX": jax.jit(step_of_jax(jax, sizes))}
    with jax.default_matmul_precision("highest"):
        exact = programs["JAX"](*(jax.numpy.asarray(array, "float64") for array in (weights, x, y)))
        found = {name: program.lower(*given).compile() for name, program in programs.items()}
    if dtype == "float32":
        found["JAX with TF32"] = jax.jit(step_of_jax(jax, sizes)).lower(*given).compile()  # as JAX has it by itself
    length = np.linalg.norm(exact - weights)
    errors = {name: float(np.linalg.norm(program(*given) - exact) / length) for name, program in found.items()}
    line = {"sizes": sizes, "examples": n, "parameters": count, "dtype": dtype, "errors": errors, "aim": AIM}
    if not errors["ours"] <= TOLERANCE[dtype]:
        return line | {"error": f"WRONG: relative error {errors['ours']:.1e}"}
    seconds = median_times(jax, {name: lambda program=program: program(*given) for name, program in found.items()})
    ratios = {name: seconds["ours"] / other for name, other in seconds.items() if name != "ours"}
    return line | {"seconds": seconds, "ratios": ratios, "reached": ratios["JAX"] <= AIM}


def told(line) -> str:
    """Say a line of the results in words."""
    start = f"step, {'-'.join(map(str, line['sizes']))}, {line['examples']:,} examples, {line['dtype']}"
    if "error" in line:
        return f"{start}: {line['error']}; aim {line['aim']:.2f}"
    ratios = ", ".join(f"{ratio:.3f} of {name}" for name, ratio in line["ratios"].items())
    return f"{start}: {line['seconds']['ours'] * 1e3:.3f} ms, error {line['errors']['ours']:.0e}, {ratios}; " + (
        f"aim {line['aim']:.2f} {'reached' if line['reached'] else 'MISSED'}"
    )


def main(arguments=None) -> int:
    """Compare all cases; give 1 if one is wrong."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=pathlib.Path, help="the folder for the results")
    parser.add_argument("--rehearse", action="store_true", help="on the host, with few examples")
    given = parser.parse_args(arguments)
    import jax

    jax.config.update("jax_enable_x64", True)
    calls = calls_of_host(jax) if given.rehearse else calls_on_gpu(jax, CACHE / "calls" / "cuda")
    lines, device = [], jax.devices("cpu" if given.rehearse else "cuda")[0]
    cases = [case for case in CASES if max(case[0]) < 100] if given.rehearse else CASES
    for (sizes, n), dtype in itertools.product(cases, ("float32", "float64")):
        with jax.default_device(device):
            lines.append(compare(jax, calls, sizes, min(n, 50) if given.rehearse else n, dtype))
        print(told(lines[-1]), flush=True)
    if given.out:
        given.out.mkdir(parents=True, exist_ok=True)
        record = {"device": device.device_kind, "jax": jax.__version__, "steps": lines}
        (given.out / "gpu_step_in_jax.json").write_text(json.dumps(record, indent=1) + "\n")
    return int(any("error" in line for line in lines))


def calls_of_host(jax) -> Calls:
    """Build the calls for the CPU."""
    from tests.gpu.build_calls import build_cpu_calls

    return Calls(jax, "cpu", build_cpu_calls(CACHE / "calls" / "cpu", pathlib.Path(jax.ffi.include_dir())))


if __name__ == "__main__":
    sys.exit(main())
