"""Finding what the native libraries are built with: TensorFlow, a C++ compiler, nvcc. Imports none of it."""

import importlib.util
import os
import pathlib
import platform
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from typing import NamedTuple


class BuildError(Exception):
    """The native libraries cannot be built; the message says why, to be shown to the user."""


class ToolMissing(BuildError):
    """What they are built with is not there."""


class TensorFlow(NamedTuple):
    """The TensorFlow to build against."""

    directory: pathlib.Path
    version: str


class Nvcc(NamedTuple):
    """The CUDA compiler, the folder of its static runtime library, and the architectures to compile for."""

    path: str
    version: str
    library_directory: pathlib.Path
    architectures: tuple


def find_tensorflows(chosen: Sequence[str]) -> list[TensorFlow]:
    """Find TensorFlow without importing it: in each of the folders `chosen`, or else the installed one.

    Raises:
        ToolMissing: if there is none.
    """
    if not chosen:
        return [_tensorflow_in(_installed_tensorflows(), "")]
    return [_tensorflow_in([pathlib.Path(folder)], f" in {folder} (TFJAC_TENSORFLOW)") for folder in chosen]


def find_tensorflow(chosen: Sequence[str]) -> TensorFlow:
    """Find the first of them."""
    return find_tensorflows(chosen)[0]


def _tensorflow_in(directories, said: str) -> TensorFlow:
    for directory in directories:
        if (directory / "include").is_dir():
            return TensorFlow(directory, _version_beside(directory))
    raise ToolMissing(f"TensorFlow was not found{said} when they were to be compiled")


def _installed_tensorflows() -> list:
    """List where it may be: pip's build isolation hides packages from `sys.path` but not from `sysconfig`."""
    spec = importlib.util.find_spec("tensorflow")
    places = [pathlib.Path(place) for place in (spec.submodule_search_locations or ())] if spec else []
    return places + [pathlib.Path(sysconfig.get_path(kind)) / "tensorflow" for kind in ("platlib", "purelib")]


def _version_beside(directory: pathlib.Path) -> str:
    for metadata in sorted(directory.parent.glob("tensorflow*.dist-info/METADATA")):
        fields = dict(line.split(": ", 1) for line in metadata.read_text().splitlines() if ": " in line)
        record = metadata.with_name("RECORD")
        if record.is_file() and "libtensorflow_framework.so" in record.read_text():
            return fields["Version"]
    raise BuildError(f"no metadata of TensorFlow beside {directory}")


class Compiler(NamedTuple):
    """The C++ compiler: its command in words, what it says of itself, and the processor it compiles for (x86_64)."""

    command: tuple
    version: str
    processor: str


def find_compiler(command: Sequence[str]) -> Compiler:
    """Ask the C++ compiler what it is.

    Raises:
        ToolMissing: if there is none, or it does not answer.
    """
    if not sys.platform.startswith("linux"):
        raise ToolMissing(f"they are compiled on Linux alone, and this is {platform.system()}")
    if shutil.which(command[0]) is None:
        raise ToolMissing(f"no C++ compiler ({' '.join(command)}) was found when they were to be compiled")
    said = [_answer([*command, question]) for question in ("--version", "-dumpmachine")]
    if not all(said):
        raise BuildError(f"{' '.join(command)} does not answer as a C++ compiler does when asked for --version")
    return Compiler(tuple(command), said[0].splitlines()[0], said[1].split("-")[0])


def _answer(command) -> str:
    try:
        return subprocess.run(command, capture_output=True, text=True).stdout.strip()
    except OSError:
        return ""


PREFERRED_CUDA = "cuda_12."
"""What nvcc says of the CUDA that TensorFlow 2.21 is built with: drivers from 525 on run it, CUDA 13 those from 580."""


def has_gpu() -> bool:
    """Whether this machine has a GPU of NVIDIA's, by what its driver puts there (/dev/dxg: in Windows' Linux)."""
    return any(pathlib.Path(place).exists() for place in ("/dev/nvidiactl", "/proc/driver/nvidia/version", "/dev/dxg"))


def find_nvcc(architectures: tuple) -> Nvcc | None:
    """Find nvcc, to compile for the given architectures.

    Looks in CUDA_HOME; then in the packages nvidia-cuda-* of this Python, in PATH and in /usr/local/cuda*, where one of
    `PREFERRED_CUDA` goes before others.
    """
    if os.environ.get("CUDA_HOME") and (chosen := _nvcc_in(os.environ["CUDA_HOME"], architectures)):
        return chosen
    homes = [os.path.join(place, "nvidia", "cu13") for place in (sysconfig.get_path("platlib"), *sys.path)]
    if shutil.which("nvcc"):
        homes.append(_home_of(shutil.which("nvcc")))
    homes += ["/usr/local/cuda", *sorted(map(str, pathlib.Path("/usr/local").glob("cuda-*")), reverse=True)]
    found = [nvcc for home in homes if (nvcc := _nvcc_in(home, architectures))]
    return min(found, key=lambda nvcc: PREFERRED_CUDA not in nvcc.version, default=None)


def _nvcc_in(home: str, architectures: tuple) -> Nvcc | None:
    home = pathlib.Path(home)
    nvcc = home / "bin" / "nvcc"
    folders = [home / "lib64", home / "lib", home / f"targets/{platform.machine()}-linux/lib"]
    library = next((folder for folder in folders if (folder / "libcudart_static.a").is_file()), None)
    if not nvcc.is_file() or not library:
        return None
    version = _answer([str(nvcc), "--version"]).splitlines() or ["unknown"]
    return Nvcc(str(nvcc), version[-1], library, architectures)


def _home_of(nvcc: str) -> str:
    """Ask nvcc for its toolkit's folder: the one in PATH may be a link or a wrapper."""
    said = subprocess.run([nvcc, "--dryrun", "-c", "x.cu"], capture_output=True, text=True).stderr
    tops = [line.split("TOP=", 1)[1] for line in said.splitlines() if "TOP=" in line]
    return tops[0].strip() if tops else str(pathlib.Path(nvcc).resolve().parents[1])
