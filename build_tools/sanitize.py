"""Run the CPU kernels under AddressSanitizer and UndefinedBehaviorSanitizer: `python -m build_tools.sanitize`.

EMULATOR is the command that runs them where CXX compiles for another processor than this one.
"""

import os
import pathlib
import platform
import subprocess
import sys

from build_tools.compilation import Step, compile_step, run_steps
from build_tools.native import CACHE, SOURCES, instruction_sets
from build_tools.settings import ROOT, read_settings
from build_tools.toolchain import find_compiler, find_tensorflow

SANITIZERS = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer")
NEEDED = {"avx2": {"avx2", "fma"}, "avx512": {"avx512f", "avx512dq", "avx512vl", "avx512bw"}}


def main() -> int:
    """Build and run the test driver for each instruction set that this processor has."""
    settings = read_settings()
    compiler, eigen = find_compiler(settings.compiler), find_tensorflow(settings.tensorflow).directory / "include"
    folder, emulator = CACHE / "sanitize" / compiler.processor, os.environ.get("EMULATOR", "").split()
    flags = (*compiler.command, "-std=c++17", "-O1", "-g", "-Wall", f"-I{ROOT}", "-isystem", eigen, *SANITIZERS)
    for name, machine in instruction_sets(compiler.processor).items():
        if not _processor_has(name):
            print(f"tfjac: {name} is not checked: this processor does not have it")
            continue
        variant = (*flags, *machine, f"-DTFJAC_ISA={name}", f"-DEigen=Eigen_{name}")
        sources = [ROOT / "tests" / "native" / "sanitize.cc", *sorted(SOURCES.rglob("*_cpu.cc"))]
        steps = [
            compile_step(variant, source, folder / name / f"{source.stem}.o", weight=source.stem == "tiles_cpu")
            for source in sources
        ]
        program = folder / name / "sanitize"
        objects = tuple(step.output for step in steps)
        run_steps(steps, settings.jobs)
        link = Step((*compiler.command, *SANITIZERS, "-pthread", *objects), program, objects)
        run_steps([link], settings.jobs)
        print(f"tfjac: {compiler.processor}, {name}: ", end="", flush=True)
        if subprocess.run([*emulator, str(program)]).returncode:
            return 1
    return 0


def _processor_has(name):
    if name == "baseline":
        return True
    cpuinfo = pathlib.Path("/proc/cpuinfo")
    present = set(cpuinfo.read_text().split()) if platform.system() == "Linux" else set()
    return NEEDED[name] <= present


if __name__ == "__main__":
    sys.exit(main())
