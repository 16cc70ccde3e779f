"""Finding, loading and choosing the native library."""

import contextlib
import ctypes
import dataclasses
import json
import os
import pathlib
import re
import threading
from collections.abc import Iterator

import tensorflow as tf

from tfjac._warn import warn
from tfjac.ops import _environment, _gpu, _processor

NATIVE_DIR = pathlib.Path(__file__).parent / "_native"  # a folder for each minor version of TensorFlow
INFO = "_build_info.json"
OP_NAMES = (
    "jacobian_rows", "jacobian_gram", "jacobian_kernel", "jacobian_row_norms", "damped_solve", "example_grams",
    "schur_complement",
)  # fmt: skip
WITHOUT_CUDA = {"schur_complement"}
CHOICES = ("native", "twin")


@dataclasses.dataclass(frozen=True)
class OpsInfo:
    """What runs when an op of this package is called.

    Attributes:
        ops: for each op the devices on which its native kernel can be used here, out of "CPU", "XLA" and "GPU" (where
            TensorFlow sees one that the kernels run on); on others the twin runs.
        compiled: the devices that the library has kernels for, be there such a device or not; empty without a library.
        reason: why there are no native ops; empty where there are.
        tensorflow: version of the running TensorFlow.
        built_for: version of TensorFlow that the library was built for; empty without one.
        instruction_set: the one chosen for the CPU kernels on this processor; empty without a library.
        cuda_architectures: compute capabilities compiled in, as in "90"; empty without CUDA kernels.
        gpu_reason: why the twins run on the GPUs that TensorFlow sees; empty where the kernels do, or it sees none.
    """

    ops: dict
    compiled: tuple
    reason: str
    tensorflow: str
    built_for: str
    instruction_set: str
    cuda_architectures: tuple
    gpu_reason: str

    @property
    def native(self) -> bool:
        """Whether the native library is in use."""
        return not self.reason


@dataclasses.dataclass
class _Library:
    module: object  # what tf.load_op_library returned; None without native ops
    built: dict  # the record of the build
    reason: str  # why there is none
    warned: bool = False
    gpu_reason: str | None = None  # why not on the GPUs; None: it was not asked yet


_lock = threading.Lock()
_loaded: _Library | None = None
_chosen = threading.local()


def load_ops() -> bool:
    """Say whether the native ops are in use, with a warning, once, if not.

    They are loaded when the package is imported, so that graphs and SavedModels which hold them find them; this only
    has the warning come at a time of your choice, and not with the first op.

    Returns:
        True where the native ops are in use, False where the twins stand in. `ops_info` gives the reason.
    """
    library = load()
    if library.reason and not library.warned:
        library.warned = True
        warn(
            f"tfjac runs without its native ops: {library.reason}. Results are the same, computed by plain TensorFlow, "
            "slower. To compile them, with g++ installed, in a checkout of tfjac: pip install --force-reinstall "
            "--no-deps .",
            RuntimeWarning,
        )
    return not library.reason


def ops_info() -> OpsInfo:
    """Describe which ops are native, on which devices, and if none, why.

    Returns:
        An `OpsInfo`.
    """
    library = load()
    architectures = () if library.reason else tuple(library.built.get("cuda_architectures", ()))
    compiled = () if library.reason else ("CPU", "XLA", *(("GPU",) if architectures else ()))
    on_gpu = not _gpu_reason(library) and bool(tf.config.get_visible_devices("GPU"))
    return OpsInfo(
        ops={
            name: tuple(each for each in compiled if _has_kernel(name, each) and (each != "GPU" or on_gpu))
            for name in OP_NAMES
        },
        compiled=compiled,
        reason=library.reason,
        tensorflow=tf.__version__,
        built_for=library.built.get("tensorflow", ""),
        instruction_set="" if library.reason else _instruction_set(),
        cuda_architectures=architectures,
        gpu_reason=_gpu_reason(library),
    )


@contextlib.contextmanager
def implementation(name: str) -> Iterator[None]:
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
    """Give the function that adds the native op `name`, or None where the twin is to be used.

    On a GPU without a kernel that would be the one on the CPU, and copies there and back: the twin, then.
    """
    if getattr(_chosen, "name", None) == "twin" or not load_ops():
        return None
    library = load()
    on_gpu_too = not _gpu_reason(library) and name not in WITHOUT_CUDA
    if not on_gpu_too and tf.config.get_visible_devices("GPU") and not _gpu.runs_on_cpu():
        return None
    return getattr(library.module, "tfjac_" + name, None)


def native_function(name: str):
    """Give the C function `tfjac_<name>`, or None where the twin is to be used, as in a library from before it."""
    if getattr(_chosen, "name", None) == "twin" or not load_ops():
        return None
    return getattr(ctypes.CDLL(str(native_folder() / "libtfjac.so")), f"tfjac_{name}", None)


def _has_kernel(name: str, device: str) -> bool:
    """Say whether a library with kernels for a device has one for this op."""
    return device != "GPU" or name not in WITHOUT_CUDA


def _gpu_reason(library: _Library) -> str:
    """Say why the native ops do not run on the GPUs that TensorFlow sees; found out once."""
    if library.gpu_reason is None:
        architectures = tuple(library.built.get("cuda_architectures", ()))
        cuda, none = native_folder() / "libtfjac_cuda.so", library.built.get("cuda_reason", "")
        why = "" if library.reason else _gpu.why_not(cuda, architectures, none)
        library.gpu_reason = why
    return library.gpu_reason


