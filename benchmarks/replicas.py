"""Time of a step against the number of replicas: what it costs that they meet.

python -m benchmarks.replicas          # a few minutes
python -m benchmarks.replicas --quick  # does it work?

Networks with ten inputs and one output in float32, 6,000 examples in one batch, one attempt for each step, JᵀJ and
Cholesky; on one device, and shared out by `tf.distribute.MirroredStrategy` among two and three logical CPU devices of
the same machine. These share its cores, which one device has all of as well, so that nothing is learned of what more
devices would gain: what is seen is what sharing out, adding up and sending back cost, less what one device leaves idle.

Each figure is of a process of its own: the median time of a step after the first three, with its quartiles, and the
bytes that go from the other devices to the first and back. All are taken three times, and the fastest counts. The
figures are kept in `benchmarks/results/replicas.json`.
"""

import argparse
import contextlib
import json
import os
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import numpy as np

from benchmarks import report
from benchmarks.processes import fastest, trained_alone

EXAMPLES = 6_000
HIDDEN = {"small": (20, 10), "large": (60, 40)}
REPLICAS = (1, 2, 3)
STEPS = 18
ROUNDS = 3


def train(size, replicas):
    """Return the seconds of a step, the bytes sent for it and the last loss, of one size on so many replicas."""
    import keras
    import tensorflow as tf

    import tfjac

    class Clock(keras.callbacks.Callback):
        def on_train_begin(self, logs=None):
            self.times = [time.perf_counter()]

        def on_train_batch_end(self, batch, logs=None):
            self.times.append(time.perf_counter())

    processor = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(processor, [tf.config.LogicalDeviceConfiguration()] * replicas)
    devices = [f"CPU:{number}" for number in range(replicas)]
    strategy = tf.distribute.MirroredStrategy(devices) if replicas > 1 else None
    keras.utils.set_random_seed(1)
    x = np.random.default_rng(0).normal(size=(EXAMPLES, 10)).astype("float32")
    y = np.sin(x[:, :1] * x[:, 1:2]) + x[:, 2:3]
    with strategy.scope() if strategy else contextlib.nullcontext():
        layers = [keras.layers.Dense(units, "tanh") for units in HIDDEN[size]]
        model = keras.Sequential([keras.Input((10,)), *layers, keras.layers.Dense(1)])
        optimizer = tfjac.LevenbergMarquardt(solver="cholesky", max_attempts=1)
        model.compile(optimizer, loss="mse", jit_compile=False)
    clock, data = Clock(), tf.data.Dataset.from_tensors((x, y)).repeat(STEPS)
    model.fit(data, verbose=0, callbacks=[clock])
    parameters = model.count_params()
    quartiles = np.percentile(np.diff(clock.times)[3:], [25, 50, 75])
    return {
        "size": size,
        "parameters": parameters,
        "replicas": replicas,
        "seconds_per_step": quartiles[1],
        "quartiles": [quartiles[0], quartiles[2]],
        "megabytes_per_step": (replicas - 1) * 4 * (parameters**2 + 2 * parameters + 2) / 1e6,
        "loss": float(model.evaluate(x[:600], y[:600], batch_size=600, verbose=0)),
        "accepted": optimizer.num_accepted,
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="the small size on one and two; results are not kept")
    parser.add_argument("--train", nargs=2, metavar=("SIZE", "REPLICAS"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.train:
        print(json.dumps(train(options.train[0], int(options.train[1]))))
        return
    sizes, counts = (("small",), REPLICAS[:2]) if options.quick else (HIDDEN, REPLICAS)
    rounds = 1 if options.quick else ROUNDS
    cases = [{"size": size, "replicas": replicas} for size in sizes for replicas in counts]
    runs = [[trained_alone("replicas", **case) for case in cases] for _ in range(rounds)]
    rows = [fastest(same, "seconds_per_step") for same in zip(*runs)]
    print("| weights | replicas | seconds a step | MB sent | loss |\n| --- | --- | --- | --- | --- |")
    for row in rows:
        figures = row.get("error") or "{seconds_per_step:.3g} | {megabytes_per_step:.3g} | {loss:.6g}".format(**row)
        print(f"| {row.get('parameters', row['size'])} | {row['replicas']} | {figures} |")
    if not options.quick:
        print(report.save_runs("replicas", __doc__.splitlines()[0], rows))


if __name__ == "__main__":
    main()
