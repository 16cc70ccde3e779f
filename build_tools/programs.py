"""Programs made of the CPU kernels and a main of their own, without TensorFlow: to check them, and to time them."""

import pathlib
from collections.abc import Iterator, Sequence

from build_tools.compilation import Step, compile_step, run_steps
from build_tools.native import CACHE, PROCESSOR, SOURCES, instruction_sets
from build_tools.settings import ROOT, read_settings
from build_tools.toolchain import find_compiler, find_tensorflow


def build_programs(main: pathlib.Path, flags: Sequence[str]) -> Iterator[tuple]:
    """Build a program for each instruction set, what has changed, when it is asked for.

    Args:
        main: the C++ source that has `main`; it may include headers of custom_ops/.
        flags: of the compiler and the linker.

    Yields:
        (processor, instruction set, path of the program), the path None where this processor lacks the set.

    Raises:
        BuildError: if there is no compiler or no TensorFlow, whose Eigen is used, or the compiler fails.
    """
    settings = read_settings()
    compiler, eigen = find_compiler(settings.compiler), find_tensorflow(settings.tensorflow).directory / "include"
    command = (*compiler.command, "-std=c++17", "-Wall", f"-I{ROOT}", "-isystem", eigen, *flags)
    sources = [main, *sorted(SOURCES.rglob("*_cpu.cc"))]
    for name, machine in instruction_sets(compiler.processor).items():
        if not PROCESSOR["has_set"](name):
            yield compiler.processor, name, None
            continue
        folder = CACHE / main.stem / compiler.processor / name
        variant = (*command, *machine, f"-DTFJAC_ISA={name}", f"-DEigen=Eigen_{name}")
        steps = [
            compile_step(variant, source, folder / f"{source.stem}.o", weight=source.stem == "tiles_cpu")
            for source in sources
        ]
        objects = tuple(step.output for step in steps)
        run_steps(steps, settings.jobs)
        link = Step((*compiler.command, *flags, "-pthread", *objects), folder / main.stem, objects)
        run_steps([link], settings.jobs)
        yield compiler.processor, name, link.output
