"""Which minimum each rule of damping, and what goes with it, finds, from near and far starts, beside SciPy and MINPACK.

python -m benchmarks.robustness                       # all problems: minutes
python -m benchmarks.robustness --problem Meyer Wood  # some

NIST's certified problems from both their starts, those of Moré, Garbow & Hillstrom from 1, 10 and 100 times their
start, all in float64 with exact Jacobians and the tightest tolerances. A run has *solved* its problem where its
cost is, to six digits, the lowest that anybody found for that problem, and has *converged* where it says so, if only to
another minimum. The table, and `benchmarks/results/robustness.json`, hold counts, and the Jacobians that were taken.
"""

import argparse
import functools
import json
import os
import pathlib
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import numpy as np
import scipy.optimize
import tensorflow as tf

from tests.optimizers import more_garbow_hillstrom, nist
from tfjac.optimizers import LeastSquaresProblem, TrustRegionDamping

STEPS, TOLERANCE = 1000, 1e-15
RESULTS = pathlib.Path(__file__).parent / "results" / "robustness.json"

OPTIONS = {
    "radius, auto": {"damping": "radius", "scaling": "auto"},
    "radius, auto, geodesic": {"damping": "radius", "scaling": "auto", "acceleration": "geodesic"},
    "radius, more": {"damping": "radius", "scaling": "more"},
    "nielsen, more": {"damping": "nielsen", "scaling": "more"},
    "multiplicative, more": {"damping": "multiplicative", "scaling": "more"},
    "trust_region, more": {"damping": "trust_region", "scaling": "more"},
    "trust_region, more, J alone": {"damping": TrustRegionDamping(residual_curvature=False), "scaling": "more"},
    "trust_region, more, factor 100": {"damping": TrustRegionDamping(factor=100.0), "scaling": "more"},
    "nielsen, more, geodesic": {"damping": "nielsen", "scaling": "more", "acceleration": "geodesic"},
    "trust_region, more, geodesic": {"damping": "trust_region", "scaling": "more", "acceleration": "geodesic"},
    "trust_region, more, window 5": {"damping": "trust_region", "scaling": "more", "window": 5},
}
PEERS = {"SciPy trf": "trf", "SciPy dogbox": "dogbox", "MINPACK lm": "lm"}


@functools.cache
def problems():
    """Return a dict from name to a function of parameters `[p]`, and a dict of starts."""
    found = {}
    for problem in map(nist.load, nist.MODELS):
        starts = {f"NIST start {k + 1}": start for k, start in enumerate(problem.starts)}
        found[problem.name] = problem.residuals, starts
    for name, (function, start) in more_garbow_hillstrom.PROBLEMS.items():
        starts = {f"MGH {factor}x": factor * np.array(start) for factor in (1, 10, 100)}
        found[name] = function, starts
    return found


def ours(function, starts, options):
    """Return (cost, converged, Jacobians) for each start."""
    x = tf.Variable(next(iter(starts.values())))
    tolerances = dict.fromkeys(("ftol", "xtol", "gtol"), TOLERANCE)
    problem = LeastSquaresProblem(lambda: function(x), x, STEPS, **options, **tolerances)

    def solve(start):
        x.assign(start)
        result = problem.solve()
        return float(result.cost), bool(result.success) or result.status.name == "STALLED", int(result.jacobians)

    return {name: solve(start) for name, start in starts.items()}


def theirs(function, starts, method):
    """Return the same for a method of SciPy's."""
    residuals = tf.function(function, autograph=False)

    @tf.function(autograph=False)
    def jacobian(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            r = function(x)
        return tape.jacobian(r, x, experimental_use_pfor=False)

    def solve(start):
        try:
            result = scipy.optimize.least_squares(
                lambda x: residuals(tf.constant(x)).numpy(), start, lambda x: jacobian(tf.constant(x)).numpy(),
                method=method, x_scale="jac", ftol=TOLERANCE, xtol=TOLERANCE, gtol=TOLERANCE, max_nfev=STEPS,
            )  # fmt: skip
        except (ValueError, np.linalg.LinAlgError):  # residuals that are not finite
            return float("inf"), False, 0
        return float(result.cost), bool(result.success), int(result.njev or result.nfev)

    return {name: solve(start) for name, start in starts.items()}


def run(names):
    """Return `{problem: {start: {method: (cost, converged, Jacobians)}}}`."""
    table = {}
    for name in names:
        function, starts = problems()[name]
        methods = {method: ours(function, starts, options) for method, options in OPTIONS.items()}
        methods.update({method: theirs(function, starts, known) for method, known in PEERS.items()})
        table[name] = {start: {method: runs[start] for method, runs in methods.items()} for start in starts}
        print(name, flush=True)
    return table


def solved(cost, best):
    """Return whether a cost is the best one to six digits; below 1e-12 all are zero."""
    return cost <= best * (1 + 1e-6) + 1e-12


def summary(table):
    """Return `{group of starts: {method: [solved, converged, runs, median of Jacobians where solved]}}`."""
    groups = {}
    for starts in table.values():
        best = min(run[0] for methods in starts.values() for run in methods.values())
        for start, methods in starts.items():
            group = groups.setdefault("NIST" if start.startswith("NIST") else start, {})
            for method, (cost, converged, jacobians) in methods.items():
                group.setdefault(method, []).append((solved(cost, best), converged, jacobians))
    return {
        group: {
            method: [
                sum(run[0] for run in runs), sum(run[1] for run in runs), len(runs),
                float(np.median([run[2] for run in runs if run[0]] or [0])),
            ]
            for method, runs in methods.items()
        }
        for group, methods in groups.items()
    }  # fmt: skip


def markdown(groups):
    """Return the summary as a table."""
    lines = ["| | " + " | ".join(groups) + " |", "|---" * (len(groups) + 1) + "|"]
    for method in (*OPTIONS, *PEERS):
        cells = [f"{g[method][0]} of {g[method][2]} ({g[method][3]:.0f})" for g in groups.values()]
        lines.append(f"| {method} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problem", nargs="+", choices=list(problems()), default=list(problems()))
    names, began = parser.parse_args().problem, time.time()
    table = run(names)
    groups = summary(table)
    print(markdown(groups))
    for name, starts in table.items():
        best = min(run[0] for methods in starts.values() for run in methods.values())
        for start, methods in starts.items():
            missed = [f"{method} {run[0]:.3g}" for method, run in methods.items() if not solved(run[0], best)]
            print(f"{name}, {start}: best {best:.6g}; not by {', '.join(missed) or 'none'}")
    if len(names) == len(problems()):
        RESULTS.write_text(json.dumps({"seconds": time.time() - began, "summary": groups, "runs": table}, indent=1))


if __name__ == "__main__":
    main()
