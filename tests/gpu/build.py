"""Build the CUDA launchers alone, with neither TensorFlow nor tfjac: for a GPU with nvcc, or emulated with g++.

    python -m tests.gpu.build OUTPUT [--emulated] [--small-limits] [--architecture 90] [--line-info]

Small limits make small problems take the ways that otherwise only large ones take (`block_sizes_gpu.h`).
"""

import argparse
import concurrent.futures
import pathlib
import subprocess
import tempfile

from build_tools.toolchain import find_compiler, find_nvcc

ROOT = pathlib.Path(__file__).resolve().parents[2]
EMULATION = pathlib.Path(__file__).resolve().parent / "emulation"
SOURCES = sorted((ROOT / "custom_ops").rglob("*_gpu.cu.cc"))
_COMMON = ("-std=c++17", f"-I{ROOT}")


def build_emulated(output: pathlib.Path, small_limits: bool = False, extra: tuple = ()) -> None:
    """Compile the launchers and their kernels for the host, with the CUDA runtime of `emulation/`."""
    flags = (*find_compiler().split(), *_COMMON, f"-I{EMULATION}", "-O1", "-g", "-fPIC", "-fvisibility=hidden", "-Wall")
    flags += ("-Wextra", "-Werror", "-Wno-unknown-pragmas", "-Wno-maybe-uninitialized", *extra)
    sources = [*SOURCES, EMULATION / "fibers.cc"]
    link = (*find_compiler().split(), "-shared", "-Wl,-z,defs", *extra)
    _build(output, sources, (*flags, *_limits(small_limits)), link, ("-ldl",))


def build_libraries(output: pathlib.Path) -> None:
    """Compile the host's stand-in for cuBLAS and cuSOLVER."""
    flags = ("-std=c++17", "-O1", "-shared", "-fPIC", "-fvisibility=hidden", "-Wall")
    _run((*find_compiler().split(), *flags, EMULATION / "libraries.cc", "-o", output))


def build_cuda(output, small_limits=False, architectures=("native",), line_info=False) -> None:
    """Compile the launchers with nvcc, whose warnings are errors.

    Raises:
        RuntimeError: if there is no nvcc, or it fails.
    """
    nvcc = find_nvcc()
    if nvcc is None:
        raise RuntimeError("nvcc was not found")
    if architectures == ("native",):
        codes = ("-arch=native",)
    else:
        codes = tuple(f"-gencode=arch=compute_{name},code=sm_{name}" for name in architectures)
    flags = (nvcc.path, *_COMMON, "-O3", "-Werror=all-warnings", "-x", "cu", "-Xcompiler", "-fPIC,-fvisibility=hidden,-Wall")
    flags += ("-lineinfo",) if line_info else ()
    link = (nvcc.path, *codes, "-shared", "-cudart", "static")
    _build(output, SOURCES, (*flags, *codes, *_limits(small_limits)), link, ("-ldl",))


def _limits(small):
    return ("-DTFJAC_SMALL_LIMITS",) if small else ()


def _build(output, sources, compile_command, link_command, libraries):
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(2) as executor:
        objects = [pathlib.Path(folder) / f"{k}.o" for k in range(len(sources))]
        commands = [(*compile_command, "-c", source, "-o", target) for source, target in zip(sources, objects)]
        list(executor.map(_run, commands))
        _run((*link_command, "-o", output, *objects, *libraries))


def _run(command):
    finished = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if finished.returncode:
        raise RuntimeError(f"{' '.join(map(str, command))} failed: {finished.stderr[-4000:]}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("output", type=pathlib.Path)
    parser.add_argument("--emulated", action="store_true")
    parser.add_argument("--small-limits", action="store_true")
    parser.add_argument("--architecture", action="append", help="a compute capability, as in 90; default: this machine's")
    parser.add_argument("--line-info", action="store_true")
    arguments = parser.parse_args()
    if arguments.emulated:
        build_emulated(arguments.output, arguments.small_limits)
    else:
        architectures = tuple(arguments.architecture or ("native",))
        build_cuda(arguments.output, arguments.small_limits, architectures, arguments.line_info)


if __name__ == "__main__":
    main()
