"""The native libraries: which sources, which flags, what is linked to what.

Sources are found by their names under custom_ops/, so a new op needs no change here:

    *_cpu.cc           compiled for the best instruction set of
                       this processor, or for each of them          -> libtfjac.so
    *_function.cc      without TensorFlow                           -> libtfjac.so
    *_gpu.cc           compiled where there are CUDA kernels        -> libtfjac.so
    *_xla.cc                                                        -> libtfjac_xla.so
    *_call.cc          compiled where TensorFlow has typed calls    -> libtfjac.so
    *_gpu.cu.cc        compiled by nvcc, without TensorFlow         -> libtfjac_cuda.so
    older_systems.cc                                                -> libtfjac.so, libtfjac_xla.so
    other *.cc                                                      -> libtfjac.so
"""

import pathlib
import runpy
import shutil

from build_tools.compilation import Step, compile_step, only_one, run_steps
from build_tools.settings import ROOT, Settings
from build_tools.toolchain import BuildError, Compiler, TensorFlow, find_compiler, find_nvcc, find_tensorflows, has_gpu

SOURCES = ROOT / "custom_ops"
OLDER_SYSTEMS = SOURCES / "common" / "older_systems.cc"
CACHE = ROOT / "build" / "native"
LIBRARIES = ("libtfjac.so", "libtfjac_xla.so", "libtfjac_cuda.so")

_AVX512 = ("-mavx512f", "-mavx512dq", "-mavx512vl", "-mavx512bw", "-mavx2", "-mfma", "-Wno-maybe-uninitialized")
_X86_SETS = {"avx2": ("-mavx2", "-mfma"), "avx512": _AVX512}

PROCESSOR = runpy.run_path(str(ROOT / "tfjac" / "ops" / "_processor.py"))  # the package would import TensorFlow

_COMMON_FLAGS = ("-std=c++17", "-O3", "-DNDEBUG", "-fPIC", "-fvisibility=hidden", "-Wall", f"-I{ROOT}")
_COMMON_FLAGS += (f"-ffile-prefix-map={ROOT}/=",)  # no path of this machine in messages


def build_libraries(settings: Settings) -> list:
    """Build what has changed, for each TensorFlow of the settings.

    Returns:
        For each TensorFlow the paths of the libraries in the cache, and a record of the build.

    Raises:
        BuildError: if there is no compiler or no TensorFlow, or one of them fails; the same for the CUDA kernels where
            `settings.cuda` is "1".
    """
    compiler = find_compiler(settings.compiler)
    with only_one(CACHE):
        return [_build_for(tensorflow, compiler, settings) for tensorflow in find_tensorflows(settings.tensorflow)]


def _build_for(tensorflow: TensorFlow, compiler: Compiler, settings: Settings) -> tuple:
    record = {
        "tensorflow": tensorflow.version,
        "compiler": compiler.version,
        "instruction_sets": list(chosen_sets(compiler, settings)),
        "cuda_architectures": [],
    }
    try:
        cuda, cuda_record = _build_cuda(compiler, tensorflow, settings)
    except BuildError as error:
        if settings.cuda == "1":
            raise
        cuda, cuda_record = [], {"cuda_reason": str(error)}
    return _build_ops(compiler, tensorflow, cuda, settings), record | cuda_record


def instruction_sets(processor: str) -> dict:
    """Give the flags of each instruction set to compile the kernels for; "baseline" has none."""
    return {"baseline": ()} | (_X86_SETS if processor == "x86_64" else {})


def chosen_sets(compiler: Compiler, settings: Settings) -> dict:
    """Give those of them that are wanted: all, or the best that this processor has."""
    sets = instruction_sets(compiler.processor)
    if settings.instruction_sets == "all" or len(sets) == 1:
        return sets
    best = [name for name in sets if PROCESSOR["has_set"](name)][-1]
    return {best: sets[best]}


def dispatch_flags(sets: dict) -> tuple:
    """Give the flags for sources that call kernels: which set, where there is one alone, and nothing to choose."""
    return (f"-DTFJAC_ONLY_ISA={next(iter(sets))}",) if len(sets) == 1 else ()


