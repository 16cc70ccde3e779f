"""Build the handlers of XLA's calls for programs without TensorFlow, as those of JAX.

    python -m tests.gpu.build_calls FOLDER INCLUDE [--launchers libtfjac_cuda.so]

INCLUDE is a folder with XLA's headers `xla/ffi/api/`: the one of `jax.ffi.include_dir()`, or TensorFlow's. The handlers
are the same sources as in libtfjac.so. Those for the CPU stand beside their kernels, for which Eigen is taken from
TensorFlow's package; those for CUDA need the library of the launchers (`tests.gpu.build`) and nothing else.
"""

import argparse
import pathlib

from build_tools.compilation import Step, compile_step, only_one, run_steps
from build_tools.native import CACHE, SOURCES, chosen_sets, cpu_steps, dispatch_flags
from build_tools.settings import ROOT, read_settings
from build_tools.toolchain import find_compiler, find_tensorflow
from tests.gpu.build import strict

LIBRARY = "libtfjac_ffi.so"
SHIM = ROOT / "tests" / "ops" / "cuda_calls.cc"


def build_cpu_calls(folder: pathlib.Path, include: pathlib.Path) -> pathlib.Path:
    """Compile the handlers for the CPU, with their kernels.

    Args:
        folder: where to, and where to keep what is compiled.
        include: where XLA's headers are.

    Returns:
        The library.

    Raises:
        ToolMissing: if there is no compiler, or no package of TensorFlow to take Eigen from.
    """
    settings = read_settings()
    compiler = find_compiler(settings.compiler)
    sets = chosen_sets(compiler, settings)
    kernels = cpu_steps(compiler, find_tensorflow(settings.tensorflow), sets)
    with only_one(CACHE):
        run_steps(kernels, settings.jobs)
    sources = [SOURCES / "common" / "cpu" / "isa.cc", *sorted(SOURCES.rglob("*call.cc"))]
    return _build(folder, include, sources, tuple(step.output for step in kernels), dispatch_flags(sets))


def build_cuda_calls(folder: pathlib.Path, include: pathlib.Path, launchers: pathlib.Path) -> pathlib.Path:
    """Compile the handlers for CUDA, and link them to the library of the launchers; else as `build_cpu_calls`."""
    launchers = pathlib.Path(launchers).resolve()
    beside = (launchers, f"-Wl,-rpath,{launchers.parent}")
    sources = [SOURCES / "common" / "xla" / "call.cc", *sorted(SOURCES.rglob("*call_gpu.cc"))]
    return _build(folder, include, sources, beside)


def build_shim(folder: pathlib.Path, include: pathlib.Path) -> pathlib.Path:
    """Compile what leads programs for the CPU to the handlers for CUDA; else as `build_cuda_calls`."""
    compiler, library = find_compiler(read_settings().compiler).command, folder / "libcalls.so"
    flags = (*compiler, "-std=c++17", "-O1", "-fPIC", "-Wall", *strict(), "-isystem", include)
    compiled = compile_step(flags, SHIM, library.with_suffix(".o"))
    with only_one(folder):
        run_steps([compiled], jobs=1)
        run_steps([Step((*compiler, "-shared", compiled.output, "-ldl"), library, (compiled.output,))], jobs=1)
    return library


def _build(folder, include, sources, linked, more=()):
    settings = read_settings()
    compiler = find_compiler(settings.compiler).command
    flags = (*compiler, "-std=c++17", "-O2", "-fPIC", "-fvisibility=hidden", "-Wall", "-Wextra")
    flags += (*strict(), f"-I{ROOT}", "-isystem", include, *more)
    steps = [compile_step(flags, source, folder / f"{source.name.removesuffix('.cc')}.o") for source in sources]
    objects = tuple(step.output for step in steps)
    link = (*compiler, "-shared", "-Wl,-z,defs", *objects, *linked, "-pthread")
    with only_one(folder):
        run_steps(steps, settings.jobs)
        run_steps([Step(link, folder / LIBRARY, (*objects, *(x for x in linked if isinstance(x, pathlib.Path))))], 1)
    return folder / LIBRARY


def main():
    """Build from the command line, and print the library's path."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("include", type=pathlib.Path, help="with XLA's headers, xla/ffi/api/")
    parser.add_argument("--launchers", type=pathlib.Path, help="libtfjac_cuda.so: handlers for CUDA, not for the CPU")
    arguments = parser.parse_args()
    where = (arguments.folder, arguments.include)
    print(build_cuda_calls(*where, arguments.launchers) if arguments.launchers else build_cpu_calls(*where))


if __name__ == "__main__":
    main()
