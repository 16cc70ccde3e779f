"""Plain `fit(x, y, batch_size=…)` beside Adam, AdamW, SGD and L-BFGS, at equal CPU time.

python -m benchmarks.any_batch                                                        # everything: hours
python -m benchmarks.any_batch --table yacht concrete --batch 32 --network small --seed 0 --epochs 20  # a minute
python -m benchmarks.any_batch --method tfjac --merge     # tfjac alone again; all others as they were kept
python -m benchmarks.any_batch --show                     # the table of what was kept

A network is trained by `model.compile(optimizer, loss); model.fit(x, y, batch_size=batch)`, all from one start, with
default options but for the rates of Adam, AdamW and SGD. The CPU time of so many epochs of Adam is what everybody is
given. It is that of the process, with one thread. The first epoch, which traces and compiles, counts as the mean of the
others. After each epoch the losses of all of the training part and of the test part, a fifth of the table, are noted;
that is not timed. Of L-BFGS (scikit-learn's MLP, all examples as one batch), each point of the curve is a training from
the start, with its time.

The table has ratios to the best of Adam at three rates, chosen apart for each number: the training loss at the end, the
lowest test loss over epochs, as by early stopping, and for classes the lowest share of errors. They are geometric means
over seeds. Below 1 is better than Adam. The last column says which aims tfjac misses: a training loss no more than
Adam's, a test loss and errors no more than 5 % above, never worse than the mean of the targets. Networks are `small`,
16-8, with some 300 weights, and `large`, 50-50, with some 3,000. Targets have mean zero and deviation one. Tables such
as "airfoil, targets as they are" have their own units, and losses are shares of the variance there.
"""

import argparse
import itertools
import json
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import matplotlib.pyplot as plt
import numpy as np
import tensorflow as tf

from benchmarks import report
from benchmarks.equal_time import ADAMS, L_BFGS, METHODS, NETWORKS, train, train_by_l_bfgs
from benchmarks.tables import AS_THEY_ARE, BY_SCIKIT_LEARN, HAS_SCIKIT_LEARN, TABLES, split

COLUMNS = {"training": "training loss", "test": "test loss", "errors": "test errors"}
WORSE = {"training": 1.0, "test": 1.05, "errors": 1.05}
"""Ratios to Adam's best beyond which tfjac misses its aim."""

KEPT = report.RESULTS / "any_batch.json"


def compare(case, methods, epochs, kept):
    """Return `{method: run}` of one case; the budget is that of the first Adam, which runs where it was not kept.

    Args:
        case: table, batch, network, seed.
        methods: those to train.
        epochs: of Adam, what the budget is.
        kept: `{method: run}`, or empty.
    """
    table, batch, hidden, seed = case
    data, runs = split(table, seed), dict(kept)
    first = ADAMS[0]
    if first in methods or first not in runs:
        runs[first] = train(first, data, batch, NETWORKS[hidden], seed, np.inf, epochs)
    budget = runs[first]["curve"][-1][0]
    for method in methods:
        if method == L_BFGS:
            runs[method] = train_by_l_bfgs(data, NETWORKS[hidden], seed, budget)
        elif method != first:
            runs[method] = train(method, data, batch, NETWORKS[hidden], seed, budget, 100 * epochs)
    return runs


def reached(run):
    """Return the training loss at the end, the lowest test loss and the lowest share of errors, as a dict."""
    curve = run["curve"]
    found = {"training": curve[-1][1], "test": min(point[2] for point in curve)}
    if curve[0][3] is not None:
        found["errors"] = min(point[3] for point in curve)
    return found


