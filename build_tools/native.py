"""The native libraries: which sources, which flags, what is linked to what.

Sources are found by their names under custom_ops/, so a new op needs no change here:

    *_cpu.cc           compiled once per instruction set            -> libtfjac.so
    *_kernel_gpu.cc    compiled where there are CUDA kernels        -> libtfjac.so
    *_xla.cc                                                        -> libtfjac_xla.so
    *_gpu.cu.cc        compiled by nvcc, without TensorFlow         -> libtfjac_cuda.so
    other *.cc                                                      -> libtfjac.so
"""

import json
import os
import pathlib
import shutil
import sys

from build_tools.compilation import Step, run_steps
from build_tools.toolchain import (
    BuildError,
    compiler_version,
    find_compiler,
    find_nvcc,
    find_tensorflow,
    target_processor,
)

ROOT = pathlib.Path(__file__).resolve().parents[1]
SOURCES = ROOT / "custom_ops"
CACHE = ROOT / "build" / "native"
LIBRARIES = ("libtfjac.so", "libtfjac_xla.so", "libtfjac_cuda.so")
INFO = "_build_info.json"

_AVX512 = ("-mavx512f", "-mavx512dq", "-mavx512vl", "-mavx512bw", "-mavx2", "-mfma", "-Wno-maybe-uninitialized")
_X86_SETS = {"avx2": ("-mavx2", "-mfma"), "avx512": _AVX512}

_COMMON_FLAGS = ("-std=c++17", "-O3", "-DNDEBUG", "-fPIC", "-fvisibility=hidden", "-Wall", f"-I{ROOT}")


def build(target: pathlib.Path) -> dict:
    """Build the libraries into the folder `target`, beside a record of how.

    TFJAC_NATIVE says what to do where that is not possible: auto (the default): go without, and record the reason;
    1: raise; 0: do not try. TFJAC_CUDA says the same about the CUDA kernels.

    Returns:
        The record, as written to _build_info.json; its "reason" is empty if the libraries are there.

    Raises:
        BuildError: if TFJAC_NATIVE or TFJAC_CUDA is 1 and what it asks for cannot be built.
    """
    native, cuda = _wish("TFJAC_NATIVE"), _wish("TFJAC_CUDA")
    built = []
    try:
        if native == "0":
            raise BuildError("TFJAC_NATIVE was 0 when tfjac was installed")
        built, info = _build_all(cuda)
    except BuildError as error:
        if native == "1" or (cuda == "1" and native == "auto"):
            raise
        print(f"tfjac: going without native ops: {error}", file=sys.stderr)
        info = {"reason": str(error)}
    target.mkdir(parents=True, exist_ok=True)
    for name in LIBRARIES:
        (target / name).unlink(missing_ok=True)  # and never written in place: a running program may have it mapped
    for library in built:
        shutil.copy2(library, target)
    (target / INFO).write_text(json.dumps(info, indent=1) + "\n")
    return info


def instruction_sets(compiler: str) -> dict:
    """Give the flags of each instruction set to compile the kernels for; "baseline" has none."""
    return {"baseline": ()} | (_X86_SETS if target_processor(compiler) == "x86_64" else {})


def _wish(variable):
    wish = os.environ.get(variable, "auto")
    if wish not in ("auto", "0", "1"):
        raise BuildError(f"{variable} must be auto, 0 or 1, and was {wish!r}")
    return wish


def _build_all(cuda_wish):
    """Give the paths of the libraries in the cache and the record of the build."""
    tensorflow, compiler = find_tensorflow(), find_compiler()
    info = {
        "reason": "",
        "tensorflow": tensorflow.version,
        "compiler": compiler_version(compiler),
        "instruction_sets": list(instruction_sets(compiler)),
        "cuda_architectures": [],
    }
    try:
        cuda, cuda_info = _build_cuda(compiler, cuda_wish)
    except BuildError as error:
        if cuda_wish == "1":
            raise
        cuda, cuda_info = [], {"cuda_reason": str(error)}
    ops, xla = _compile_steps(compiler, tensorflow.directory, with_cuda=bool(cuda))
    run_steps([*ops, *xla])
    ops_library = _link_ops(compiler, tensorflow.directory, ops, cuda)
    xla_library = _link_xla(compiler, tensorflow.directory, xla, ops_library.output)
    run_steps([ops_library])
    run_steps([xla_library])
    return [*cuda, ops_library.output, xla_library.output], info | cuda_info


