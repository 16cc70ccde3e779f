"""Published problems by each rule of damping and scaling, beside GTSAM: cost, steps and time.

python -m benchmarks.real                                       # all, by the default alone
python -m benchmarks.real --rules --problem ladybug-30          # every rule
python -m benchmarks.real --peers PEERS/bin/python              # an environment with GTSAM: pip install gtsam numpy

Each run takes at most 100 steps at the default tolerances, in float64. It is called twice: the first call traces. The
results are kept in `benchmarks/results/real.json`.
"""

import argparse
import json
import os
import pathlib
import subprocess
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import tensorflow as tf

import tfjac
from benchmarks.real_problems import PROBLEMS

RESULTS = pathlib.Path(__file__).parent / "results" / "real.json"
STEPS = 100
RULES = {
    "default": {},
    "default, straight and monotone": {"acceleration": None, "window": 1},
    "radius, identity": {"damping": "radius", "scaling": "identity"},
    "radius, marquardt": {"damping": "radius", "scaling": "marquardt"},
    "radius, more": {"damping": "radius", "scaling": "more"},
    "nielsen, identity": {"damping": "nielsen", "scaling": "identity"},
    "nielsen, marquardt": {"damping": "nielsen", "scaling": "marquardt"},
    "nielsen, more": {"damping": "nielsen", "scaling": "more"},
    "trust_region, more": {"damping": "trust_region", "scaling": "more"},
}


def ours(name, rule):
    """Return the `dict` of a problem that is solved by a rule, from its start, twice."""
    problem = PROBLEMS[name]()
    starts = [tf.identity(variable) for variable in problem.variables]
    solver = tfjac.LeastSquaresProblem(
        problem.residuals, problem.variables, max_steps=STEPS, **problem.options, **RULES[rule]
    )
    seconds = []
    for _ in range(2):
        for variable, start in zip(problem.variables, starts):
            variable.assign(start)
        began = time.perf_counter()
        result = solver.solve()
        seconds.append(time.perf_counter() - began)
    lowest = float(result.cost)
    near = next(step + 1 for step, cost in enumerate(result.history.cost) if cost <= 1.0001 * lowest)
    return {
        "cost": lowest, "steps": int(result.steps), "near": near, "evaluations": int(result.evaluations),
        "status": result.status.name, "first": seconds[0], "seconds": seconds[1],
    }  # fmt: skip


def peers(python):
    """Return `{problem: {peer: [cost, iterations, seconds, cost at the start]}}`, by another Python."""
    script = pathlib.Path(__file__).parent / "real_peers.py"
    lines = subprocess.run([python, script], check=True, capture_output=True, text=True, timeout=600).stdout
    found = {}
    for line in lines.splitlines():
        if line.startswith("{"):
            found.update(json.loads(line))
    return found


def markdown(table):
    """Return `{problem: {rule or peer: run}}` as a table."""
    lines = ["| problem | by | cost | steps | to within 10⁻⁴ of it | s | first call, s | |", "|---" * 8 + "|"]
    for problem, runs in table.items():
        for rule, run in runs.items():
            if isinstance(run, list):
                cost, steps, seconds, _ = run
                lines.append(f"| {problem} | {rule} | {cost:.6g} | {steps:.0f} | | {seconds:.1f} | | |")
            else:
                numbers = f"{run['cost']:.6g} | {run['steps']} | {run['near']} | {run['seconds']:.1f}"
                lines.append(f"| {problem} | {rule} | {numbers} | {run['first']:.1f} | {run['status']} |")
    return "\n".join(lines)


def main():
    """Run what was asked for, print the table, and keep the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problem", nargs="+", choices=PROBLEMS, default=list(PROBLEMS))
    parser.add_argument("--rules", action="store_true", help="every rule of damping and scaling")
    parser.add_argument("--peers", metavar="PYTHON", help="the Python of an environment with GTSAM")
    asked = parser.parse_args()
    table = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    for name in asked.problem:
        for rule in RULES if asked.rules else ["default"]:
            table.setdefault(name, {})[rule] = ours(name, rule)
            print(f"{name}, {rule}: {table[name][rule]}", flush=True)
            RESULTS.write_text(json.dumps(table, indent=1) + "\n")
    for name, runs in (peers(asked.peers) if asked.peers else {}).items():
        table.setdefault(name, {}).update(runs)
    RESULTS.write_text(json.dumps(table, indent=1) + "\n")
    print(markdown(table))


if __name__ == "__main__":
    main()
