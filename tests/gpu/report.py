"""All that there is to learn on a machine with a GPU, in under ten minutes: `python -m tests.gpu.report OUT`.

    python -m tests.gpu.report OUT [--only PART ...] [--again] [--limit SECONDS]

Runs the parts in order, each in a process with a limit of time, and writes what each says to OUT/PART.log and a summary
to OUT/summary.txt. A part that is done, by its file in OUT, is not run again without `--again`. What cannot run here is
skipped, and the summary says why. The exit status is 1 if a part failed. Needs Python with NumPy, pytest and PyTorch;
nvcc, or a library that TFJAC_CUDA_LIBRARY names; neither TensorFlow nor tfjac.
"""

import argparse
import dataclasses
import os
import pathlib
import re
import sys
import time
from collections.abc import Callable, Sequence

from build_tools.settings import ROOT
from tests.gpu import machine
from tests.gpu.build import CACHE
from tests.gpu.running import run_limited

JAX_CALLS = pathlib.Path("tests", "gpu", "test_jax_calls.py")
DONE, FAILED, SKIPPED = "done", "failed", "skipped"
_VERDICT = re.compile(rf"== (\w+): ({DONE}|{FAILED}|{SKIPPED})(.*)")


@dataclasses.dataclass(frozen=True)
class Part:
    """Something to learn.

    Attributes:
        name: what it is called, here and in OUT.
        seconds: how long each of its commands may take.
        commands: gives them, for the folder OUT.
        missing: says why it cannot run here, for the facts of this machine; empty where it can. Not asked if there are
            no facts.
        figures: gives the lines of the summary, for what it has printed and the folder OUT.
    """

    name: str
    seconds: int
    commands: Callable[[pathlib.Path], Sequence[tuple]]
    missing: Callable[[dict], str]
    figures: Callable[[str, pathlib.Path], list]


def no_library(facts) -> str:
    """Say why there are no launchers."""
    there = machine.has(facts, "nvcc") or machine.has(facts, "library given (TFJAC_CUDA_LIBRARY)")
    return "" if there else "nvcc was not found, and TFJAC_CUDA_LIBRARY names no library"


def no_nvcc(facts) -> str:
    """Say why nothing can be compiled."""
    return "" if machine.has(facts, "nvcc") else "nvcc was not found"


def no_gpu(facts) -> str:
    """Say why nothing can run on a GPU. One that is there and cannot be used is no reason to skip: the tests fail."""
    if not machine.has(facts, "arrays on the GPU") and not machine.has(facts, "GPU"):
        reasons = (facts.get(name, "").removeprefix(f"{machine.NONE} (") for name in ("GPU", "arrays on the GPU"))
        return "no GPU: " + "; ".join(reason.removesuffix(")") for reason in reasons if reason)
    return no_library(facts)


def no_torch(facts) -> str:
    """Say why there is nothing to compare with."""
    return no_gpu(facts) or ("" if machine.has(facts, "torch") else "PyTorch is not installed")


def no_checker(facts) -> str:
    """Say why nothing can be checked."""
    return no_gpu(facts) or ("" if machine.has(facts, "compute-sanitizer") else "compute-sanitizer was not found")


def no_jax(facts) -> str:
    """Say why nothing can be called from JAX."""
    if not (ROOT / JAX_CALLS).exists():
        return f"there is no {JAX_CALLS}"
    return no_gpu(facts) or ("" if machine.has(facts, "jax") else "JAX is not installed")


def lines_of_pytest(log, _out) -> list:
    """Give the counts of each run of pytest, what failed, and what else was said of a run."""
    wanted = r"(== .*|=*\s*\d+ (passed|failed|skipped|error|errors|deselected)\b.* in .*|(FAILED|ERROR) .*)"
    return _at_most(40, [line.strip("= ")[:200] for line in log.splitlines() if re.fullmatch(wanted, line)])


def lines_of_checkers(log, out) -> list:
    """Give what each checker has found, and where first."""
    wanted = re.compile(r"========= (Error: |ERROR SUMMARY|Invalid |Target )")
    found = [line[:200] for line in log.splitlines() if wanted.match(line)]
    return _at_most(12, found) + lines_of_pytest(log, out)


def last_lines(log, _out) -> list:
    """Give the end of what was printed."""
    return log.splitlines()[-8:]


def whole(log, _out) -> list:
    """Give all that was printed."""
    return log.splitlines()


def lines_of_benchmarks(log, _out) -> list:
    """Give a line for each question."""
    wanted = re.compile(r".*(\baim \d|\bquestions asked\b|Error|^rates:|^the (process|GPU))")
    return [line[:250] for line in log.splitlines() if wanted.match(line)]


def lines_of_jax(log, out) -> list:
    """Give the counts of the tests, and a line for each step."""
    return lines_of_pytest(log, out) + lines_of_benchmarks(log, out)


def _at_most(count, lines):
    return lines if len(lines) <= count else [*lines[:count], f"... and {len(lines) - count} more lines in the log"]


def module(name, *arguments):
    """Give the command that runs a module with this Python."""
    return (sys.executable, "-m", name, *map(str, arguments))


def build_commands(_out):
    """The launchers as they are used, and with small limits."""
    small = module("tests.gpu.build", CACHE / "gpu-small_limits", "--small-limits")
    return module("tests.gpu.build", CACHE / "gpu"), small


def checker_commands(_out):
    """One after the other, so that one that takes too long leaves the others their time."""
    return [module("tests.gpu.sanitize", tool) for tool in ("memcheck", "racecheck", "synccheck")]


