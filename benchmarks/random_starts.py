"""Over two hundred minimisations from random starts on hard problems: does each end as it should?

python -m benchmarks.random_starts                       # all problems: minutes
python -m benchmarks.random_starts --problem Meyer Wood  # some

NIST's ten certified problems and those of Moré, Garbow & Hillstrom, free, within bounds, and with Cauchy's loss, from
1, 10 and 100 times as far away as the standard start is from zero. Each run must end without an exception and with
finite variables, within the bounds, without a step that raised the cost, and with a status, a cost and a gradient that
agree with TensorFlow's own. The table, and `benchmarks/results/random_starts.json`, hold how often each status was met.
"""

import argparse
import collections
import functools
import json
import os
import pathlib
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import numpy as np

from tests.optimizers import more_garbow_hillstrom, nist
from tests.optimizers.random_starts import KINDS, RandomStarts

SPREADS = (1.0, 10.0, 100.0)
RESULTS = pathlib.Path(__file__).parent / "results" / "random_starts.json"


@functools.cache
def problems():
    """Return a dict from name to a function of parameters `[p]`, and a start."""
    certified = {name: nist.load(name) for name in nist.MODELS}
    found = {f"NIST {name}": (problem.residuals, problem.starts[0]) for name, problem in certified.items()}
    return {**found, **more_garbow_hillstrom.PROBLEMS}


def run(name, number):
    """Return `{kind: [status or what is wrong, for each spread]}` for a problem, whose number seeds the starts."""
    function, start = problems()[name]
    return {kind: _outcomes(function, start, kind, np.random.default_rng(number)) for kind in KINDS}


def _outcomes(function, start, kind, rng):
    starts, outcomes = RandomStarts(function, start, kind), []
    for spread in SPREADS:
        try:
            outcomes.append(starts.run(spread, rng).status.name)
        except Exception as error:  # what it is, is the result
            outcomes.append(f"WRONG: {type(error).__name__}: {' '.join(str(error).split())[:200]}")
    return outcomes


def counts(table):
    """Return `{kind: {status: how often}}`; whatever is wrong counts as one status."""
    found = {kind: collections.Counter() for kind in KINDS}
    for kinds in table.values():
        for kind, outcomes in kinds.items():
            found[kind].update("WRONG" if each.startswith("WRONG") else each for each in outcomes)
    return {kind: dict(sorted(statuses.items())) for kind, statuses in found.items()}


def markdown(summary):
    """Return the counts as a table."""
    statuses = sorted(set().union(*summary.values()))
    rows = [["", *statuses], ["---"] * (len(statuses) + 1)]
    rows += [[kind, *(str(found.get(status, 0)) for status in statuses)] for kind, found in summary.items()]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--problem", nargs="+", choices=list(problems()), default=list(problems()))
    names, began, table = parser.parse_args().problem, time.time(), {}
    for name in names:
        table[name] = run(name, list(problems()).index(name))
        print(name, table[name], flush=True)
    summary = counts(table)
    print(markdown(summary))
    number = sum(sum(statuses.values()) for statuses in summary.values())
    print(f"{number} runs, {sum(statuses.get('WRONG', 0) for statuses in summary.values())} of them wrong")
    if len(names) == len(problems()):
        result = {"seconds": time.time() - began, "summary": summary, "runs": table}
        RESULTS.write_text(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
