"""The handlers of XLA's calls, called by programs of JAX. Needs jax and NumPy, neither TensorFlow nor tfjac."""

import ctypes
import pathlib

import numpy as np

from tests.gpu import build
from tests.gpu.build_calls import build_cuda_calls
from tests.gpu.launchers import nvidia_folders

OPS = ("damped_solve", "example_grams", "jacobian_gram", "jacobian_kernel")


class Calls:
    """Calls of the handlers of one library, by programs that JAX compiles for a platform, "cpu" or "CUDA"."""

    def __init__(self, jax, kind, library, platform="cpu", suffix=""):
        self._jax, self._kind, self.library = jax, kind, ctypes.CDLL(str(library))
        self._device = jax.devices(platform.lower())[0]
        for op in OPS:
            for dtype in ("f32", "f64"):
                handler = jax.ffi.pycapsule(getattr(self.library, f"tfjac_{op}{suffix}_{dtype}"))
                jax.ffi.register_ffi_target(f"{kind}_{op}_{dtype}", handler, platform=platform)

    def __call__(self, op, dtype, results, *operands, **attributes):
        """Call a handler in a program that has nothing else in it; give arrays of NumPy."""
        jax = self._jax
        with double_precision(jax), jax.default_device(self._device):
            call = jax.jit(lambda *x: self.within(op, dtype, results, *x, **attributes))
            return [np.asarray(x) for x in call(*(np.asarray(x, dtype) for x in operands))]

    def within(self, op, dtype, results, *operands, **attributes):
        """Call a handler where a program is traced; results are pairs (shape, dtype)."""
        name = f"{self._kind}_{op}_{'f32' if dtype == np.float32 else 'f64'}"
        return self._jax.ffi.ffi_call(name, [self._jax.ShapeDtypeStruct(*each) for each in results])(
            *operands, **attributes
        )


def double_precision(jax):
    """Let JAX have float64, by the name that this version has for it."""
    if hasattr(jax, "enable_x64"):
        return jax.enable_x64(True)
    from jax.experimental import enable_x64

    return enable_x64()


def calls_on_gpu(jax, folder: pathlib.Path) -> Calls:
    """Build the handlers for the GPU that is there, with the launchers, into a folder."""
    launchers = build.cuda_library()
    for place in nvidia_folders():
        ctypes.CDLL(str(launchers)).tfjac_cuda_search_in(str(place).encode())
    return Calls(jax, "cuda", build_cuda_calls(folder, pathlib.Path(jax.ffi.include_dir()), launchers), "CUDA", "_cuda")
