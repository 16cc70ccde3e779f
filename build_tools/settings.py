"""The environment variables that steer the build: one that makes no sense is refused, not ignored."""

import os
import pathlib
import re
import runpy
import shlex
import sys
from collections.abc import Mapping
from typing import NamedTuple

ROOT = pathlib.Path(__file__).resolve().parents[1]
DEFAULT_CUDA_ARCHITECTURES = "75;80;90"  # from Turing on, with PTX of the last for newer ones; nvcc 11.8 knows them


class SettingError(Exception):
    """An environment variable has a value that means nothing."""


class Settings(NamedTuple):
    """What the environment asks for.

    Attributes:
        native: TFJAC_NATIVE. "auto": go without native ops where they cannot be built; "1": fail; "0": do not try.
        cuda: TFJAC_CUDA, the same for the CUDA kernels; "auto" compiles them where there is a GPU alone.
        cuda_architectures: TFJAC_CUDA_ARCHS, compute capabilities as in ("80", "90").
        instruction_sets: TFJAC_INSTRUCTION_SETS. "native": the best that this processor has; "all": those of every one.
        tensorflow: TFJAC_TENSORFLOW, folders of TensorFlow to build against, as in PATH; none for the installed one.
        compiler: CXX, in words.
        jobs: MAX_JOBS, how many steps may run at a time; one per processor unless set.
    """

    native: str
    cuda: str
    cuda_architectures: tuple
    instruction_sets: str
    tensorflow: tuple
    compiler: tuple
    jobs: int


def read_settings(environment: Mapping = os.environ) -> Settings:
    """Read and check the variables; one that is empty is not set.

    Raises:
        SettingError: naming the variable, what it may be and what it was.
    """
    # Run by itself: the package would import TensorFlow, which need not be there.
    known = runpy.run_path(str(ROOT / "tfjac" / "ops" / "_environment.py"))
    if wrong := known["wrong_value"](environment):
        raise SettingError(wrong)
    if misspelt := known["misspelt_name"](environment):
        print(f"tfjac: {misspelt}", file=sys.stderr)
    return Settings(
        environment.get("TFJAC_NATIVE") or "auto",
        environment.get("TFJAC_CUDA") or "auto",
        _architectures(environment.get("TFJAC_CUDA_ARCHS") or DEFAULT_CUDA_ARCHITECTURES),
        environment.get("TFJAC_INSTRUCTION_SETS") or "native",
        tuple(filter(None, (environment.get("TFJAC_TENSORFLOW") or "").split(os.pathsep))),
        _compiler(environment.get("CXX") or "g++"),
        _jobs(environment.get("MAX_JOBS") or _processors()),
    )


def _processors():
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _architectures(text):
    names = tuple(filter(None, re.split(r"[;,\s]+", text)))
    if not names or not all(re.fullmatch(r"\d{2,3}[af]?", name) for name in names):
        raise SettingError(f"TFJAC_CUDA_ARCHS must list compute capabilities, as in 80;90. Received: {text!r}")
    return names


def _compiler(text):
    try:
        words = tuple(shlex.split(text))
    except ValueError:  # a quotation mark without its like
        words = ()
    if not words:
        raise SettingError(f"CXX must be the command of a C++ compiler. Received: {text!r}")
    return words


def _jobs(value):
    if not str(value).isdecimal() or int(value) < 1:
        raise SettingError(f"MAX_JOBS must be a whole number, 1 or more. Received: {value!r}")
    return int(value)
