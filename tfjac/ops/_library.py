"""Finding, loading and choosing the native library."""

import contextlib
import ctypes
import dataclasses
import json
import pathlib
import threading
import warnings

import tensorflow as tf

NATIVE_DIR = pathlib.Path(__file__).parent / "_native"
OP_NAMES = ("jacobian_rows", "jacobian_gram", "jacobian_kernel", "jacobian_row_norms", "damped_solve")
CHOICES = ("native", "twin")


@dataclasses.dataclass(frozen=True)
class OpsInfo:
    """What runs when an op of this package is called.

    Attributes:
        ops: for each op the devices with a native kernel, out of "CPU", "GPU" and "XLA"; empty: the twin runs.
        reason: why there are no native ops; empty where there are.
        tensorflow: version of the running TensorFlow.
        built_for: version of TensorFlow that the library was built for; empty without one.
        instruction_set: the one chosen for the CPU kernels on this processor; empty without a library.
        cuda_architectures: compute capabilities compiled in, as in "90"; empty without CUDA kernels.
    """

    ops: dict
    reason: str
    tensorflow: str
    built_for: str
    instruction_set: str
    cuda_architectures: tuple

    @property
    def native(self) -> bool:
        """Whether the native library is in use."""
        return not self.reason


@dataclasses.dataclass(frozen=True)
class _Library:
    module: object  # what tf.load_op_library returned; None without native ops
    info: OpsInfo


_lock = threading.Lock()
_loaded: _Library | None = None
_chosen = threading.local()


def load_ops() -> bool:
    """Load the native library, once, and say whether the native ops are in use.

    Called by the first op anyway; call it at the start of a program to have the loading (and its one warning, if
    there is nothing to load) happen there.

    Returns:
        True where the native ops are in use, False where the twins stand in. `ops_info` gives the reason.
    """
    return _library().info.native


def ops_info() -> OpsInfo:
    """Describe which ops are native, on which devices, and if none, why.

    Returns:
        An `OpsInfo`.
    """
    return _library().info


@contextlib.contextmanager
def implementation(name: str):
    """Choose between the native ops and their twins, in this thread, for the ops called or traced inside.

    Args:
        name: "native" or "twin".

    Raises:
        ValueError: if `name` is neither.
        RuntimeError: if "native" is asked for where there is no native library; the message says why.
    """
    if name not in CHOICES:
        raise ValueError(f"The implementation must be one of {CHOICES}. Received: {name!r}")
    if name == "native" and not load_ops():
        raise RuntimeError(f"The native ops are not available: {ops_info().reason}. Use implementation('twin').")
    previous = getattr(_chosen, "name", None)
    _chosen.name = name
    try:
        yield
    finally:
        _chosen.name = previous


def native_op(name: str):
    """Give the function that adds the native op `name`, or None where the twin is to be used."""
    if getattr(_chosen, "name", None) == "twin":
        return None
    module = _library().module
    return None if module is None else getattr(module, "tfjac_" + name, None)


def _library() -> _Library:
    global _loaded
    if _loaded is None:
        with _lock:
            if _loaded is None:
                _loaded = _load()
    return _loaded


def _load() -> _Library:
    built = _build_info()
    reason = _why_not(built)
    module = None
    if not reason:
        try:
            module = tf.load_op_library(str(NATIVE_DIR / "libtfjac.so"))
            tf.load_library(str(NATIVE_DIR / "libtfjac_xla.so"))
        except (tf.errors.OpError, OSError, RuntimeError) as error:
            module, reason = None, f"the library does not load ({error})"
    if reason:
        warnings.warn(
            f"tfjac runs without its native ops: {reason}. Results are the same, computed by plain TensorFlow, slower. "
            "To compile them: pip install --no-build-isolation --force-reinstall --no-deps tfjac, with g++ installed.",
            RuntimeWarning,
            stacklevel=4,
        )
    return _Library(module, _describe(built, reason))


def _build_info() -> dict:
    try:
        return json.loads((NATIVE_DIR / "_build_info.json").read_text())
    except FileNotFoundError:
        return {"reason": "they have not been compiled"}


def _why_not(built: dict) -> str:
    if built.get("reason"):
        return built["reason"]
    if built["tensorflow"] != tf.__version__:
        return f"they were compiled for TensorFlow {built['tensorflow']}, and this is TensorFlow {tf.__version__}"
    return ""


def _describe(built: dict, reason: str) -> OpsInfo:
    architectures = tuple(built.get("cuda_architectures", ()))
    devices = () if reason else ("CPU", "XLA", *(("GPU",) if architectures else ()))
    return OpsInfo(
        ops={name: devices for name in OP_NAMES},
        reason=reason,
        tensorflow=tf.__version__,
        built_for=built.get("tensorflow", ""),
        instruction_set="" if reason else _instruction_set(),
        cuda_architectures=architectures,
    )


def _instruction_set() -> str:
    function = ctypes.CDLL(str(NATIVE_DIR / "libtfjac.so")).tfjac_instruction_set
    function.restype = ctypes.c_char_p
    return function().decode()
