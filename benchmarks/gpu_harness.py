"""Timing on a GPU: launchers and PyTorch on one stream, in turn."""

import ctypes
import statistics

import numpy as np

from tests.gpu import build
from tests.gpu.arrays import TorchArrays
from tests.gpu.launchers import Launchers

ROUNDS = 15


class Bench:
    """A GPU with the launchers built for it."""

    def __init__(self):
        import torch

        self.torch = torch
        torch.backends.cuda.matmul.allow_tf32 = False
        self.arrays = TorchArrays()
        self.launchers = Launchers(build.build_cuda(build.ROOT / "build" / "gpu_bench"), self.arrays)
        self.stream = torch.cuda.ExternalStream(self.arrays.stream)

    def seconds(self, function) -> float:
        """Give the time of one call on the stream, of as many calls as fill some milliseconds."""
        once = self._span(function, 1)
        calls = max(1, min(200, int(5e-3 / max(once, 1e-6))))
        return self._span(function, calls) / calls

    def _span(self, function, calls):
        start, end = (self.torch.cuda.Event(enable_timing=True) for _ in range(2))
        with self.torch.cuda.stream(self.stream):
            start.record()
            for _ in range(calls):
                function()
            end.record()
        end.synchronize()
        return start.elapsed_time(end) * 1e-3

    def compare(self, candidates: dict) -> dict:
        """Time callables in turn, after a warm-up; give the median and the quartiles of each."""
        samples = {name: [] for name in candidates}
        for function in candidates.values():
            self.seconds(function)
        for _ in range(ROUNDS):
            for name, function in candidates.items():
                samples[name].append(self.seconds(function))
        return {
            name: {"seconds": statistics.median(x), "quartiles": statistics.quantiles(x, n=4)[::2]}
            for name, x in samples.items()
        }

    def empty(self, shape, dtype):
        """Give an uninitialised tensor on the GPU."""
        return self.torch.empty(shape, dtype=getattr(self.torch, np.dtype(dtype).name), device="cuda")

    def random(self, shape, dtype):
        """Give a tensor of random numbers on the GPU."""
        return self.torch.randn(shape, dtype=getattr(self.torch, np.dtype(dtype).name), device="cuda")

    def workspace(self, op, dtype, sizes):
        """Give the workspace that an op asks for."""
        size = ctypes.c_int64()
        self.launchers.call(f"{op}_workspace", dtype, ctypes.byref(sizes), ctypes.byref(size))
        return self.torch.empty(max(size.value, 1), dtype=self.torch.int8, device="cuda")

    def launch(self, op, dtype, sizes, *tensors):
        """Give a callable that launches an op; None among the tensors is a null pointer."""
        pointers = [x if x is None or isinstance(x, int) else x.data_ptr() for x in tensors]
        kept = tensors

        def call():
            self.launchers.call(op, dtype, ctypes.byref(sizes), *pointers)
            return kept

        return call

    def matmul_rate(self, dtype) -> float:
        """Measure the best rate of the library's product, in floating-point operations per second."""
        best = 0.0
        for size in (4096, 8192):
            x, out = self.random((size, size), dtype), self.empty((size, size), dtype)
            timing = self.compare({"matmul": lambda x=x, out=out: self.torch.matmul(x, x.T, out=out)})
            best = max(best, 2 * size**3 / timing["matmul"]["seconds"])
        return best

    def copy_rate(self) -> float:
        """Measure the rate of a copy of 2 GB, in bytes read and written per second."""
        source = self.empty((2**28,), np.float64).zero_()
        target = self.torch.empty_like(source)
        timing = self.compare({"copy": lambda: target.copy_(source)})
        return 2 * source.nbytes / timing["copy"]["seconds"]
