"""Finding what the native libraries are built with: TensorFlow, a C++ compiler, nvcc. Imports none of it."""

import importlib.util
import os
import pathlib
import platform
import shutil
import subprocess
import sys
import sysconfig
from typing import NamedTuple

DEFAULT_CUDA_ARCHITECTURES = "80;90"  # and PTX of the last, for newer ones; any nvcc since 11.8 knows them


class BuildError(Exception):
    """The native libraries cannot be built; the message says why, to be shown to the user."""


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


def find_tensorflow() -> TensorFlow:
    """Find TensorFlow without importing it: in the folder TFJAC_TENSORFLOW, or else the installed one.

    Raises:
        BuildError: if there is none.
    """
    chosen = os.environ.get("TFJAC_TENSORFLOW")
    for directory in [pathlib.Path(chosen)] if chosen else _installed_tensorflows():
        if (directory / "include").is_dir():
            return TensorFlow(directory, _version_beside(directory))
    place = f" in {chosen} (TFJAC_TENSORFLOW)" if chosen else ""
    raise BuildError(f"TensorFlow was not found{place} when they were to be compiled")


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


def find_compiler() -> str:
    """Find the C++ compiler: the environment variable CXX, or g++.

    Raises:
        BuildError: if there is none.
    """
    compiler = os.environ.get("CXX", "g++")
    if shutil.which(compiler.split()[0]) is None:
        raise BuildError(f"no C++ compiler ({compiler}) was found when they were to be compiled")
    return compiler


def compiler_version(compiler: str) -> str:
    """Give the first line of what the compiler says about itself."""
    return subprocess.run([*compiler.split(), "--version"], capture_output=True, text=True).stdout.splitlines()[0]


def target_processor(compiler: str) -> str:
    """Name the processor that the compiler compiles for, as x86_64 or aarch64."""
    said = subprocess.run([*compiler.split(), "-dumpmachine"], capture_output=True, text=True).stdout
    return said.strip().split("-")[0]


def find_nvcc() -> Nvcc | None:
    """Find nvcc; TFJAC_CUDA_ARCHS ("80;90") names the architectures to compile for.

    Looks in CUDA_HOME, in the packages nvidia-cuda-* of this Python, in PATH and in /usr/local/cuda.
    """
    homes = [os.environ["CUDA_HOME"]] if "CUDA_HOME" in os.environ else []
    homes += [os.path.join(place, "nvidia", "cu13") for place in (sysconfig.get_path("platlib"), *sys.path)]
    if shutil.which("nvcc"):
        homes.append(_home_of(shutil.which("nvcc")))
    homes.append("/usr/local/cuda")
    for home in map(pathlib.Path, homes):
        nvcc = home / "bin" / "nvcc"
        folders = [home / "lib64", home / "lib", home / f"targets/{platform.machine()}-linux/lib"]
        library = next((folder for folder in folders if (folder / "libcudart_static.a").is_file()), None)
        if nvcc.is_file() and library:
            architectures = os.environ.get("TFJAC_CUDA_ARCHS", DEFAULT_CUDA_ARCHITECTURES).replace(",", ";").split(";")
            version = subprocess.run([str(nvcc), "--version"], capture_output=True, text=True).stdout
            return Nvcc(str(nvcc), version.strip().splitlines()[-1], library, tuple(filter(None, architectures)))
    return None


def _home_of(nvcc: str) -> str:
    """Ask nvcc for its toolkit's folder: the one in PATH may be a link or a wrapper."""
    said = subprocess.run([nvcc, "--dryrun", "-c", "x.cu"], capture_output=True, text=True).stderr
    tops = [line.split("TOP=", 1)[1] for line in said.splitlines() if "TOP=" in line]
    return tops[0].strip() if tops else str(pathlib.Path(nvcc).resolve().parents[1])