def ratios(cases):
    """Return `{method: {column: ratio to the best of Adam}}`: geometric means over the seeds of a case.

    Where one of both has no errors at all, there is no ratio of them. The rates of Adam themselves are left out.

    Args:
        cases: list of `{method: run}`, one of each seed.
    """
    bests, found = [best_of_adam(runs) for runs in cases], {}
    for method in METHODS:
        if method in ADAMS or not all(method in runs for runs in cases):
            continue
        pairs = [(reached(runs[method]), best) for runs, best in zip(cases, bests)]
        found[method] = {
            column: float(np.exp(np.mean([np.log(got[column] / best[column]) for got, best in pairs])))
            for column in bests[0]
            if all(got[column] > 0 < best[column] for got, best in pairs)
        }
    return found


def best_of_adam(runs):
    """Return what `reached` does, of the best rate of Adam for each column."""
    adams = [reached(runs[name]) for name in ADAMS if name in runs]
    return {column: min(adam[column] for adam in adams) for column in adams[0]}


def missed(cases):
    """Return the words for the aims that tfjac misses in a case."""
    found = ratios(cases).get("tfjac", {})
    words = [COLUMNS[column] for column in found if not found[column] <= WORSE[column]]
    regression = "errors" not in best_of_adam(cases[0])
    ours = [reached(runs["tfjac"]) for runs in cases if "tfjac" in runs]
    if regression and any(max(got["training"], got["test"]) > 1 for got in ours):
        words.append("worse than the mean")
    return ", ".join(words)


def grouped(results):
    """Return `{(table, batch, network): [{method: run} of each seed]}`, by network, batch and table."""
    groups = {}
    for key, runs in results.items():
        groups.setdefault(tuple(key.rsplit(", ", 3)[:3]), []).append(runs)
    return {case: groups[case] for case in sorted(groups, key=_place)}


def _place(case):
    table, batch, hidden = case
    return list(NETWORKS).index(hidden), int(batch), (*TABLES, *AS_THEY_ARE).index(table)


def markdown(results):
    """Return the table: of each case Adam's best, the ratios of all others to it, and the aims that are missed."""
    others = [method for method in METHODS if method not in ADAMS and any(method in runs for runs in results.values())]
    heads = ["table", "batch", "weights", "seeds", "epochs of Adam", "its best", *others]
    heads += ["ms a step of Adam", "of tfjac / Adam", "missed"]
    lines = ["| " + " | ".join(heads) + " |", "|" + " --- |" * len(heads)]
    for (table, batch, _), cases in grouped(results).items():
        bests, found = [best_of_adam(runs) for runs in cases], ratios(cases)
        best = " / ".join(f"{np.mean([each[column] for each in bests]):.2g}" for column in bests[0])
        cells = [_cell(found[method], bests[0]) if method in found else "" for method in others]
        first = cases[0][ADAMS[0]]
        steps = [runs["tfjac"]["step_ms"] / _step_of_adam(runs) for runs in cases if "tfjac" in runs]
        times = [
            f"{np.median([_step_of_adam(runs) for runs in cases]):.2f}",
            f"{np.median(steps):.2f}" if steps else "",
        ]
        row = [table, batch, f"{first['weights']:,}", len(cases), first["epochs"], best, *cells, *times, missed(cases)]
        lines.append("| " + " | ".join(map(str, row)) + " |")
    return "\n".join(lines)


def _cell(found, columns):
    return " / ".join(_ratio(found[column]) if column in found else "–" for column in columns)


def _ratio(number):
    digits = ".0f" if number >= 10 else ".2f" if number >= 0.1 else ".1g" if number >= 1e-3 else ".0e"
    return format(number, digits)


def _step_of_adam(runs):
    """Return the milliseconds of a step: the median over the rates."""
    return float(np.median([runs[name]["step_ms"] for name in ADAMS if name in runs]))


