"""What there is on this machine for tests on a GPU: `python -m tests.gpu.machine`, one line for each thing."""

import importlib.metadata
import os
import platform
import subprocess
import sys

from build_tools.settings import read_settings
from build_tools.toolchain import find_nvcc
from tests.gpu.arrays import gpu_arrays
from tests.gpu.build import given_library
from tests.gpu.launchers import nvidia_folders
from tests.gpu.sanitize import find_checker

NONE = "none"
_OTHERS = ("cupy-cuda12x", "cupy-cuda13x", "jaxlib", "jax-cuda12-plugin", "jax-cuda13-plugin", "tensorflow")
_ASKED = "name,compute_cap,memory.total,driver_version"


def facts() -> dict[str, str]:
    """Give what there is: name -> what, which begins with "none" where it is missing."""
    arrays, reason = gpu_arrays()
    nvcc, checker = find_nvcc(read_settings().cuda_architectures), find_checker()
    folders = [str(folder) for folder in nvidia_folders()]
    return {
        "GPU": _answer("nvidia-smi", f"--query-gpu={_ASKED}", "--format=csv,noheader"),
        "arrays on the GPU": f"{arrays.name}, {arrays.device}" if arrays else f"{NONE} ({reason})",
        "nvcc": f"{nvcc.path}, {nvcc.version}" if nvcc else NONE,
        "library given (TFJAC_CUDA_LIBRARY)": given_library() or NONE,
        "compute-sanitizer": f"{checker}, {_answer(checker, '--version', line=-1)}" if checker else NONE,
        "g++": _answer("g++", "--version"),
        "Python": f"{platform.python_version()}, {sys.executable}",
        **{name: _version(name) for name in ("numpy", "pytest", "torch", "jax")},
        **{name: version for name in _OTHERS if (version := _version(name)) != NONE},
        "cuBLAS and cuSOLVER of PyPI in": os.pathsep.join(folders) or NONE,
        "processors": str(len(os.sched_getaffinity(0))),
        "system": platform.platform(),
    }


def has(found: dict, name: str) -> bool:
    """Whether a thing is there."""
    return not found.get(name, NONE).startswith(NONE)


def read(text: str) -> dict[str, str]:
    """Read what `main` has printed."""
    return dict(line.split(": ", 1) for line in text.splitlines() if ": " in line and not line.startswith("=="))


def _answer(*command, line=0):
    try:
        said = subprocess.run(command, capture_output=True, text=True, timeout=60)
    except FileNotFoundError:
        return f"{NONE} ({command[0]} was not found)"
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{NONE} ({command[0]} does not answer: {type(error).__name__})"
    lines = said.stdout.strip().splitlines()
    return lines[line] if lines and not said.returncode else f"{NONE} ({command[0]} fails)"


def _version(package):
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return NONE


def main():
    """Print one line for each thing."""
    for name, what in facts().items():
        print(f"{name}: {what}", flush=True)


if __name__ == "__main__":
    main()
