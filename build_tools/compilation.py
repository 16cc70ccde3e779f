"""Compiling in parallel, and only what changed."""

import concurrent.futures
import hashlib
import json
import os
import pathlib
import subprocess
import sys
from collections.abc import Sequence
from typing import NamedTuple

from build_tools.toolchain import BuildError


class Step(NamedTuple):
    """A command that makes `output` from the files it reads."""

    command: tuple
    output: pathlib.Path
    inputs: tuple = ()  # known before; headers are learnt from the compiler
    weight: int = 0  # the heaviest start first


def run_steps(steps: Sequence[Step]) -> None:
    """Run the steps whose command or files have changed since they ran last, in parallel.

    MAX_JOBS limits how many run at a time.

    Raises:
        BuildError: if a command fails; with the end of what it printed.
    """
    stale = sorted((step for step in steps if not _is_fresh(step)), key=lambda step: -step.weight)
    jobs = int(os.environ.get("MAX_JOBS", 0)) or len(os.sched_getaffinity(0))
    with concurrent.futures.ThreadPoolExecutor(jobs) as executor:
        futures = [executor.submit(_run, step) for step in stale]
        try:
            for future in concurrent.futures.as_completed(futures):
                future.result()
        except BuildError:
            executor.shutdown(cancel_futures=True)
            raise


def _run(step: Step) -> None:
    sys.stdout.write(f"tfjac: building {step.output.parent.name}/{step.output.name}\n")
    sys.stdout.flush()
    step.output.parent.mkdir(parents=True, exist_ok=True)
    finished = subprocess.run([str(word) for word in step.command], capture_output=True, text=True)
    if finished.returncode:
        raise BuildError(f"{step.command[0]} failed to make {step.output.name}: {finished.stderr.strip()[-2000:]}")
    if finished.stderr.strip():
        print(finished.stderr.strip(), flush=True)
    _record(step).write_text(json.dumps({"command": _digest(step.command), "files": _hashes(_files(step))}))


def _is_fresh(step: Step) -> bool:
    try:
        record = json.loads(_record(step).read_text())
        unchanged = record["command"] == _digest(step.command) and record["files"] == _hashes(record["files"])
        return unchanged and step.output.is_file()
    except (OSError, ValueError, KeyError):
        return False


def _record(step: Step) -> pathlib.Path:
    return step.output.with_name(step.output.name + ".json")


def _files(step: Step) -> list:
    """The inputs, and the headers that the compiler wrote to the .d file (-MMD: none of the system's)."""
    listing = step.output.with_suffix(".d")
    headers = []
    if listing.is_file():
        headers = listing.read_text().replace("\\\n", " ").split(": ", 1)[1].split()
    return sorted({str(path) for path in (*step.inputs, *headers)})


def _digest(command: Sequence) -> str:
    return hashlib.sha256("\0".join(map(str, command)).encode()).hexdigest()


def _hashes(files: Sequence) -> dict:
    return {str(file): hashlib.sha256(pathlib.Path(file).read_bytes()).hexdigest() for file in files}
