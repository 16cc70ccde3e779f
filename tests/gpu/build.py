"""Build the CUDA launchers alone, with neither TensorFlow nor tfjac: for a GPU with nvcc, or emulated with g++.

    python -m tests.gpu.build FOLDER [--emulated] [--small-limits] [--architecture 90]

Small limits make small problems take the ways that otherwise only large ones take (`block_sizes.h`). What is up to
date is not compiled again.
"""

import argparse
import os
import pathlib
import subprocess

from build_tools.compilation import Step, compile_step, only_one, run_steps
from build_tools.settings import ROOT, read_settings
from build_tools.toolchain import BuildError, find_compiler, find_nvcc

EMULATION = pathlib.Path(__file__).resolve().parent / "emulation"
SOURCES = sorted((ROOT / "custom_ops").rglob("*_gpu.cu.cc"))
DEFAULT_ARCHITECTURE = "90"
CACHE = ROOT / "build" / "gpu_tests"
_COMMON = ("-std=c++17", f"-I{ROOT}")


def build_emulated(folder: pathlib.Path, small_limits: bool = False, extra: tuple = ()) -> pathlib.Path:
    """Compile the launchers and their kernels for the host, with the CUDA runtime of `emulation/`.

    Args:
        folder: where to, and where to keep what is compiled.
        small_limits: whether small problems are to take the ways of large ones.
        extra: more flags for the compiler and the linker.

    Returns:
        The library.
    """
    compiler = find_compiler(read_settings().compiler).command
    flags = (*compiler, *_COMMON, f"-I{EMULATION}", "-O1", "-g", "-fPIC", "-fvisibility=hidden", "-Wall", "-Wextra")
    flags += (*strict(), "-Wno-unknown-pragmas", "-Wno-maybe-uninitialized", *extra)
    flags += ('-DTFJAC_VARIABLE_PREFIX="TFJAC_EMULATED_"',)  # never the cuBLAS of a GPU, whatever the process has
    sources = [*SOURCES, *sorted(EMULATION.glob("*.cc"))]
    link = (*compiler, "-shared", "-Wl,-z,defs", *extra)
    return _build(folder, sources, (*flags, *_limits(small_limits)), link)


def architecture_here() -> str:
    """Give the compute capability of the GPU that is there, as in "90", which it is where there is none."""
    asked = ("nvidia-smi", "--query-gpu=compute_cap", "--format=csv,noheader")
    try:
        said = subprocess.run(asked, capture_output=True, text=True, timeout=60).stdout
    except (OSError, subprocess.TimeoutExpired):
        said = ""
    first = "".join(said.split("\n")[0].split("."))
    return first if first.isdigit() else DEFAULT_ARCHITECTURE


def build_cuda(folder, small_limits=False, architectures=()) -> pathlib.Path:
    """Compile the launchers with nvcc, with the lines that the checkers name.

    Args:
        folder: where to, and where to keep what is compiled.
        small_limits: whether small problems are to take the ways of large ones.
        architectures: compute capabilities, as in "90"; of none, that of the GPU that is there.

    Returns:
        The library.

    Raises:
        BuildError: if there is no nvcc, or it fails.
    """
    nvcc = find_nvcc(read_settings().cuda_architectures)
    if nvcc is None:
        raise BuildError("nvcc was not found")
    names = tuple(architectures) or (architecture_here(),)
    codes = tuple(f"-gencode=arch=compute_{name},code=sm_{name}" for name in names)
    flags = (nvcc.path, *_COMMON, "-O3", "-lineinfo", *strict("-Werror=all-warnings"))
    flags += ("-x", "cu", "-Xcompiler", "-fPIC,-fvisibility=hidden,-Wall")
    link = (nvcc.path, *codes, "-shared", "-cudart", "static")
    return _build(folder, SOURCES, (*flags, *codes, *_limits(small_limits)), link)


def strict(flag="-Werror") -> tuple:
    """Give the flag that makes warnings errors, in this project's `make test`; compilers elsewhere know others."""
    return (flag,) if os.environ.get("TFJAC_WERROR") == "1" else ()


def given_library() -> str:
    """Give the file of TFJAC_CUDA_LIBRARY, to be tested where there is no nvcc; empty unless set."""
    return os.environ.get("TFJAC_CUDA_LIBRARY", "")


def has_nvcc() -> bool:
    """Whether nvcc is found."""
    return find_nvcc(read_settings().cuda_architectures) is not None


def cuda_library() -> pathlib.Path:
    """Give the launchers for the GPU that is there, as they are used: those given, or those built."""
    return pathlib.Path(given_library() or build_cuda(CACHE / "gpu")).resolve()


def cuda_library_of_small_limits() -> pathlib.Path:
    """Give those of which small problems take the ways of large ones."""
    return build_cuda(CACHE / "gpu-small_limits", True)


def _limits(small):
    return ("-DTFJAC_SMALL_LIMITS",) if small else ()


def _build(folder, sources, compile_command, link_command):
    steps = [
        compile_step(compile_command, source, folder / f"{source.name.removesuffix('.cc')}.o") for source in sources
    ]
    library, objects, jobs = folder / "libtfjac_cuda.so", tuple(step.output for step in steps), read_settings().jobs
    link = Step((*link_command, *objects, "-ldl"), library, objects)
    with only_one(folder):
        run_steps(steps, jobs)
        run_steps([link], jobs)
    return library


def main():
    """Build from the command line, and print the library's path."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--emulated", action="store_true", help="for the host, with g++")
    parser.add_argument("--small-limits", action="store_true", help="small problems take the ways of large ones")
    parser.add_argument("--architecture", action="append", help="as in 90; default: that of the GPU here")
    arguments = parser.parse_args()
    if arguments.emulated:
        print(build_emulated(arguments.folder, arguments.small_limits))
    else:
        print(build_cuda(arguments.folder, arguments.small_limits, tuple(arguments.architecture or ())))


if __name__ == "__main__":
    main()