def _has_calls(tensorflow: TensorFlow) -> bool:
    """Whether its package has the header by which programs of XLA call kernels: from 2.20 on."""
    return (tensorflow.directory / "include/xla/ffi/api/ffi.h").is_file()


def _build_cuda(compiler: Compiler, tensorflow: TensorFlow, settings: Settings):
    """Give the path of the CUDA library, in a list, and what to record about it."""
    if settings.cuda == "0":
        return [], {"cuda_reason": "not wanted"}
    if settings.cuda == "auto" and not has_gpu():
        return [], {"cuda_reason": "there was no GPU; TFJAC_CUDA=1 compiles them all the same"}
    if not _has_calls(tensorflow):
        raise BuildError(f"CUDA kernels need TensorFlow 2.20 or newer, and they were built for {tensorflow.version}")
    sources = sorted(SOURCES.rglob("*_gpu.cu.cc"))
    nvcc = find_nvcc(settings.cuda_architectures)
    if nvcc is None:
        if settings.cuda == "1":
            raise BuildError("TFJAC_CUDA is 1, and nvcc with libcudart_static.a was not found")
        return [], {"cuda_reason": "nvcc was not found"}
    codes = [f"-gencode=arch=compute_{name},code=sm_{name}" for name in nvcc.architectures]
    newest = nvcc.architectures[-1]
    codes.append(f"-gencode=arch=compute_{newest},code=compute_{newest}")
    flags = ("-std=c++17", "-O3", "-DNDEBUG", "-x", "cu", "-Xcompiler", "-fPIC,-fvisibility=hidden,-Wall", f"-I{ROOT}")
    command = (nvcc.path, "-ccbin", compiler.command[0], *flags, *codes)
    steps = [compile_step(command, source, _object(CACHE / "cuda", source)) for source in sources]
    run_steps(steps, settings.jobs)
    libraries = (f"-L{nvcc.library_directory}", "-lcudart_static", "-lpthread", "-ldl", "-lrt")
    link = _link(compiler, CACHE / "cuda" / "libtfjac_cuda.so", steps, libraries)
    run_steps([link], settings.jobs)
    return [link.output], {"cuda_compiler": nvcc.version, "cuda_architectures": list(nvcc.architectures)}


def _build_ops(compiler: Compiler, tensorflow: TensorFlow, cuda: list, settings: Settings) -> list:
    """Give the paths of all libraries, with that of the CUDA library, if there is one, in front."""
    folder = CACHE / tensorflow.version
    sets = chosen_sets(compiler, settings)
    ops, xla = _compile_steps(compiler, tensorflow, folder, sets, with_cuda=bool(cuda))
    announcement = (
        f"tfjac: compiling native ops for TensorFlow {tensorflow.version}, about a minute of processor time "
        "(pip install -v shows each step, TFJAC_NATIVE=0 leaves them out)"
    )
    run_steps(list(dict.fromkeys([*ops, *xla])), settings.jobs, announcement)
    ops_library = _link_ops(compiler, tensorflow.directory, folder, ops, cuda)
    xla_library = _link_xla(compiler, tensorflow.directory, folder, xla, ops_library.output)
    run_steps([ops_library], settings.jobs)
    run_steps([xla_library], settings.jobs)
    return [*cuda, ops_library.output, xla_library.output]


