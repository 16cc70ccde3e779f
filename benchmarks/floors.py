"""What the machine can do at best: the floor under every measured time.

A question states how many bytes must at least be written and how many floating-point operations must at least be
done; `Machine` says, as measured in the same run, how long that takes at the speed of `memset` and of the best
library's matrix product.
"""

import concurrent.futures
import ctypes
import dataclasses
import os
import time

import numpy as np
import tensorflow as tf


@dataclasses.dataclass(frozen=True)
class Floor:
    """The least work that any implementation must do.

    Attributes:
        bytes_written: bytes of results that must reach memory.
        flops: multiplications and additions, a fused pair counted as two.
        dtype: of the arithmetic, "float32" or "float64".
    """

    bytes_written: float = 0.0
    flops: float = 0.0
    dtype: str = "float32"


@dataclasses.dataclass(frozen=True)
class Machine:
    """Measured speeds: bytes per second of memset, flops per second of the matrix product in each dtype."""

    memset: float
    matmul: dict[str, float]

    def seconds(self, floor: Floor) -> float:
        """The time below which no implementation can get: the slower of writing and computing."""
        return max(floor.bytes_written / self.memset, floor.flops / self.matmul[floor.dtype])


def _least_seconds(function, repetitions: int = 7) -> float:
    """The shortest of some runs: what the machine can do, not what its other users leave of it."""
    function()
    samples = []
    for _ in range(repetitions):
        start = time.perf_counter()
        function()
        samples.append(time.perf_counter() - start)
    return min(samples)


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def memset_rate(size: int) -> float:
    """Bytes per second of filling memory that is already mapped, by as many threads as there are cores."""
    block = np.zeros(size, np.uint8)
    block.fill(1)  # map the pages
    cores = _cores()
    parts = [part.ctypes.data for part in np.array_split(block, cores)]
    with concurrent.futures.ThreadPoolExecutor(cores) as pool:

        def fill():  # ctypes releases the interpreter's lock during the call
            list(pool.map(lambda address: ctypes.memset(address, 0, size // cores), parts))

        return size / _least_seconds(fill)


def matmul_rate(dtype: str, size: int) -> float:
    """Flops per second of the product of two square matrices, by the faster of TensorFlow and NumPy."""
    a = tf.random.stateless_normal([size, size], [1, 2], dtype=dtype)
    b = a.numpy()
    seconds = min(_least_seconds(tf.function(lambda: tf.matmul(a, a))), _least_seconds(lambda: b @ b))
    return 2 * size**3 / seconds


def machine(before: Machine | None = None, quick: bool = False) -> Machine:
    """Measure this machine; with an earlier measurement, return the better speeds of both."""
    filled, size = (1 << 22, 128) if quick else (1 << 28, 1536)
    now = Machine(memset_rate(filled), {dtype: matmul_rate(dtype, size) for dtype in ("float32", "float64")})
    if before is None:
        return now
    best = {dtype: max(rate, before.matmul[dtype]) for dtype, rate in now.matmul.items()}
    return Machine(max(now.memset, before.memset), best)
