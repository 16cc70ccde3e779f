"""Timing on a GPU: launchers and PyTorch on one stream, in turn. Or a rehearsal on the host: its times mean nothing."""

import contextlib
import ctypes
import os
import statistics
import time

import numpy as np

from tests.gpu import build
from tests.gpu.arrays import TorchArrays
from tests.gpu.launchers import ALIGNMENT, Launchers, nvidia_folders

ROUNDS, FEWEST_ROUNDS = 15, 3
SECONDS = 1.5  # for all candidates of a question together, once each has had its fewest rounds
TOLERANCE = {"float32": 1e-4, "float64": 1e-11}


def relative_error(found, expected) -> float:
    """Give the largest difference over the largest number that is expected; not a number where there is one."""
    return float(abs(found - expected).max()) / max(float(abs(expected).max()), 1e-300)


class Bench:
    """A GPU with the launchers built for it."""

    device = "cuda"
    largest = 10**9  # no size is larger
    times_count = True

    def __init__(self):
        import torch

        self.torch = torch
        torch.backends.cuda.matmul.allow_tf32 = False
        self.arrays, self.launchers = self._start()
        self.name, self.rates = self.arrays.device, {}  # what this GPU can do: name -> per second

    def _start(self):
        arrays = TorchArrays()
        self.stream = self.torch.cuda.ExternalStream(arrays.stream)
        return arrays, Launchers(build.cuda_library(), arrays, nvidia_folders())

    def wait(self):
        """Wait for all work enqueued so far; raises what has broken the GPU's context, then and ever after."""
        self.arrays.wait()

    def on_stream(self):
        """Give the scope in which PyTorch works on the launchers' stream."""
        return self.torch.cuda.stream(self.stream)

    def seconds(self, function) -> float:
        """Give the time of one call on the stream, of as many calls as fill some milliseconds."""
        once = self._span(function, 1)
        calls = max(1, min(200, int(5e-3 / max(once, 1e-6))))
        return self._span(function, calls) / calls

    def _span(self, function, calls):
        start, end = (self.torch.cuda.Event(enable_timing=True) for _ in range(2))
        with self.on_stream():
            start.record()
            for _ in range(calls):
                function()
            end.record()
        end.synchronize()
        return start.elapsed_time(end) * 1e-3

    def compare(self, candidates: dict, with_tf32=()) -> dict:
        """Time callables in turn, after a warm-up; give the median and the quartiles of each.

        Args:
            candidates: name -> what to call.
            with_tf32: names of those in which PyTorch may round factors of float32 to TF32.
        """
        samples, end = {name: [] for name in candidates}, None
        for done in range(-1, ROUNDS):
            if done >= FEWEST_ROUNDS and time.monotonic() > end:
                break
            for name, function in candidates.items():
                with self.tf32(name in with_tf32):
                    samples[name].append(self.seconds(function))
            if done < 0:  # the warm-up
                samples, end = {name: [] for name in candidates}, time.monotonic() + SECONDS
        return {
            name: {"seconds": statistics.median(x), "quartiles": statistics.quantiles(x, n=4)[::2], "rounds": len(x)}
            for name, x in samples.items()
        }

    @contextlib.contextmanager
    def tf32(self, allowed: bool):
        """Give the scope in which PyTorch may, or may not, round factors of float32 to TF32."""
        flags = self.torch.backends.cuda.matmul
        flags.allow_tf32 = allowed
        try:
            yield
        finally:
            flags.allow_tf32 = False

    def put(self, values, dtype):
        """Copy an array of NumPy to the GPU."""
        return self.arrays.put(values.astype(dtype))

    def empty(self, shape, dtype):
        """Give a tensor of not-a-numbers, so that what is not written shows."""
        dtype = getattr(self.torch, np.dtype(dtype).name)
        return self.torch.full(shape, float("nan"), dtype=dtype, device=self.device)

    def random(self, shape, dtype):
        """Give a tensor of random numbers."""
        return self.torch.randn(shape, dtype=getattr(self.torch, np.dtype(dtype).name), device=self.device)

    def workspace(self, op, dtype, sizes):
        """Give the workspace that an op asks for, aligned as launchers expect it, also on the host."""
        size = self.launchers.workspace_size(op, dtype, sizes)
        room = self.torch.empty(size + ALIGNMENT, dtype=self.torch.int8, device=self.device)
        return room[-room.data_ptr() % ALIGNMENT :]

    def launch(self, op, dtype, inputs, *tensors):
        """Give a callable that launches an op; None among the tensors is a null pointer.

        It holds on to the tensors, and to the inputs, which hold on to their arrays.
        """
        pointers = [x if x is None or isinstance(x, int) else x.data_ptr() for x in tensors]
        launch = self.launchers.bound(op, dtype, ctypes.byref(inputs), *pointers)

        def call():
            launch()
            return inputs, tensors

        return call

    def matmul_rate(self, dtype, tf32: bool) -> float:
        """Measure the best rate of the library's product, in floating-point operations per second."""
        name = f"operations per second, {np.dtype(dtype).name}{' with TF32' if tf32 else ''}"
        for size in (4096, 8192) if name not in self.rates else ():
            size = min(size, self.largest)
            x, out = self.random((size, size), dtype), self.empty((size, size), dtype)
            product = {"matmul": lambda x=x, out=out: self.torch.matmul(x, x.T, out=out)}
            rate = 2 * size**3 / self.compare(product, product if tf32 else ())["matmul"]["seconds"]
            self.rates[name] = max(rate, self.rates.get(name, 0))
        return self.rates[name]

    def copy_rate(self) -> float:
        """Measure the rate of a copy of 2 GB, in bytes read and written per second."""
        name = "bytes per second, copy"
        if name not in self.rates:
            source = self.random((min(2**28, self.largest),), np.float64)
            target = self.torch.empty_like(source)
            timing = self.compare({"copy": lambda: target.copy_(source)})
            self.rates[name] = 2 * source.nbytes / timing["copy"]["seconds"]
        return self.rates[name]


class _HostTensors:
    """Tensors of PyTorch that the emulated launchers read and write."""

    stream, device = None, "the host, emulated: times mean nothing"

    def __init__(self, torch):
        self.put = lambda values: torch.from_numpy(np.ascontiguousarray(values))
        self.pointer = lambda tensor: tensor.data_ptr()
        self.wait = lambda: None


class Rehearsal(Bench):
    """The emulated launchers and small sizes: whether questions can be asked, and results are right."""

    device = "cpu"
    largest = 6
    times_count = False

    def _start(self):
        arrays = _HostTensors(self.torch)
        library = build.build_emulated(build.CACHE / "emulated")
        os.environ["TFJAC_EMULATED_CUBLAS"] = os.environ["TFJAC_EMULATED_CUSOLVER"] = str(library)
        return arrays, Launchers(library, arrays)

    def on_stream(self):
        return contextlib.nullcontext()

    def seconds(self, function):
        started = time.perf_counter()
        function()
        return time.perf_counter() - started
