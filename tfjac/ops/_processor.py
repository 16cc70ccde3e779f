"""Which of the instruction sets that CPU kernels are compiled for this processor has.

Imports nothing of the package: the build reads this file by itself (`build_tools/native.py`).
"""

import pathlib

NEEDED = {
    "baseline": set(),
    "avx2": {"avx2", "fma"},
    "avx512": {"avx512f", "avx512dq", "avx512vl", "avx512bw"},
}
"""Instruction set -> what Linux calls its parts; the best stands last."""


def has_set(name: str) -> bool:
    """Whether this processor, and the operating system, have an instruction set."""
    cpuinfo = pathlib.Path("/proc/cpuinfo")
    return NEEDED[name] <= (set(cpuinfo.read_text().split()) if cpuinfo.is_file() else set())


def why_not(sets: list) -> str:
    """Say that none of these instruction sets is there; empty where one is, or where none is named."""
    if not sets or any(has_set(name) for name in sets if name in NEEDED):
        return ""
    return (
        f"they were compiled for {' and '.join(sets)}, which this processor lacks. Compile them on it, or with "
        "TFJAC_INSTRUCTION_SETS=all"
    )