def draw(results, folder=report.RESULTS):
    """Draw training and test loss of the first seed against CPU seconds, one row of panels for each case."""
    groups = grouped(results)
    figure, axes = plt.subplots(
        len(groups), 2, figsize=(9, 2.3 * len(groups)), squeeze=False, layout="constrained", sharex="row"
    )
    for row, (case, cases) in zip(axes, groups.items()):
        for axis, column, what in zip(row, (1, 2), COLUMNS.values()):
            for method, color in zip(METHODS, plt.colormaps["tab10"].colors):
                points = np.array([point[:3] for point in cases[0].get(method, {"curve": []})["curve"]])
                if len(points):
                    axis.plot(points[:, 0], points[:, column], color=color, label=method, lw=1 + (method == "tfjac"))
            axis.set_yscale("log")
            axis.set_title(f"{', '.join(case)}: {what}", fontsize=8, loc="left")
            axis.tick_params(labelsize=7)
    axes[0, 0].legend(fontsize=6, frameon=False)
    axes[-1, 0].set_xlabel("CPU seconds", fontsize=8)
    path = folder / "any_batch.png"
    figure.savefig(path, dpi=50, metadata={"Title": __doc__.splitlines()[0]})
    plt.close(figure)
    return path


def save(results, folder=report.RESULTS):
    """Write the results, with four digits a number and at most a hundred points a curve."""
    thin = {
        key: {
            method: {**run, "curve": [_rounded(point) for point in _thinned(run["curve"])]}
            for method, run in runs.items()
        }
        for key, runs in results.items()
    }
    data = {"question": __doc__.splitlines()[0], "environment": report.environment(None), "runs": thin}
    path = folder / "any_batch.json"
    path.write_text(json.dumps(data, separators=(",", ":")).replace('},"', '},\n"') + "\n")
    return path


def _rounded(point):
    return [number if number is None else float(f"{number:.4g}") for number in point]


def _thinned(curve, most=100):
    """Return at most so many points of a curve: the last, the best on the test part, and some of the others."""
    chosen = {*np.linspace(0, len(curve) - 1, most).astype(int), len(curve) - 1}
    chosen.add(min(range(len(curve)), key=lambda k: curve[k][2]))
    chosen.add(min(range(len(curve)), key=lambda k: curve[k][3] or 0))
    return [curve[k] for k in sorted(chosen)]


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--table", nargs="+", choices=[*TABLES, *AS_THEY_ARE], default=list(TABLES))
    parser.add_argument("--batch", nargs="+", type=int, default=[32, 256])
    parser.add_argument("--network", nargs="+", choices=NETWORKS, default=list(NETWORKS))
    parser.add_argument("--method", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--seed", nargs="+", type=int, default=[0, 1, 2], help="of splits and starts")
    parser.add_argument("--epochs", type=int, help="of Adam, the budget (default: 40; 200 with batches above 100)")
    parser.add_argument("--merge", action="store_true", help="add to the results that were kept")
    parser.add_argument("--show", action="store_true", help="print the table of the results that were kept, and stop")
    parser.add_argument("--throw-away", action="store_true", help="keep no results")
    return parser.parse_args()


def main():
    asked = parse()
    results = json.loads(KEPT.read_text())["runs"] if (asked.merge or asked.show) and KEPT.exists() else {}
    if asked.show:
        print(markdown(results))
        return
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    for case in itertools.product(asked.network, asked.batch, asked.table, asked.seed):
        hidden, batch, table, seed = case
        if table.split(", ")[0] in BY_SCIKIT_LEARN and not HAS_SCIKIT_LEARN:
            print(f"{table}: left out, scikit-learn is not installed", flush=True)
            continue
        epochs = asked.epochs or (40 if batch <= 100 else 200)
        methods = [method for method in asked.method if method != L_BFGS or HAS_SCIKIT_LEARN]
        key = f"{table}, {batch}, {hidden}, {seed}"
        results[key] = compare((table, batch, hidden, seed), methods, epochs, results.get(key, {}))
        print(markdown({key: results[key]}).splitlines()[-1], flush=True)
        if not asked.throw_away:
            save(results)
    print(markdown(results))
    if not asked.throw_away:
        print(save(results), draw(results))


if __name__ == "__main__":
    main()
