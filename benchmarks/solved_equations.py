"""Networks that solve differential equations: error against time, by tfjac's defaults, SciPy's L-BFGS and Adam.

python -m benchmarks.solved_equations                                # all: ten minutes
python -m benchmarks.solved_equations --equation heat --seconds 30
python -m benchmarks.solved_equations --quick                        # does it work?

`tfjac.least_squares(residuals, variables)` has so many seconds, the others have twice as many. All start from the same
weights in float64, and nothing is tuned. A first call is made before, with one step; the clock stands still while the
error is found. The curves are kept in `benchmarks/results/solved_equations.json` and `.png`.
"""

import argparse
import bisect
import os
import pathlib
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import matplotlib.pyplot as plt

from benchmarks import equations, report
from benchmarks.floors import matmul_rate
from benchmarks.physics import training

PROBLEMS = {
    "poisson": (lambda: equations.poisson(2), (64,)),
    "poisson, 9,873 weights": (lambda: equations.poisson(2), (64, 64, 48, 48)),
    "poisson, five dimensions": (lambda: equations.poisson(5), (64,)),
    "helmholtz": (equations.helmholtz, (32, 32)),
    "heat": (equations.heat, (64,)),
    "burgers": (equations.burgers, (20, 20, 20)),
    "allen-cahn": (equations.allen_cahn, (20, 20, 20)),
    "burgers, unknown coefficients": (equations.burgers_inverse, (20, 20)),
}
"""What makes an `Equation`, and the widths of the hidden layers."""

PATIENCE = 2.0
"""The others may take so many times as long."""


def solve(name: str, seconds: float, widths: tuple[int, ...] | None = None) -> dict:
    """Return `{solver: {"curve": [(seconds, error), …]}}`; of tfjac also the first call and how it ended."""
    make, usual = PROBLEMS[name]
    case = training(make(), *(widths or usual))
    began = time.perf_counter()
    case.least_squares(max_steps=1)()
    first = time.perf_counter() - began
    result = case.least_squares(seconds)()
    ended = {"first_call": first, "steps": int(result.steps), "status": result.status.name}
    runs = {"tfjac": {"curve": case.curve} | ended}
    for solver, method in (("SciPy L-BFGS", case.lbfgs), ("Adam", case.adam)):
        method(seconds=0.0)()
        method(seconds=PATIENCE * runs["tfjac"]["curve"][-1][0])()
        runs[solver] = {"curve": case.curve}
    return runs


def unit() -> float:
    """Return the seconds that a product of two matrices of 1,500² takes in float64."""
    return 2 * 1500**3 / matmul_rate("float64", 1500)


def seconds_to(curve: list, error: float) -> float | None:
    """Return when a curve was at an error, or below, for the first time; None for never."""
    return next((seconds for seconds, found in curve if found <= error), None)


def error_at(curve: list, seconds: float) -> float:
    """Return the last error that was found by some time; the first one where that was later."""
    return curve[max(bisect.bisect(curve, (seconds, float("inf"))) - 1, 0)][1]


def thinned(curve: list) -> list:
    """Return rows of a curve, (seconds, error), of which each is a fiftieth later than the one before, and the last."""
    kept = curve[:1]
    for row in curve[1:]:
        if row[0] >= 1.02 * kept[-1][0] or row is curve[-1]:
            kept.append(row)
    return [[float(f"{number:.4g}") for number in row] for row in kept]


def markdown(table: dict) -> str:
    """Return a table of what each had reached when tfjac ended, and later."""
    titles = ("equation", "first call, s", "steps", "s", "error", "to L-BFGS's best, s", "L-BFGS then, later", "Adam")
    lines = ["| " + " | ".join(titles) + " |", "|---" * len(titles) + "|"]
    for name, runs in table.items():
        ours, curve = runs["tfjac"], runs["tfjac"]["curve"]
        end, error = curve[-1]
        passed = seconds_to(curve, min(found for _, found in runs["SciPy L-BFGS"]["curve"]))
        others = [
            f"{error_at(runs[solver]['curve'], end):.1e}, {runs[solver]['curve'][-1][1]:.1e}"
            for solver in ("SciPy L-BFGS", "Adam")
        ]
        passed = "never" if passed is None else f"{passed:.1f}"
        numbers = f"{ours['first_call']:.1f} | {ours['steps']} | {end:.1f} | {error:.1e} | {passed}"
        lines.append(f"| {name} | {numbers} | {' | '.join(others)} |")
    return "\n".join(lines)


def draw(table: dict, path: pathlib.Path) -> None:
    """Draw the error against the seconds, a panel for each equation."""
    figure, axes = plt.subplots((len(table) + 3) // 4, 4, figsize=(15, 7), layout="constrained", squeeze=False)
    for panel, (name, runs) in zip(axes.flat, table.items()):
        for solver, run in runs.items():
            panel.loglog(*zip(*run["curve"]), label=solver)
        panel.set_title(name, fontsize=10)
        panel.grid(color="#e2e8f0")
    for panel in axes.flat[len(table) :]:
        panel.axis("off")
    axes[0, 0].legend(frameon=False)
    figure.supxlabel("seconds, after the first call")
    figure.supylabel("error of the solution, or of the coefficients")
    figure.savefig(path, dpi=110)
    plt.close(figure)


def main(arguments: list[str] | None = None) -> int:
    """Solve what was asked for, print the table, and keep the results where all were."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--equation", nargs="+", choices=PROBLEMS, default=list(PROBLEMS))
    parser.add_argument("--seconds", type=float, default=20.0, help="that tfjac may take (default 20)")
    parser.add_argument("--quick", action="store_true", help="a moment for each, small networks; nothing is kept")
    asked = parser.parse_args(arguments)
    seconds, widths = (0.1, (8,)) if asked.quick else (asked.seconds, None)
    table, units = {}, {}
    for name in asked.equation:
        units[name] = unit()
        table[name] = solve(name, seconds, widths)
        print(f"{name}: {table[name]['tfjac']['status']}, a unit was {1e3 * units[name]:.0f} ms", flush=True)
    print(markdown(table))
    if not asked.quick and asked.equation == list(PROBLEMS):
        runs = [{"equation": name, "unit_seconds": units[name], **runs} for name, runs in table.items()]
        for run in runs:
            for solver in table[run["equation"]]:
                run[solver] = run[solver] | {"curve": thinned(run[solver]["curve"])}
        path = report.save_runs("solved_equations", "Error against time of networks that solve equations.", runs)
        draw(table, path.with_suffix(".png"))
        print("written:", path)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
