"""Compiling in parallel, and only what changed.

A step counts as done only if its command, everything it read and what it wrote are what they were when it succeeded:
whatever was interrupted, by a signal or a full disk, is done again.
"""

import concurrent.futures
import contextlib
import hashlib
import json
import pathlib
import re
import subprocess
import sys
from collections.abc import Sequence
from typing import NamedTuple

from build_tools.toolchain import BuildError


class Step(NamedTuple):
    """A command that makes `output`, which is put after it with -o, from the files it reads."""

    command: tuple
    output: pathlib.Path
    inputs: tuple = ()  # known before; headers are learnt from the compiler
    weight: int = 0  # the heaviest start first


def compile_step(command: Sequence, source: pathlib.Path, output: pathlib.Path, weight: int = 0) -> Step:
    """Give the step that compiles one source, and has the compiler list the headers that it reads."""
    listing = ("-MMD", "-MF", output.with_suffix(".d"))
    return Step((*command, *listing, "-c", source), output, (source,), weight)


def run_steps(steps: Sequence[Step], jobs: int, announcement: str = "") -> None:
    """Run the steps whose command or files have changed since they ran last, `jobs` at a time.

    If there is one, and `announcement` is not empty, the terminal shows that first.

    Raises:
        BuildError: if a command fails; with the end of what it printed.
    """
    stale = sorted((step for step in steps if not _is_fresh(step)), key=lambda step: -step.weight)
    if stale and announcement:
        _tell_terminal(announcement)
    with concurrent.futures.ThreadPoolExecutor(jobs) as executor:
        futures = [executor.submit(_run, step, f"{k + 1} of {len(stale)}") for k, step in enumerate(stale)]
        try:
            for future in concurrent.futures.as_completed(futures):
                future.result()
        except BuildError:
            executor.shutdown(cancel_futures=True)
            raise


@contextlib.contextmanager
def only_one(folder: pathlib.Path):
    """Let one process at a time build into the folder."""
    import fcntl  # of Unix alone: there is nothing to lock where nothing is built

    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _tell_terminal(line: str) -> None:
    """Write to the terminal, if there is one, what pip keeps to itself unless it is given -v."""
    if not sys.stdout.isatty():
        with contextlib.suppress(OSError), open("/dev/tty", "w") as terminal:
            terminal.write(f"\n{line}\n")


def _run(step: Step, which: str) -> None:
    sys.stdout.write(f"tfjac: building {which}: {step.output.parent.name}/{step.output.name}\n")
    sys.stdout.flush()
    step.output.parent.mkdir(parents=True, exist_ok=True)
    partial = step.output.with_name(step.output.name + ".partial")
    command = [str(word) for word in (*step.command, "-o", partial)]
    finished = subprocess.run(command, capture_output=True, text=True)
    if finished.returncode:
        raise BuildError(f"{step.command[0]} failed to make {step.output.name}: {finished.stderr.strip()[-2000:]}")
    if finished.stderr.strip():
        print(finished.stderr.strip(), flush=True)
    partial.replace(step.output)
    record = {"command": _digest(step.command), "files": _hashes(_files(step)), "output": _hash(step.output)}
    _record(step).write_text(json.dumps(record))


def _is_fresh(step: Step) -> bool:
    try:
        record = json.loads(_record(step).read_text())
        now = {"command": _digest(step.command), "files": _hashes(record["files"]), "output": _hash(step.output)}
        return record == now
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _record(step: Step) -> pathlib.Path:
    return step.output.with_name(step.output.name + ".json")


def _files(step: Step) -> list:
    """The inputs, and the headers that the compiler wrote to the .d file (-MMD: none of the system's)."""
    listing = step.output.with_suffix(".d")
    headers = _prerequisites(listing.read_text()) if listing.is_file() else []
    return sorted({str(path) for path in (*step.inputs, *headers)})


def _prerequisites(rule: str) -> list:
    """What stands behind the colon of a Makefile's rule, where a space in a name is written "\\ "."""
    words = re.findall(r"(?:\\.|[^\s\\])+", rule.replace("\\\n", " ").split(": ", 1)[1])
    return [re.sub(r"\\([\s#])", r"\1", word).replace("$$", "$") for word in words]


def _digest(command: Sequence) -> str:
    return hashlib.sha256("\0".join(map(str, command)).encode()).hexdigest()


def _hashes(files: Sequence) -> dict:
    return {str(file): _hash(file) for file in files}


def _hash(file) -> str:
    return hashlib.sha256(pathlib.Path(file).read_bytes()).hexdigest()
