"""Break every rule on purpose, in many small ways, and see that a case goes red: `make mutate`.

    python -m tests.mutation [--minutes=60] [--cases=40] [--sample=N] [--again=FILE] [--listed]
        [--like=REGEX] [module ...]

Each mutant of a module is put in the place of the code that runs, and the cases that run the changed lines are checked
until one fails. What survives is compared with `survivors.txt`, which gives the reasons; the exit status is 1 where a
survivor is not listed there, or one that is listed was caught.
"""

import argparse
import collections
import pathlib
import random
import sys
import time
import warnings

import tensorflow as tf

import tfjac
from tests.mutation import survivors
from tests.mutation.checks import checks
from tests.mutation.mutants import mutants
from tests.mutation.running import Failure, fails, lines_run, memory_limited, put_in_place

ROOT = pathlib.Path(tfjac.__file__).parent
MODULES = [
    path.relative_to(ROOT).as_posix()
    for place in ("graph/op_facts", "jacobians/factors/rules")
    for path in sorted((ROOT / place).glob("*.py"))
    if path.name != "__init__.py"
] + [
    "graph/examples/example_rules.py",
    "graph/examples/index_maps.py",
    "graph/reading/symbolic_sizes.py",
    "graph/examples/row_rules.py",
]
MODULES += [
    f"jacobians/factors/{name}.py" for name in ("gather_factor", "slices", "sparse_rows", "tables", "weight_paths")
]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument(
        "modules", nargs="*", default=MODULES, help="paths within tfjac/; all modules of rules by default"
    )
    parser.add_argument("--minutes", type=float, default=120, help="stop after so long")
    parser.add_argument("--cases", type=int, default=40, help="how many cases a mutant has to survive")
    parser.add_argument("--sample", type=int, help="so many mutants of each module, drawn at random; all by default")
    parser.add_argument("--seed", type=int, default=0, help="of the sample")
    parser.add_argument("--again", help="try those that live by what an earlier run printed into this file, no others")
    parser.add_argument("--listed", action="store_true", help="try those that survivors.txt lists, no others")
    parser.add_argument("--like", default="", help="only cases and tests whose names match this regular expression")
    arguments = parser.parse_args()
    tf.get_logger().setLevel("ERROR")
    warnings.simplefilter("ignore")
    end = time.monotonic() + 60 * arguments.minutes
    unmutated = _unmutated([ROOT / module for module in arguments.modules], arguments.like)
    found, existing, wholly_tried, left_out = {}, set(), set(), 0
    for module in arguments.modules:
        every = list(mutants((ROOT / module).read_text(), str(ROOT / module)))
        chosen = _chosen(every, module, arguments)
        found[module], tried = _survivors_of(module, chosen, unmutated, arguments.cases, end)
        left = [mutant for mutant in every if not any(mutant is other for other in chosen[:tried])]
        wholly_tried |= survivors.places(module, chosen[:tried]) - survivors.places(module, left)
        existing |= survivors.places(module, every)
        left_out += len(left)
        print(f"{module}: {tried} of {len(every)} mutants tried, {len(found[module])} live", flush=True)
    print(f"{left_out} mutants were left out." if left_out else "All mutants were tried.")
    sys.exit(survivors.compare(found, existing, wholly_tried))


def _unmutated(paths, pattern):
    """For each check how long it takes, its kind, itself, and the lines of `paths` that it runs; the quickest first."""
    results = []
    for kind, run in checks(pattern):
        start = time.monotonic()
        lines = lines_run(paths, run)
        results.append((time.monotonic() - start, kind, run, lines))
    print(f"{len(results)} cases and tests pass without any change.", flush=True)
    return sorted(results, key=lambda result: result[0])


def _chosen(every, module, arguments):
    """Those of a module's mutants that are to be tried."""
    if arguments.again:
        lived = set(pathlib.Path(arguments.again).read_text().splitlines())
        every = [mutant for mutant in every if lived & {_said(module, mutant, run) for run in (True, False)}]
    if arguments.listed:
        every = [mutant for mutant in every if survivors.places(module, [mutant]) <= survivors.known()]
    if arguments.sample is None or arguments.sample >= len(every):
        return every
    return random.Random(arguments.seed).sample(every, arguments.sample)


def _said(module, mutant, run):
    return f"  lives: {module} {mutant.lines.start} {mutant.function}: {mutant}" + " (not run)" * (not run)


def _most_telling_first(path, unmutated):
    """Pairs of a check and the lines of one file that it runs: first one for each set of lines, the quickest."""
    first, others, seen = [], [], set()
    for _, kind, run, lines in unmutated:
        own = frozenset(line for name, line in lines if name == path)
        (others if own in seen else first).append((kind, run, own))
        seen.add(own)
    return [(run, own) for _, run, own in _in_turn(first) + _in_turn(others)]


def _in_turn(some):
    """Those of each kind in turn: quick cases that only analyse must not hide the tests that compute numbers."""
    seen, places = collections.Counter(), []
    for kind, *_ in some:
        places.append(seen[kind])
        seen[kind] += 1
    return [each for _, each in sorted(zip(places, some), key=lambda placed: placed[0])]


def _survivors_of(module, chosen, unmutated, most_cases, end):
    """Those of a module's mutants that no case caught, and how many there was time for."""
    path, lived = str(ROOT / module), []
    unmutated = _most_telling_first(path, unmutated)
    for tried, mutant in enumerate(chosen):
        if time.monotonic() > end:
            return lived, tried
        checks = [run for run, lines in unmutated if not lines.isdisjoint(mutant.lines)]
        try:
            with put_in_place(path, mutant.code), memory_limited():
                caught = any(fails(run) for run in checks[:most_cases])
        except Failure:
            continue
        if not caught:
            lived.append(mutant)
            print(_said(module, mutant, checks), flush=True)
    return lived, len(chosen)


main()
