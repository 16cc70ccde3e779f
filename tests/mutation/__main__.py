"""Break every rule on purpose, in many small ways, and see that a case goes red: `make mutate`.

    python -m tests.mutation [--minutes=60] [--cases=12] [--like=REGEX] [module ...]

Each mutant of a module is put in the place of the code that runs, and the cases that run the changed lines are checked
until one fails. What survives is compared with `survivors.txt`, which gives the reasons; the exit status is 1 where a
survivor is not listed there, or one that is listed was caught.
"""

import argparse
import pathlib
import re
import sys
import time
import warnings

import tensorflow as tf

import tfjac
from tests.mutation import survivors
from tests.mutation.mutants import mutants
from tests.mutation.running import Failure, fails, lines_run, put_in_place
from tests.rules.cases import APART, MIXING
from tests.rules.running import check, check_mixes, expected

ROOT = pathlib.Path(tfjac.__file__).parent
MODULES = [
    path.relative_to(ROOT).as_posix()
    for place in ("graph/example_rules", "jacobians/factors/rules")
    for path in sorted((ROOT / place).glob("*.py"))
    if path.name not in ("__init__.py", "registry.py", "fallback.py")
] + ["graph/row_rules.py"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument(
        "modules", nargs="*", default=MODULES, help="paths within tfjac/; all modules of rules by default"
    )
    parser.add_argument("--minutes", type=float, default=120, help="stop after so long")
    parser.add_argument("--cases", type=int, default=12, help="how many cases, quickest first, a mutant has to survive")
    parser.add_argument("--like", default="", help="only cases whose names match this regular expression")
    arguments = parser.parse_args()
    tf.get_logger().setLevel("ERROR")
    warnings.simplefilter("ignore")
    end = time.monotonic() + 60 * arguments.minutes
    unmutated = _unmutated([ROOT / module for module in arguments.modules], arguments.like)
    found, skipped = {}, 0
    for module in arguments.modules:
        found[module], out_of_time = _survivors_of(module, unmutated, arguments.cases, end)
        skipped += out_of_time
    print(f"{skipped} mutants were left out for want of time." if skipped else "All mutants were tried.")
    sys.exit(survivors.compare(found, complete=not skipped))


def _unmutated(paths, pattern):
    """For each case how long it takes, its check, and the lines of `paths` that it runs; the quickest first."""
    results = []
    for run, cases in ((check, APART), (check_mixes, MIXING)):
        for case in (case for case in cases if re.search(pattern, case.name)):
            if run is check:
                expected(case)  # once is enough
            start = time.monotonic()
            lines = lines_run(paths, lambda: run(case))  # noqa: B023
            results.append((time.monotonic() - start, lambda run=run, case=case: run(case), lines))
    print(f"{len(results)} cases pass without any change.", flush=True)
    return sorted(results, key=lambda result: result[0])


def _survivors_of(module, unmutated, most_cases, end):
    """The mutants of a module that no case caught, and how many there was no time for."""
    path, start, lived = ROOT / module, time.monotonic(), []
    every = list(mutants(path.read_text(), str(path)))
    tried = never_run = 0
    for mutant in every:
        if time.monotonic() > end:
            break
        tried += 1
        checks = [run for _, run, lines in unmutated if any((str(path), line) in lines for line in mutant.lines)]
        never_run += not checks
        try:
            with put_in_place(str(path), mutant.code):
                caught = any(fails(run) for run in checks[:most_cases])
        except Failure:
            continue
        if not caught:
            lived.append(mutant)
            print(
                f"  lives: {module} {mutant.lines.start} {mutant.function}: {mutant}" + " (not run)" * (not checks),
                flush=True,
            )
    minutes = (time.monotonic() - start) / 60
    print(f"{module}: {tried} of {len(every)} mutants tried, {len(lived)} live, {minutes:.1f} minutes", flush=True)
    return lived, len(every) - tried


main()
