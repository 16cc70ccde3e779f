"""Putting the native libraries where the package finds them, whole or not at all."""

import json
import os
import pathlib
import shutil
import sys

from build_tools.native import LIBRARIES, build_libraries
from build_tools.settings import read_settings
from build_tools.toolchain import BuildError, ToolMissing

INFO = "_build_info.json"


def build(target: pathlib.Path) -> dict:
    """Build the libraries, each with a record of how, into a folder of `target` for each minor version of TensorFlow.

    TFJAC_NATIVE says what to do where that is not possible: auto (the default): go without, and record the reason, or
    leave those that an earlier build left; 1: raise; 0: do not try. TFJAC_CUDA says the same about the CUDA kernels.

    Returns:
        The record, as written to _build_info.json, the last of several; its "reason" is empty if the libraries are
        there. "failure", where those of an earlier build were left, says what went wrong in this one.

    Raises:
        BuildError: if TFJAC_NATIVE or TFJAC_CUDA is 1 and what it asks for cannot be built.
        SettingError: if an environment variable makes no sense.
    """
    settings = read_settings()
    if settings.native == "0":
        return _go_without("TFJAC_NATIVE was 0 when tfjac was installed", target)
    try:
        built = build_libraries(settings)
    except BuildError as error:
        if settings.native == "1" or settings.cuda == "1":
            raise
        earlier = _any_installed(target)
        if earlier:
            print(f"tfjac: the native ops built earlier stay, for new ones cannot be built: {error}", file=sys.stderr)
            return earlier | ({} if isinstance(error, ToolMissing) else {"failure": str(error)})
        print(f"tfjac: going without native ops: {error}", file=sys.stderr)
        return _go_without(str(error), target)
    for libraries, record in built:
        whole = _install(libraries, {"reason": "", **record}, target / minor_version(record["tensorflow"]))
    (target / INFO).unlink(missing_ok=True)  # of a time without
    return whole


def minor_version(version: str) -> str:
    """Give "2.21" of "2.21.0": within it TensorFlow keeps to its binary interface. The package goes by it, too."""
    return ".".join(version.split(".")[:2])


def folders(target: pathlib.Path) -> list:
    """Give the folders of libraries, one for each minor version."""
    return sorted(path.parent for path in target.glob(f"*/{INFO}"))


def _any_installed(target: pathlib.Path) -> dict | None:
    return next(filter(None, map(_installed, folders(target))), None)


def _go_without(reason: str, target: pathlib.Path) -> dict:
    """Leave no library, and a record that says why."""
    for folder in folders(target):
        shutil.rmtree(folder)
    return _install([], {"reason": reason}, target)


def _install(libraries: list, record: dict, target: pathlib.Path) -> dict:
    """Copy the libraries; while that is under way there is no record, and without one the package opens none."""
    record["bytes"] = {library.name: library.stat().st_size for library in libraries}
    if _installed(target) == record and all(_same(library, target / library.name) for library in libraries):
        return record
    target.mkdir(parents=True, exist_ok=True)
    (target / INFO).unlink(missing_ok=True)
    for name in LIBRARIES:
        if name not in record["bytes"]:
            (target / name).unlink(missing_ok=True)
    for library in libraries:
        _replace(target / library.name, lambda aside, library=library: shutil.copy2(library, aside))
    _replace(target / INFO, lambda aside: aside.write_text(json.dumps(record, indent=1) + "\n"))
    return record


def _replace(path: pathlib.Path, write) -> None:
    """Have a file written aside, then take its place: never in place, where a running program may have it mapped."""
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        write(aside)
        aside.replace(path)
    finally:
        aside.unlink(missing_ok=True)


def _installed(target: pathlib.Path) -> dict | None:
    """Give the record of libraries that are there in full; None where there are none."""
    try:
        record = json.loads((target / INFO).read_text())
        whole = all((target / name).stat().st_size == size for name, size in record["bytes"].items())
        return record if whole and record["bytes"] and not record["reason"] else None
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def _same(one: pathlib.Path, other: pathlib.Path) -> bool:
    return one.read_bytes() == other.read_bytes()