def _build_cuda(compiler, wish):
    """Give the path of the CUDA library, in a list, and what to record about it."""
    sources = sorted(SOURCES.rglob("*_gpu.cu.cc"))
    nvcc = find_nvcc() if sources and wish != "0" else None
    if nvcc is None:
        if wish == "1":
            raise BuildError("TFJAC_CUDA is 1, and nvcc with libcudart_static.a, or any CUDA source, was not found")
        return [], {"cuda_reason": "not wanted" if wish == "0" else "nvcc was not found"}
    codes = [f"-gencode=arch=compute_{name},code=sm_{name}" for name in nvcc.architectures]
    newest = nvcc.architectures[-1]
    codes.append(f"-gencode=arch=compute_{newest},code=compute_{newest}")
    flags = ("-std=c++17", "-O3", "-DNDEBUG", "-x", "cu", "-Xcompiler", "-fPIC,-fvisibility=hidden,-Wall", f"-I{ROOT}")
    steps = []
    for source in sources:
        output = CACHE / "cuda" / (_name(source) + ".o")
        listing = ("-MMD", "-MF", output.with_suffix(".d"))
        command = (nvcc.path, "-ccbin", compiler.split()[0], *flags, *codes, *listing, "-c", source, "-o", output)
        steps.append(Step(command, output, (source,)))
    run_steps(steps)
    libraries = (f"-L{nvcc.library_directory}", "-lcudart_static", "-lpthread", "-ldl", "-lrt")
    link = _link(compiler, "libtfjac_cuda.so", steps, libraries)
    run_steps([link])
    return [link.output], {"cuda_compiler": nvcc.version, "cuda_architectures": list(nvcc.architectures)}


def _compile_steps(compiler, tensorflow, with_cuda):
    include = tensorflow / "include"
    places = (include, include / "external/highwayhash", include / "external/farmhash_archive/src")
    flags = (*compiler.split(), *_COMMON_FLAGS, "-D_GLIBCXX_USE_CXX11_ABI=1", "-DEIGEN_MAX_ALIGN_BYTES=64")
    flags += tuple(word for place in places for word in ("-isystem", place))
    sets = instruction_sets(compiler)
    steps, kernels, xla = [], [], []
    for source in sorted(SOURCES.rglob("*.cc")):
        if source.name.endswith("_gpu.cu.cc") or (source.name.endswith("_kernel_gpu.cc") and not with_cuda):
            continue
        if source.name.endswith("_cpu.cc"):
            for name, machine in sets.items():
                variant = (*machine, f"-DTFJAC_ISA={name}", f"-DEigen=Eigen_{name}")
                steps.append(_compile(flags + variant, source, name, weight=len(machine)))
        else:
            (xla if source.name.endswith("_xla.cc") else kernels).append(source)
    steps.append(_compile(flags, _bundle("kernels", kernels), "bundles", weight=8))
    # XLA kernels run once for each graph that is compiled: no need to optimise them.
    return steps, [_compile((*flags, "-O1"), _bundle("xla", xla), "bundles", weight=9)]


def _bundle(name, sources):
    """Write one file that includes the sources: parsing TensorFlow's headers costs far more than compiling them."""
    bundle = CACHE / "bundles" / f"{name}.cc"
    text = "".join(f'#include "{source.relative_to(ROOT)}"\n' for source in sources)
    if not bundle.is_file() or bundle.read_text() != text:
        bundle.parent.mkdir(parents=True, exist_ok=True)
        bundle.write_text(text)
    return bundle


def _compile(flags, source, kind, weight):
    output = CACHE / kind / (_name(source) + ".o")
    command = (*flags, "-MMD", "-MF", output.with_suffix(".d"), "-c", source, "-o", output)
    return Step(command, output, (source,), weight)


def _name(source: pathlib.Path) -> str:
    inside = SOURCES if source.is_relative_to(SOURCES) else CACHE / "bundles"
    return "-".join(source.relative_to(inside).parts).removesuffix(".cc")


def _link_ops(compiler, tensorflow, steps, cuda):
    # The CUDA library stands apart: TensorFlow exports stubs of the CUDA runtime that would win over the real one.
    beside = (*cuda, "-Wl,-rpath,$ORIGIN") if cuda else ()
    return _link(compiler, "libtfjac.so", steps, (*beside, f"-L{tensorflow}", "-l:libtensorflow_framework.so.2"))


def _link_xla(compiler, tensorflow, steps, ops):
    beside = (ops, "-Wl,-rpath,$ORIGIN")
    libraries = (*beside, f"-L{tensorflow}", "-l:libtensorflow_cc.so.2", "-l:libtensorflow_framework.so.2")
    return _link(compiler, "libtfjac_xla.so", steps, libraries)


def _link(compiler, name, steps, libraries):
    output = CACHE / "lib" / name
    objects = tuple(step.output for step in steps)
    flags = ("-shared", "-s", f"-Wl,-soname,{name}", "-Wl,--exclude-libs,ALL", "-Wl,-z,defs")
    return Step((*compiler.split(), *flags, "-o", output, *objects, *libraries), output, objects)
