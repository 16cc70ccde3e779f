"""Run the CPU kernels under AddressSanitizer and UndefinedBehaviorSanitizer: `python -m build_tools.sanitize`.

EMULATOR is the command that runs them where CXX compiles for another processor than this one.
"""

import os
import pathlib
import platform
import subprocess
import sys

from build_tools.compilation import Step, run_steps
from build_tools.native import CACHE, ROOT, SOURCES, instruction_sets
from build_tools.toolchain import find_compiler, find_tensorflow, target_processor

SANITIZERS = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer")
NEEDED = {"avx2": {"avx2", "fma"}, "avx512": {"avx512f", "avx512dq", "avx512vl", "avx512bw"}}


def main() -> int:
    """Build and run the test driver for each instruction set that this processor has."""
    compiler, eigen = find_compiler(), find_tensorflow().directory / "include"
    folder, emulator = CACHE / "sanitize" / target_processor(compiler), os.environ.get("EMULATOR", "").split()
    flags = (*compiler.split(), "-std=c++17", "-O1", "-g", "-Wall", f"-I{ROOT}", "-isystem", eigen, *SANITIZERS)
    for name, machine in instruction_sets(compiler).items():
        if not _processor_has(name):
            print(f"tfjac: {name} is not checked: this processor does not have it")
            continue
        variant = (*flags, *machine, f"-DTFJAC_ISA={name}", f"-DEigen=Eigen_{name}")
        sources = [ROOT / "tests" / "native" / "sanitize.cc", *sorted(SOURCES.rglob("*_cpu.cc"))]
        steps = [_compile(variant, source, folder / name) for source in sources]
        program = folder / name / "sanitize"
        objects = tuple(step.output for step in steps)
        run_steps(steps)
        run_steps([Step((*compiler.split(), *SANITIZERS, "-pthread", *objects, "-o", program), program, objects)])
        print(f"tfjac: {target_processor(compiler)}, {name}: ", end="", flush=True)
        if subprocess.run([*emulator, str(program)]).returncode:
            return 1
    return 0


def _compile(flags, source, folder):
    output = folder / (source.stem + ".o")
    command = (*flags, "-MMD", "-MF", output.with_suffix(".d"), "-c", source, "-o", output)
    return Step(command, output, (source,), weight=source.stem == "tiles_cpu")


def _processor_has(name):
    if name == "baseline":
        return True
    cpuinfo = pathlib.Path("/proc/cpuinfo")
    present = set(cpuinfo.read_text().split()) if platform.system() == "Linux" else set()
    return NEEDED[name] <= present


if __name__ == "__main__":
    sys.exit(main())
