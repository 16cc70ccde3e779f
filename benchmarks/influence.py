"""Influences by EK-FAC beside the exact Gauss-Newton ones: correlation, time and memory, each in a process of its own.

python -m benchmarks.influence           # all; some minutes
python -m benchmarks.influence --quick   # does it work?

Digits of UCI, 20 of them with wrong labels, and 100 to test on. Networks are trained by Adam with a penalty. Exact are
those of `method="examples"`; with 1,500 examples and 234,000 weights there are none. Reported are the correlation of
`on_losses` with the exact ones over all pairs, the median of that for each test example, the correlation of
`self_influence`, how many of the wrong labels are among the first 20 and 40 of it, seconds, and the MB by which the
process grew. `yachts` is the network 6-5-1 of `tests/influence`, trained again without each of 16 examples.
"""

import argparse
import json
import pathlib
import resource
import time

import numpy as np

from benchmarks.processes import trained_alone

RESULTS = pathlib.Path(__file__).parent / "results" / "influence.json"
DATA = pathlib.Path(__file__).resolve().parents[1] / "examples" / "data"
DAMPING = 1e-3
CASES = [
    ("64-100-10", 400, "examples"), ("64-100-10", 400, "ekfac"), ("CNN", 400, "examples"), ("CNN", 400, "ekfac"),
    ("64-512-384-10", 400, "examples"), ("64-512-384-10", 400, "ekfac"), ("64-512-384-10", 1500, "ekfac"),
]  # fmt: skip


def digits(examples):
    """Return training digits, 20 of them mislabelled, which these are, and 100 digits to test on."""
    table, rng = np.loadtxt(DATA / "digits" / "digits.csv.gz", delimiter=",", dtype=int), np.random.default_rng(0)
    table = rng.permutation(table)
    x, y = (table[:, :-1] / 16).astype(np.float32), table[:, -1]
    wrong = rng.choice(examples, 20, replace=False)
    x_test, y_test = x[-100:], y[-100:]
    x, y = x[:examples], y[:examples].copy()
    y[wrong] = (y[wrong] + rng.integers(1, 10, 20)) % 10
    return x, y, wrong, x_test, y_test


def network(name):
    """Return a compiled network whose weights are penalised with λ."""
    import keras

    layers, keep = keras.layers, {}
    for each in ("kernel_regularizer", "bias_regularizer"):
        keep[each] = keras.regularizers.l2(DAMPING / 2)
    if name == "CNN":
        stack = [
            layers.Reshape((8, 8, 1)), layers.Conv2D(16, 3, activation="relu", **keep),
            layers.Conv2D(16, 3, strides=2, activation="relu", **keep), layers.Flatten(), layers.Dense(10, **keep),
        ]  # fmt: skip
    else:
        *hidden, last = map(int, name.split("-")[1:])
        stack = [*(layers.Dense(width, "relu", **keep) for width in hidden), layers.Dense(last, **keep)]
    model = keras.Sequential([keras.Input((64,)), *stack])
    model.compile(keras.optimizers.Adam(1e-3), keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    return model


def run(name, examples, method, epochs):
    """Train, and return the influences and what they took."""
    import keras

    import tfjac

    keras.utils.set_random_seed(0)
    x, y, wrong, x_test, y_test = digits(examples)
    model = network(name)
    model.fit(x, y, batch_size=50, epochs=epochs, verbose=0)
    before, start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.perf_counter()
    found = tfjac.influence(model, x, y, method=method, damping=DAMPING)
    changes = found.on_losses(x_test, y_test)
    first = time.perf_counter() - start
    own = found.self_influence()
    seconds, grown = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    case = {"network": name, "weights": model.count_params(), "examples": examples, "method": method}
    case |= {"on_losses_seconds": first, "seconds": seconds, "MB": grown / 1024, "changes": changes.tolist()}
    found_wrong = [int(np.isin(np.argsort(-own)[:k], wrong).sum()) for k in (20, 40)]
    return case | {"own": own.tolist(), "wrong_in_20_40": found_wrong}


def yachts():
    """Return the correlations with training again, of 40 test examples, for each method."""
    import scipy.stats

    import tfjac
    from tests.influence.test_retraining import DAMPING, trained, yacht
    from tests.precision import floating

    x, y, x_test, y_test = yacht()
    with floating("float64"):
        model, train = trained(x, y)
        asked = {
            "newton": {"removal": "newton"},
            "first_order": {"removal": "first_order"},
            "ekfac": {"method": "ekfac"},
        }
        found = {name: tfjac.influence(model, x, y, damping=DAMPING, **each) for name, each in asked.items()}
        order = np.argsort(-found["newton"].self_influence())
        chosen = order[:: len(order) // 16]
        predicted = {name: each.on_losses(x_test, y_test).mean(axis=0)[chosen] for name, each in found.items()}
        start, before, changes = model.get_weights(), np.mean((model(x_test) - y_test) ** 2), []
        for k in chosen:
            model.set_weights(start)
            train(k)
            changes.append(np.mean((model(x_test) - y_test) ** 2) - before)
    return {name: scipy.stats.pearsonr(each, changes)[0] for name, each in predicted.items()}


def compared(exact, found):
    """Add to the results of EK-FAC their correlations with the exact ones."""
    left, right = (np.array(each["changes"]) for each in (exact, found))
    found["correlation"] = float(np.corrcoef(left.ravel(), right.ravel())[0, 1])
    found["of_a_test_example"] = float(np.median([np.corrcoef(*pair)[0, 1] for pair in zip(left, right)]))
    found["of_self_influence"] = float(np.corrcoef(exact["own"], found["own"])[0, 1])


def main():
    """Run all, print the table, and keep the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--train", nargs=4, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.train:
        name, examples, method, epochs = asked.train
        print(json.dumps(run(name, int(examples), method, int(epochs))))
        return
    rows, epochs = [], 2 if asked.quick else 100
    for name, examples, method in CASES[:4] if asked.quick else CASES:
        case = trained_alone("influence", network=name, examples=examples, method=method, epochs=epochs)
        comparable = rows and (rows[-1]["network"], rows[-1]["examples"]) == (name, examples)
        if comparable and not {"error"} & {*case, *rows[-1]}:
            compared(rows[-1], case)
        rows.append(case)
        print({key: value for key, value in case.items() if key not in ("changes", "own")}, flush=True)
    for row in rows:
        row.pop("changes", None), row.pop("own", None)
    print(again := yachts())
    if not asked.quick:
        RESULTS.write_text(json.dumps({"digits": rows, "yachts": again}, indent=1) + "\n")


if __name__ == "__main__":
    main()
