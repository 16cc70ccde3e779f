"""Is the full batch the right choice of `tfjac.fit`? It, mini-batches before it, after it, and Adam, from one start.

python -m benchmarks.fit_choice                                   # everything: an hour
python -m benchmarks.fit_choice --table energy --seed 0           # a minute
python -m benchmarks.fit_choice --show                            # the table of what was kept

A network of 16-8 tanh units, `small`, or 50-50, `large`, is trained on four fifths of a table. `tfjac.fit` ends by
itself. `mini-batches, full` begins with ten epochs of `LevenbergMarquardt()` on batches of 32, and goes on with
`tfjac.fit`. `full, mini-batches` begins again from the start after `tfjac.fit`, with up to 40 epochs of 32, and keeps
the lower validation loss. Adam takes 200 epochs of 32. With validation data, 15 % of what is trained on, all of them
hand back the weights of the lowest validation loss. CPU seconds are those of one thread, with tracing.
"""

import argparse
import itertools
import json
import os
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import keras
import numpy as np
import tensorflow as tf

import tfjac
from benchmarks import report
from benchmarks.equal_time import NETWORKS, figures, network
from benchmarks.tables import BY_SCIKIT_LEARN, HAS_SCIKIT_LEARN, TABLES, split

SHARE, PATIENCE = 0.15, 10
KEPT = report.RESULTS / "fit_choice.json"


def whole(model, loss, data, validation):
    """Train by `tfjac.fit`."""
    return tfjac.fit(model, *data, loss=loss, validation_data=validation)


def mini_batches(model, loss, data, validation, optimizer=tfjac.LevenbergMarquardt, epochs=40, patience=PATIENCE):
    """Train by an optimizer on batches of 32."""
    model.compile(optimizer(), loss)
    stop = keras.callbacks.EarlyStopping("val_loss", patience=patience, restore_best_weights=True)
    given = {} if validation is None else {"validation_data": validation, "callbacks": [stop]}
    return model.fit(*data, batch_size=32, epochs=epochs, verbose=0, **given)


def before(model, loss, data, validation):
    """Train ten epochs on batches of 32, then by `tfjac.fit`."""
    mini_batches(model, loss, data, validation, epochs=10)
    options = {} if validation is not None else {"steps_per_batch": 10}
    model.compile(tfjac.LevenbergMarquardt(acceleration=tfjac.optimizers.AutoAcceleration(), **options), loss)
    tfjac.fit(model, *data, validation_data=validation)


def after(model, loss, data, validation):
    """Train by `tfjac.fit`, then from the start on batches of 32, and keep the lower validation loss."""
    start = model.get_weights()
    lowest, weights = min(whole(model, loss, data, validation).history["val_loss"]), model.get_weights()
    model.set_weights(start)
    again = mini_batches(model, loss, data, validation)
    if min(again.history["val_loss"]) >= lowest:
        model.set_weights(weights)


def adam(model, loss, data, validation):
    """Train 200 epochs by Adam."""
    mini_batches(model, loss, data, validation, lambda: keras.optimizers.Adam(), epochs=200, patience=2 * PATIENCE)


METHODS = {"tfjac.fit": whole, "mini-batches, full": before, "full, mini-batches": after, "Adam": adam}


def run(table, hidden, seed, method, validated):
    """Return one run: training and test loss, CPU seconds."""
    data = split(table, seed)
    model, loss = network(data, NETWORKS[hidden], seed)
    y = data.y[:, None] if data.classes == 2 else data.y
    cut = int(len(y) * (1 - SHARE)) if validated else len(y)
    validation = (data.x[cut:], y[cut:]) if validated else None
    began = time.process_time()
    METHODS[method](model, loss, (data.x[:cut], y[:cut]), validation)
    seconds = time.process_time() - began
    training, test, _ = figures(data, *(np.asarray(model(tf.constant(x))) for x in (data.x, data.x_test)))
    case = {"table": table, "network": hidden, "seed": seed, "method": method, "validated": validated}
    return case | {name: float(f"{value:.3g}") for name, value in _numbers(training, test, seconds)}


def _numbers(training, test, seconds):
    return ("training", training), ("test", test), ("seconds", seconds)


def markdown(runs):
    """Return the table: training / test loss and seconds, geometric means over the seeds that all methods have."""
    columns = list(itertools.product((False, True), METHODS))
    columns = [each for each in columns if each != (False, "full, mini-batches")]
    heads = [f"{method}{', validated' if validated else ''}" for validated, method in columns]
    lines = ["| table | " + " | ".join(heads) + " |", "|" + " --- |" * (len(heads) + 1)]
    for case in dict.fromkeys((each["table"], each["network"]) for each in runs):
        mine = [each for each in runs if (each["table"], each["network"]) == case]
        seeds = [{r["seed"] for r in mine if r["method"] == method} for method in {r["method"] for r in mine}]
        mine = [each for each in mine if each["seed"] in set.intersection(*seeds)]
        cells = [
            _cell([r for r in mine if (r["validated"], r["method"]) == (validated, method)])
            for validated, method in columns
        ]
        lines.append(f"| {', '.join(case)} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _cell(runs):
    if not runs:
        return ""
    training, test, seconds = (np.exp(np.mean(np.log([each[k] for each in runs]))) for k, _ in _numbers(0, 0, 0))
    return f"{training:.2g} / {test:.2g}, {seconds:.2g} s"


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--table", nargs="+", choices=TABLES, default=list(TABLES))
    parser.add_argument("--network", nargs="+", choices=NETWORKS, default=["small"])
    parser.add_argument("--method", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--seed", nargs="+", type=int, default=[0, 1])
    parser.add_argument("--show", action="store_true", help="print the table of the results that were kept, and stop")
    return parser.parse_args()


def main():
    asked = parse()
    runs = json.loads(KEPT.read_text())["runs"] if KEPT.exists() else []
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    cases = itertools.product(asked.seed, asked.network, asked.method, asked.table, (False, True))
    for seed, hidden, method, table, validated in () if asked.show else cases:
        without = table in BY_SCIKIT_LEARN and not HAS_SCIKIT_LEARN
        if without or (method == "full, mini-batches" and not validated):
            continue
        new = run(table, hidden, seed, method, validated)
        same = [key for key in new if key not in dict(_numbers(0, 0, 0))]
        runs = [each for each in runs if any(each[key] != new[key] for key in same)] + [new]
        print(new, flush=True)
        report.save_runs("fit_choice", __doc__.splitlines()[0], runs)
    print(markdown(runs))


if __name__ == "__main__":
    main()