def register_gradient(op_type: str):
    """Register the gradient of an op as `tf.RegisterGradient` does, where no earlier import has done so.

    A process may import the package twice: after its modules were dropped, or from a second copy.
    """

    def register(function):
        with contextlib.suppress(KeyError):  # what TensorFlow raises for a type that is registered
            tf.RegisterGradient(op_type)(function)
        return function

    return register


def load() -> _Library:
    """Load the library, once, where there is one that can be loaded."""
    global _loaded
    if _loaded is None:
        with _lock:
            if _loaded is None:
                _check_environment()
                _loaded = _load()
    return _loaded


def _check_environment() -> None:
    if wrong := _environment.wrong_value():
        raise ValueError(wrong)
    if misspelt := _environment.misspelt_name():
        warn(misspelt, RuntimeWarning)


def native_folder() -> pathlib.Path:
    """Give the folder of the libraries for this TensorFlow, be they there or not: "2.21" for 2.21.0.

    TensorFlow keeps to its binary interface within a minor version.
    """
    return NATIVE_DIR / _minor(tf.__version__)


def _minor(version: str) -> str:
    return ".".join(version.split(".")[:2])


def _load() -> _Library:
    built = _build_info()
    if not built["reason"]:
        _check_wanted_set(built.get("instruction_sets", []))
    reason = _why_not(built)
    module = None
    if not reason:
        try:
            module = tf.load_op_library(str(native_folder() / "libtfjac.so"))
            tf.load_library(str(native_folder() / "libtfjac_xla.so"))
            _warn_of_refused_calls()
            if built.get("cuda_architectures"):
                _gpu.tell_folders(native_folder() / "libtfjac_cuda.so")
                _gpu.tell_tf32(native_folder() / "libtfjac_cuda.so")
        except (tf.errors.OpError, OSError, RuntimeError) as error:
            module, reason = None, f"the library does not load ({error})"
    return _Library(module, built, reason)


def _check_wanted_set(sets: list) -> None:
    """Refuse an instruction set that the processor has and the library lacks: it would be passed over in silence."""
    wanted = os.environ.get("TFJAC_ISA")
    if wanted and sets and wanted not in sets and _processor.has_set(wanted):
        raise ValueError(
            f"The environment variable TFJAC_ISA must be one of {', '.join(sets)}: the native ops were compiled for no "
            f"other. Compile them with TFJAC_INSTRUCTION_SETS=all to choose. Received: {wanted!r}"
        )


def _warn_of_refused_calls() -> None:
    """Say which kernels XLA's programs do not call. Without a word they would only be slower."""
    refused = getattr(ctypes.CDLL(str(native_folder() / "libtfjac_xla.so")), "tfjac_refused_calls", None)
    if refused is None:  # a library from before it
        return
    refused.restype = ctypes.c_char_p
    if reasons := refused().decode():
        warn(
            f"Programs that XLA compiles do without some kernels of tfjac, since XLA refuses them: {reasons}. Results "
            "are the same, computed by XLA's own code, slower.",
            RuntimeWarning,
        )


def _build_info() -> dict:
    others = sorted(path.parent.name for path in NATIVE_DIR.glob(f"*/{INFO}"))
    path = native_folder() / INFO
    if not path.is_file():
        if others:
            return {"reason": f"they were compiled for TensorFlow {', '.join(others)}, and this is {tf.__version__}"}
        path = NATIVE_DIR / INFO  # of a build that led to none
    try:
        record = json.loads(path.read_text())
        return record if record["reason"] else {**record, "tensorflow": record["tensorflow"]}
    except FileNotFoundError:
        return {"reason": "they have not been compiled"}
    except (ValueError, KeyError, TypeError, OSError) as error:
        return {"reason": f"the record of how they were compiled, {path}, cannot be read ({error!r})"}


def _why_not(built: dict) -> str:
    if built["reason"]:
        return built["reason"]
    if _minor(built["tensorflow"]) != _minor(tf.__version__):
        return f"they were compiled for TensorFlow {built['tensorflow']}, and this is TensorFlow {tf.__version__}"
    sets = built.get("instruction_sets", [])
    return _processor.why_not(sets) or _cut_off(built.get("bytes", {})) or _another_copy()


def _cut_off(sizes: dict) -> str:
    """Say which library is not as long as when it was built: to open such a one can kill the process."""
    for name, expected in sizes.items():
        path = native_folder() / name
        size = path.stat().st_size if path.is_file() else 0
        if size != expected:
            return f"{path} has {size} bytes, and {expected} were built"
    return ""


def _another_copy() -> str:
    """Say where a library of another copy of this package is loaded: TensorFlow takes every op and kernel once."""
    maps = pathlib.Path("/proc/self/maps")
    paths = re.findall(r"/\S.*/libtfjac\.so$", maps.read_text(), re.MULTILINE) if maps.is_file() else ()
    others = [path for path in paths if path != str((native_folder() / "libtfjac.so").resolve())]
    return f"this process has those of another copy of tfjac, {others[0]}" if others else ""


def _instruction_set() -> str:
    function = ctypes.CDLL(str(native_folder() / "libtfjac.so")).tfjac_instruction_set
    function.restype = ctypes.c_char_p
    return function().decode()
