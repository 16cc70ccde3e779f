"""Arrays that the launchers read and write: on a GPU by PyTorch or CuPy, or on the host for the emulation."""

import numpy as np

GUARD = 64  # numbers before and after every array that must stay as they are


class HostArrays:
    """Arrays of NumPy."""

    name = "numpy"
    stream = None

    def put(self, values):
        """Copy a NumPy array to where the launchers can read it."""
        return np.ascontiguousarray(values)

    def get(self, array):
        """Copy an array back to NumPy, after all work enqueued so far."""
        return np.array(array)

    def pointer(self, array):
        """Give the address of the first number."""
        return array.ctypes.data


class TorchArrays:
    """Arrays of PyTorch on the current CUDA device, on a stream of their own."""

    name = "torch"

    def __init__(self):
        import torch

        self._torch = torch
        self._stream = torch.cuda.Stream()
        self.stream = self._stream.cuda_stream
        self.device = torch.cuda.get_device_name()

    def put(self, values):
        array = self._torch.from_numpy(np.ascontiguousarray(values)).cuda()
        self._torch.cuda.synchronize()
        return array

    def get(self, array):
        self._torch.cuda.synchronize()
        return array.cpu().numpy()

    def pointer(self, array):
        return array.data_ptr()

    def wait(self):
        """Wait for all work enqueued so far; raises what has broken the GPU's context, then and ever after."""
        self._torch.cuda.synchronize()


class CupyArrays:
    """Arrays of CuPy on the current CUDA device, on a stream of their own."""

    name = "cupy"

    def __init__(self):
        import cupy

        self._cupy = cupy
        self._stream = cupy.cuda.Stream(non_blocking=True)
        self.stream = self._stream.ptr
        self.device = cupy.cuda.runtime.getDeviceProperties(0)["name"].decode()

    def put(self, values):
        array = self._cupy.asarray(np.ascontiguousarray(values))
        self._cupy.cuda.Device().synchronize()
        return array

    def get(self, array):
        self._cupy.cuda.Device().synchronize()
        return self._cupy.asnumpy(array)

    def pointer(self, array):
        return array.data.ptr

    def wait(self):
        self._cupy.cuda.Device().synchronize()


def gpu_arrays():
    """Give arrays on the GPU.

    Returns:
        (arrays, ""), or (None, why there are none).
    """
    reasons = []
    for kind, module in ((TorchArrays, "torch"), (CupyArrays, "cupy")):
        try:
            return kind(), ""
        except ImportError:
            reasons.append(f"{module} is not installed")
        except Exception as error:  # each package has its own way to say that there is no GPU
            reasons.append(f"{module} finds no GPU ({str(error).splitlines()[0]})")
    return None, " and ".join(reasons)


class Guarded:
    """An array of not-a-numbers (or of -1 for integers) with guards on both sides."""

    def __init__(self, arrays, shape, dtype):
        self._arrays, self._shape = arrays, shape
        size = int(np.prod(shape))
        self._before = np.full(size + 2 * GUARD, np.nan if np.issubdtype(dtype, np.floating) else -1).astype(dtype)
        self._before[:GUARD] = self._before[GUARD + size :] = 77
        self._array = arrays.put(self._before)
        self.pointer = arrays.pointer(self._array) + GUARD * self._before.itemsize

    def read(self):
        """Give the values, having checked the guards."""
        after = self._arrays.get(self._array)
        for part in (slice(0, GUARD), slice(after.size - GUARD, None)):
            np.testing.assert_array_equal(after[part], self._before[part], err_msg="written out of bounds")
        return after[GUARD : after.size - GUARD].reshape(self._shape)
