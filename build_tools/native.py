"""The native libraries: which sources, which flags, what is linked to what.

Sources are found by their names under custom_ops/, so a new op needs no change here:

    *_cpu.cc           compiled once per instruction set            -> libtfjac.so
    *_kernel_gpu.cc    compiled where there are CUDA kernels        -> libtfjac.so
    *_xla.cc                                                        -> libtfjac_xla.so
    *_gpu.cu.cc        compiled by nvcc, without TensorFlow         -> libtfjac_cuda.so
    other *.cc                                                      -> libtfjac.so
"""

import pathlib

from build_tools.compilation import Step, compile_step, only_one, run_steps
from build_tools.settings import ROOT, Settings
from build_tools.toolchain import BuildError, Compiler, TensorFlow, find_compiler, find_nvcc, find_tensorflow

SOURCES = ROOT / "custom_ops"
CACHE = ROOT / "build" / "native"
LIBRARIES = ("libtfjac.so", "libtfjac_xla.so", "libtfjac_cuda.so")

_AVX512 = ("-mavx512f", "-mavx512dq", "-mavx512vl", "-mavx512bw", "-mavx2", "-mfma", "-Wno-maybe-uninitialized")
_X86_SETS = {"avx2": ("-mavx2", "-mfma"), "avx512": _AVX512}

_COMMON_FLAGS = ("-std=c++17", "-O3", "-DNDEBUG", "-fPIC", "-fvisibility=hidden", "-Wall", f"-I{ROOT}")


def build_libraries(settings: Settings) -> tuple:
    """Build what has changed.

    Returns:
        The paths of the libraries in the cache, and a record of the build.

    Raises:
        BuildError: if there is no compiler or no TensorFlow, or one of them fails; the same for the CUDA kernels where
            `settings.cuda` is "1".
    """
    compiler = find_compiler(settings.compiler)
    tensorflow = find_tensorflow(settings.tensorflow)
    record = {
        "tensorflow": tensorflow.version,
        "compiler": compiler.version,
        "instruction_sets": list(instruction_sets(compiler.processor)),
        "cuda_architectures": [],
    }
    with only_one(CACHE):
        try:
            cuda, cuda_record = _build_cuda(compiler, settings)
        except BuildError as error:
            if settings.cuda == "1":
                raise
            cuda, cuda_record = [], {"cuda_reason": str(error)}
        return _build_ops(compiler, tensorflow, cuda, settings.jobs), record | cuda_record


def instruction_sets(processor: str) -> dict:
    """Give the flags of each instruction set to compile the kernels for; "baseline" has none."""
    return {"baseline": ()} | (_X86_SETS if processor == "x86_64" else {})


def _build_cuda(compiler: Compiler, settings: Settings):
    """Give the path of the CUDA library, in a list, and what to record about it."""
    if settings.cuda == "0":
        return [], {"cuda_reason": "not wanted"}
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
    steps = [compile_step(command, source, _object("cuda", source)) for source in sources]
    run_steps(steps, settings.jobs)
    libraries = (f"-L{nvcc.library_directory}", "-lcudart_static", "-lpthread", "-ldl", "-lrt")
    link = _link(compiler, "libtfjac_cuda.so", steps, libraries)
    run_steps([link], settings.jobs)
    return [link.output], {"cuda_compiler": nvcc.version, "cuda_architectures": list(nvcc.architectures)}


def _build_ops(compiler: Compiler, tensorflow: TensorFlow, cuda: list, jobs: int) -> list:
    """Give the paths of all libraries, with that of the CUDA library, if there is one, in front."""
    ops, xla = _compile_steps(compiler, tensorflow.directory, with_cuda=bool(cuda))
    run_steps([*ops, *xla], jobs)
    ops_library = _link_ops(compiler, tensorflow.directory, ops, cuda)
    xla_library = _link_xla(compiler, tensorflow.directory, xla, ops_library.output)
    run_steps([ops_library], jobs)
    run_steps([xla_library], jobs)
    return [*cuda, ops_library.output, xla_library.output]


def _compile_steps(compiler, tensorflow, with_cuda):
    include = tensorflow / "include"
    places = (include, include / "external/highwayhash", include / "external/farmhash_archive/src")
    flags = (*compiler.command, *_COMMON_FLAGS, "-D_GLIBCXX_USE_CXX11_ABI=1", "-DEIGEN_MAX_ALIGN_BYTES=64")
    flags += tuple(word for place in places for word in ("-isystem", place))
    sets = instruction_sets(compiler.processor)
    steps, kernels, xla = [], [], []
    for source in sorted(SOURCES.rglob("*.cc")):
        if source.name.endswith("_gpu.cu.cc") or (source.name.endswith("_kernel_gpu.cc") and not with_cuda):
            continue
        if source.name.endswith("_cpu.cc"):
            for name, machine in sets.items():
                variant = (*flags, *machine, f"-DTFJAC_ISA={name}", f"-DEigen=Eigen_{name}")
                steps.append(compile_step(variant, source, _object(name, source), weight=len(machine)))
        else:
            (xla if source.name.endswith("_xla.cc") else kernels).append(source)
    steps.append(_bundle_step(flags, "kernels", kernels, weight=8))
    # XLA kernels run once for each graph that is compiled: no need to optimise them.
    return steps, [_bundle_step((*flags, "-O1"), "xla", xla, weight=9)]


def _bundle_step(flags, name, sources, weight):
    """Compile one file that includes the sources: parsing TensorFlow's headers costs far more than compiling them."""
    bundle = CACHE / "bundles" / f"{name}.cc"
    text = "".join(f'#include "{source.relative_to(ROOT)}"\n' for source in sources)
    if not bundle.is_file() or bundle.read_text() != text:
        bundle.parent.mkdir(parents=True, exist_ok=True)
        bundle.write_text(text)
    return compile_step(flags, bundle, bundle.with_suffix(".o"), weight)


def _object(kind: str, source: pathlib.Path) -> pathlib.Path:
    name = "-".join(source.relative_to(SOURCES).parts).removesuffix(".cc")
    return CACHE / kind / f"{name}.o"


def _link_ops(compiler, tensorflow, steps, cuda):
    # The CUDA library stands apart: TensorFlow exports stubs of the CUDA runtime that would win over the real one.
    beside = (*cuda, "-Wl,-rpath,$ORIGIN") if cuda else ()
    return _link(compiler, "libtfjac.so", steps, (*beside, f"-L{tensorflow}", "-l:libtensorflow_framework.so.2"))


def _link_xla(compiler, tensorflow, steps, ops):
    beside = (ops, "-Wl,-rpath,$ORIGIN")
    libraries = (*beside, f"-L{tensorflow}", "-l:libtensorflow_cc.so.2", "-l:libtensorflow_framework.so.2")
    return _link(compiler, "libtfjac_xla.so", steps, libraries)


def _link(compiler, name, steps, libraries):
    objects = tuple(step.output for step in steps)
    flags = ("-shared", "-s", f"-Wl,-soname,{name}", "-Wl,--exclude-libs,ALL", "-Wl,-z,defs")
    return Step((*compiler.command, *flags, *objects, *libraries), CACHE / "lib" / name, objects)
