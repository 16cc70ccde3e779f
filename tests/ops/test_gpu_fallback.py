"""Where TensorFlow sees a GPU that the native ops have no kernels for, the twins run there: GPUs that are made up."""

import types

import numpy as np
import pytest
import tensorflow as tf

from tfjac import ops
from tfjac.ops import _gpu, _library

A, D = tf.ones([3, 1, 1, 2]), tf.ones([3, 2, 1, 1, 4])


@pytest.fixture
def library(need_native, monkeypatch):
    """The native library, which has not yet been asked about GPUs; as if built without CUDA kernels."""
    library = _library._Library(**{**vars(_library.load()), "gpu_reason": None})
    library.built = library.built | {"cuda_architectures": [], "cuda_reason": "nvcc was not found"}
    monkeypatch.setattr(_library, "_loaded", library)
    return library


@pytest.fixture
def gpu(monkeypatch):
    """A GPU in TensorFlow's eyes, of which it says nothing until `details` has something."""
    device, details = types.SimpleNamespace(name="/physical_device:GPU:0"), {}
    monkeypatch.setattr(tf.config, "get_visible_devices", lambda kind=None: [device] if kind == "GPU" else [])
    monkeypatch.setattr(tf.config.experimental, "get_device_details", lambda _: details)
    return details


def ops_in(function):
    return {op.type for op in tf.function(function).get_concrete_function().graph.get_operations()}


def kernel():
    return ops.jacobian_kernel([A], [D])


def test_native_without_a_gpu(library):
    assert "TfjacJacobianKernel" in ops_in(kernel)
    assert ops.ops_info().gpu_reason == ""


def test_twin_where_tensorflow_may_place_it_on_the_gpu(library, gpu):
    assert ops.ops_info().gpu_reason == "the native ops were built without CUDA kernels (nvcc was not found)"
    assert ops.ops_info().native and "GPU" not in ops.ops_info().ops["jacobian_kernel"]
    assert "TfjacJacobianKernel" not in ops_in(kernel)
    np.testing.assert_array_equal(tf.function(kernel)(), np.full([6, 6], 8.0))


@pytest.mark.parametrize("device", ["CPU:0", "/job:localhost/replica:0/task:0/device:CPU:0"])
def test_native_where_it_is_placed_on_the_cpu(device, library, gpu):
    def on_the_cpu():
        with tf.device(device):
            return kernel()

    assert "TfjacJacobianKernel" in ops_in(on_the_cpu)
    assert _library.native_op("jacobian_kernel") is not None  # eagerly: this TensorFlow has the CPU alone
    np.testing.assert_array_equal(on_the_cpu(), np.full([6, 6], 8.0))


def test_native_on_a_gpu_with_kernels_but_for_ops_without(library, gpu):
    library.gpu_reason = ""
    assert "TfjacJacobianKernel" in ops_in(kernel)
    found = []
    ops_in(lambda: found.append(_library.native_op("schur_complement")))
    assert found == [None]


@pytest.mark.parametrize(
    "capability, covered",
    [((7, 0), False), ((7, 5), True), ((8, 0), True), ((8, 9), True), ((9, 0), True), ((10, 0), True), ((12, 0), True)],
)
def test_compute_capabilities(capability, covered):
    assert _gpu.covers(("75", "80", "90"), capability) == covered


def test_code_of_a_newer_minor_version_does_not_run():
    assert (
        not _gpu.covers(("75", "86", "90a"), (8, 0)) and _gpu.covers(("80",), (8, 6)) and _gpu.covers(("80",), (9, 0))
    )


class Cuda:
    """The functions of the CUDA library that are asked."""

    def __init__(self, status):
        self.tfjac_cuda_driver_status = lambda: status
        self.tfjac_cuda_error_message = types.FunctionType((lambda _: b"driver version is insufficient").__code__, {})
        self.tfjac_cuda_runtime_version = lambda: 13020


def test_driver_that_is_too_old(gpu, monkeypatch):
    monkeypatch.setattr(_gpu.ctypes, "CDLL", lambda path: Cuda(35))
    said = _gpu.why_not("libtfjac_cuda.so", ("90",), "")
    assert said == "the driver does not run CUDA 13.2, of which they are (driver version is insufficient)"


def test_gpu_that_is_too_old(gpu, monkeypatch):
    monkeypatch.setattr(_gpu.ctypes, "CDLL", lambda path: Cuda(0))
    assert _gpu.why_not("libtfjac_cuda.so", ("80", "90"), "") == ""  # TensorFlow says nothing of it
    gpu["compute_capability"] = (7, 5)
    said = _gpu.why_not("libtfjac_cuda.so", ("80", "90"), "")
    assert said.startswith("/physical_device:GPU:0 has compute capability 7.5, and") and "for 80, 90 and newer" in said
    gpu["compute_capability"] = (8, 6)
    assert _gpu.why_not("libtfjac_cuda.so", ("80", "90"), "") == ""