def jax_commands(_out):
    """The calls of the launchers from JAX, and whole steps beside JAX's."""
    tests = module("pytest", "-q", "-ra", "--tb=short", "--confcutdir=tests/gpu", "-k", "cuda", JAX_CALLS)
    return [tests, module("benchmarks.gpu_step_in_jax")]


# fmt: off
PARTS = (  # under ten minutes, if every command takes all of its time
    Part("machine", 30, lambda out: [module("tests.gpu.machine")], lambda facts: "", whole),
    Part("build", 50, build_commands, no_nvcc, last_lines),
    Part("tests", 90, lambda out: [module("tests.gpu.restarts")], no_gpu, lines_of_pytest),
    Part("benchmarks", 140, lambda out: [module("benchmarks.gpu_ops", "--out", out)], no_torch, lines_of_benchmarks),
    Part("jax", 50, jax_commands, no_jax, lines_of_jax),
    Part("checkers", 45, checker_commands, no_checker, lines_of_checkers),
)
# fmt: on


@dataclasses.dataclass(frozen=True)
class Verdict:
    """How a part has ended: "done", "failed" or "skipped", and why or in how many seconds."""

    state: str
    said: str
    earlier: bool = False


def verdict_in(log: pathlib.Path, part: Part) -> Verdict | None:
    """Read how a part has ended from its file; None where it has not."""
    lines = log.read_text(errors="replace").splitlines() if log.exists() else []
    found = _VERDICT.fullmatch(lines[-1]) if lines else None
    return Verdict(found[2], found[3].strip(), True) if found and found[1] == part.name else None


def run_part(part: Part, out: pathlib.Path, facts: dict | None, again: bool = False) -> Verdict:
    """Run a part, unless it is done or cannot run here; keep what it prints in its file, and the verdict at the end."""
    log = out / f"{part.name}.log"
    earlier = verdict_in(log, part)
    if earlier and earlier.state == DONE and not again and part.name != "machine":
        return earlier
    started = time.monotonic()
    with open(log, "w") as file:
        failures = []
        if reason := part.missing(facts) if facts else "":
            verdict = Verdict(SKIPPED, f"({reason})")
        else:
            environment = os.environ | {"PYTHONUNBUFFERED": "1", "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
            for command in part.commands(out):
                failure = run_limited(command, part.seconds, stdout=file, stderr=file, cwd=ROOT, env=environment)
                failures += [f"{' '.join(command[2:])[-60:]}: {failure}"] if failure else []
            took = f"in {time.monotonic() - started:.0f} s"
            verdict = Verdict(FAILED, f"{took} ({'; '.join(failures)})") if failures else Verdict(DONE, took)
        file.seek(0, os.SEEK_END)
        file.write(f"\n== {part.name}: {verdict.state} {verdict.said}\n")
    return verdict


def summary(parts, verdicts, out) -> str:
    """Say how each part has ended, and its key figures."""
    lines = []
    for part in parts:
        verdict = verdicts.get(part.name)
        state = f"{verdict.state} {verdict.said}" if verdict else "not reached"
        earlier = ", earlier: --again runs it again" if verdict and verdict.earlier else ""
        lines.append(f"{part.name:11} {state}{earlier}")
    for part in parts:
        if part.name in verdicts and verdicts[part.name].state != SKIPPED:
            log = (out / f"{part.name}.log").read_text(errors="replace").rpartition("\n== ")[0]
            lines += ["", f"---- {part.name}", *part.figures(log, out)]
    counts = {state: sum(verdict.state == state for verdict in verdicts.values()) for state in (DONE, FAILED, SKIPPED)}
    said = ", ".join(f"{count} {state}" for state, count in counts.items())
    return "\n".join([*lines, "", f"{said} of {len(parts)} parts; the logs are in {out}"]) + "\n"


def run(parts: Sequence[Part], out: pathlib.Path, again: bool = False) -> int:
    """Run the parts; print and write the summary, which is there from the first part on.

    Returns:
        The status to exit with: 1 if a part failed.
    """
    out.mkdir(parents=True, exist_ok=True)
    verdicts, facts = {}, None  # where the machine has not answered, parts run, and fail where they cannot
    for part in parts:
        print(f"{part.name} ...", end=" ", flush=True)
        verdicts[part.name] = run_part(part, out, facts, again)
        print(verdicts[part.name].state, verdicts[part.name].said, flush=True)
        if part.name == "machine" and verdicts[part.name].state == DONE:
            facts = machine.read((out / "machine.log").read_text(errors="replace"))
        (out / "summary.txt").write_text(summary(parts, verdicts, out))
    print("\n" + (out / "summary.txt").read_text(), end="")
    return 1 if any(verdict.state == FAILED for verdict in verdicts.values()) else 0


def main(arguments=None) -> int:
    """Run from the command line."""
    names = [part.name for part in PARTS]
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=pathlib.Path, help="the folder for logs, results and the summary")
    parser.add_argument("--only", nargs="+", choices=names, metavar="PART", help=f"of {', '.join(names)}")
    parser.add_argument("--again", action="store_true", help="run parts that are done, too")
    parser.add_argument("--limit", type=int, metavar="SECONDS", help="for each command, in place of those of the table")
    given = parser.parse_args(arguments)
    wanted = {"machine", *(given.only or names)}  # what is there decides what can run
    parts = [part for part in PARTS if part.name in wanted]
    if given.limit:
        parts = [dataclasses.replace(part, seconds=given.limit) for part in parts]
    return run(parts, given.out.resolve(), given.again)


if __name__ == "__main__":
    sys.exit(main())