def _compile_steps(compiler, tensorflow, folder, sets, with_cuda):
    flags = _flags(compiler, tensorflow)
    kinds = {"_xla.cc": [], "_gpu.cc": [], "_function.cc": [], ".cc": []}
    left_out = ("_cpu.cc", "_gpu.cu.cc", OLDER_SYSTEMS.name, *(() if _has_calls(tensorflow) else ("call.cc",)))
    for source in sorted(SOURCES.rglob("*.cc")):
        if not source.name.endswith(left_out):
            kinds[next(kind for kind in kinds if source.name.endswith(kind))].append(source)
    older = compile_step(flags, OLDER_SYSTEMS, _object(folder / "baseline", OLDER_SYSTEMS))
    steps = [*cpu_steps(compiler, tensorflow, sets), older]
    steps += [compile_step(flags, source, _object(folder, source)) for source in kinds["_function.cc"]]
    # Kernels look at shapes and call what computes; those of XLA run once for each graph: no need to optimise them.
    light = (*flags, "-O1")
    calling, name = (*light, *dispatch_flags(sets)), "-".join(["kernels", *sets])
    steps.append(_bundle_step(calling, folder / f"{name}.cc", kinds[".cc"], weight=10))
    if with_cuda:
        steps.append(_bundle_step(light, folder / "kernels-cuda.cc", kinds["_gpu.cc"], weight=10))
    return steps, [_bundle_step(light, folder / "xla.cc", kinds["_xla.cc"], weight=11), older]


def cpu_steps(compiler: Compiler, tensorflow: TensorFlow, sets: dict) -> list:
    """Give the steps that compile the computations on the CPU; of TensorFlow they need its Eigen alone."""
    flags, folder = _flags(compiler, tensorflow), CACHE / tensorflow.version
    return [
        compile_step(
            (*flags, *machine, f"-DTFJAC_ISA={name}", f"-DEigen=Eigen_{name}"),
            source,
            _object(folder / name, source),
            weight=1 + len(machine),
        )
        for source in sorted(SOURCES.rglob("*_cpu.cc"))
        for name, machine in sets.items()
    ]


def _flags(compiler, tensorflow):
    include = tensorflow.directory / "include"
    places = (include, include / "external/highwayhash", include / "external/farmhash_archive/src")
    flags = (*compiler.command, *_COMMON_FLAGS, "-D_GLIBCXX_USE_CXX11_ABI=1", "-DEIGEN_MAX_ALIGN_BYTES=64")
    flags += (f"-ffile-prefix-map={include}/=",)
    return flags + tuple(word for place in places for word in ("-isystem", place))


def _bundle_step(flags, bundle, sources, weight):
    """Compile one file that includes the sources: parsing TensorFlow's headers costs far more than compiling them."""
    text = "".join(f'#include "{source.relative_to(ROOT)}"\n' for source in sources)
    if not bundle.is_file() or bundle.read_text() != text:
        bundle.parent.mkdir(parents=True, exist_ok=True)
        bundle.write_text(text)
    return compile_step(flags, bundle, bundle.with_suffix(".o"), weight)


def _object(folder: pathlib.Path, source: pathlib.Path) -> pathlib.Path:
    name = "-".join(source.relative_to(SOURCES).parts).removesuffix(".cc")
    return folder / f"{name}.o"


def _link_ops(compiler, tensorflow, folder, steps, cuda):
    # The CUDA library stands apart: TensorFlow exports stubs of the CUDA runtime that would win over the real one.
    beside = (*cuda, "-Wl,-rpath,$ORIGIN") if cuda else ()
    return _link(
        compiler, folder / "libtfjac.so", steps, (*beside, f"-L{tensorflow}", "-l:libtensorflow_framework.so.2")
    )


def _link_xla(compiler, tensorflow, folder, steps, ops):
    beside = (ops, "-Wl,-rpath,$ORIGIN")
    libraries = (*beside, f"-L{tensorflow}", "-l:libtensorflow_cc.so.2", "-l:libtensorflow_framework.so.2")
    # TensorFlow's library has a gigabyte of symbols, through which this linker goes in a fifth of the time.
    quick = ("-fuse-ld=gold",) if shutil.which("ld.gold") and compiler.command[0].endswith("g++") else ()
    return _link(compiler, folder / "libtfjac_xla.so", steps, (*quick, *libraries))


def _link(compiler, output, steps, libraries):
    objects = tuple(step.output for step in steps)
    flags = ("-shared", "-s", f"-Wl,-soname,{output.name}", "-Wl,--exclude-libs,ALL", "-Wl,-z,defs")
    return Step((*compiler.command, *flags, *objects, *libraries), output, objects)
