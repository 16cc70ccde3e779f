"""Memory and time of a step against the number of examples: sums over batches beside the full batch.

python -m benchmarks.large_data          # a few minutes
python -m benchmarks.large_data --quick  # does it work?

A network of 441 weights, ten inputs and one output in float32; batches of 10,000 examples, made as they are read,
against all of them as one batch. Each figure is of a process of its own: the most memory that it held, less what it
held before training, and the median time of a step after the first two epochs, with the reading of batches. The figures
are kept in `benchmarks/results/large_data.json`.
"""

import argparse
import json
import os
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import numpy as np

from benchmarks import report
from benchmarks.processes import trained_alone

BATCH = 10_000
SIZES = (10_000, 100_000, 1_000_000)
KINDS = ("sums over batches", "full batch")
EPOCHS = 5


def train(kind, examples):
    """Return the megabytes, the seconds of a step and the last loss of one kind on so many examples."""
    import keras
    import tensorflow as tf

    import tfjac
    from tests.memory import peak_megabytes

    class Clock(keras.callbacks.Callback):
        def __init__(self):
            super().__init__()
            self.times = [time.perf_counter()]

        def on_epoch_end(self, epoch, logs=None):
            self.times.append(time.perf_counter())

    def read(number):
        x = tf.random.stateless_normal([BATCH, 10], [1, tf.cast(number, tf.int32)])
        return x, tf.sin(x[:, :1] * x[:, 1:2]) + x[:, 2:3]

    keras.utils.set_random_seed(1)
    sizes = [(20, "tanh"), (10, "tanh"), (1, None)]
    model = keras.Sequential([keras.Input((10,)), *(keras.layers.Dense(*size) for size in sizes)])
    data = tf.data.Dataset.range(examples // BATCH).map(read)
    if kind == "full batch":
        data, options = data.unbatch().batch(examples), {"solver": "cholesky", "max_attempts": 1}
        data = data.apply(tf.data.experimental.assert_cardinality(1)).cache()
    else:
        options = {"memory": examples // BATCH}
    model.compile(tfjac.LevenbergMarquardt(**options), loss="mse", jit_compile=False)
    before, clock = peak_megabytes(), Clock()
    # The first pass over batches only linearises; Keras' loss of an epoch is that before its step, of both kinds.
    losses = model.fit(data, epochs=EPOCHS + (kind != "full batch"), verbose=0, callbacks=[clock]).history["loss"]
    return {
        "kind": kind,
        "examples": examples,
        "megabytes": peak_megabytes() - before,
        "seconds_per_step": float(np.median(np.diff(clock.times)[2:])),
        "loss": losses[-1],
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="the smallest size; results are not kept")
    parser.add_argument("--train", nargs=2, metavar=("KIND", "EXAMPLES"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.train:
        print(json.dumps(train(options.train[0], int(options.train[1]))))
        return
    cases = [{"kind": kind, "examples": size} for size in SIZES[: 1 if options.quick else None] for kind in KINDS]
    rows = [trained_alone("large_data", **case) for case in cases]
    print("| examples | | MB above the start | seconds a step | loss |\n| --- | --- | --- | --- | --- |")
    for row in rows:
        figures = row.get("error") or "{megabytes:,.0f} | {seconds_per_step:.3g} | {loss:.6g}".format(**row)
        print(f"| {row['examples']:,} | {row['kind']} | {figures} |")
    if not options.quick:
        print(report.save_runs("large_data", __doc__.splitlines()[0], rows))


if __name__ == "__main__":
    main()
