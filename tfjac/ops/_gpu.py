"""Whether the native ops have kernels for the GPUs that TensorFlow sees, and where an op that is called will run."""

import ctypes
import os
import pathlib
import re

import tensorflow as tf

from ._nvidia_folders import nvidia_folders


def why_not(library_file: pathlib.Path, architectures: tuple, reason: str) -> str:
    """Say why the CUDA kernels cannot run on all GPUs that TensorFlow sees; empty where they can, or it sees none.

    Args:
        library_file: libtfjac_cuda.so.
        architectures: compute capabilities compiled in, as in "90"; empty without CUDA kernels.
        reason: why there are none, then.
    """
    gpus = tf.config.get_visible_devices("GPU")
    if not gpus:
        return ""
    if not architectures:
        return f"the native ops were built without CUDA kernels ({reason})"
    library = ctypes.CDLL(str(library_file))
    if code := library.tfjac_cuda_driver_status():
        library.tfjac_cuda_error_message.restype = ctypes.c_char_p
        version = library.tfjac_cuda_runtime_version()
        said = library.tfjac_cuda_error_message(code).decode()
        return f"the driver does not run CUDA {version // 1000}.{version % 1000 // 10}, of which they are ({said})"
    for gpu in gpus:
        capability = tf.config.experimental.get_device_details(gpu).get("compute_capability")
        if capability and not covers(architectures, capability):
            has, known = ".".join(map(str, capability)), ", ".join(architectures)
            return (
                f"{gpu.name} has compute capability {has}, and the CUDA kernels were compiled for {known} and newer "
                "ones: TFJAC_CUDA_ARCHS says for which when the package is built"
            )
    return ""


def covers(architectures, capability) -> bool:
    """Whether code for these architectures, and PTX of the last, runs on a GPU of this capability (major, minor)."""
    compiled = [divmod(int(re.split(r"\D", name)[0]), 10) for name in architectures]
    same_major = [each for each in compiled if each[0] == capability[0] and each[1] <= capability[1]]
    return bool(same_major) or tuple(capability) >= compiled[-1]


def runs_on_cpu() -> bool:
    """Whether an op that is called here runs on the CPU: in the scope of a device, or where TensorFlow would put it."""
    probe = tf.constant(0.0) if tf.executing_eagerly() else tf.no_op()
    return tf.DeviceSpec.from_string(probe.device).device_type == "CPU"


def tf32_wanted() -> bool:
    """Whether the ops and their twins may compute float32 in TF32."""
    return os.environ.get("TFJAC_TF32") == "1"


def tell_tf32(library_file: pathlib.Path) -> None:
    """Tell the CUDA library whether it may compute float32 in TF32; one from before it could never does."""
    use = getattr(ctypes.CDLL(str(library_file)), "tfjac_cuda_use_tf32", None)
    if use is not None:
        use(int(tf32_wanted()))


def tell_folders(library_file: pathlib.Path) -> None:
    """Tell the CUDA library where NVIDIA's packages from PyPI have put cuBLAS and cuSOLVER."""
    library = ctypes.CDLL(str(library_file))
    for folder in nvidia_folders():
        library.tfjac_cuda_search_in(str(folder).encode())
