"""Five of Keras' published code examples, each with its own optimizer and with tfjac's, from one start.

python -m benchmarks.keras_examples FOLDER                                      # all five: some twenty minutes
python -m benchmarks.keras_examples FOLDER --example text --optimizer own --epochs 100 --seconds 60  # CPU seconds

FOLDER is the folder `examples` of the repository of keras.io. Its subfolder `data` has what the examples download:
heart.csv, mnist.npz, and the folders artificialNoAnomaly and artificialWithAnomaly of the Numenta Anomaly Benchmark.
The source of an example is changed by replacing texts, and runs in a new process. `fit` is given a callback that
notes the seconds after each epoch, and is told how many epochs to take. `series` needs pandas.

A line has the example, the optimizer, its number of weights, epochs, the wall and CPU seconds of the first epoch and of
all, and the numbers of the last epoch. The first epoch has the tracing. Standard error has each epoch.
"""

import argparse
import dataclasses
import json
import math
import os
import pathlib
import subprocess
import sys
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("MPLBACKEND", "agg")

MNIST = {"keras.datasets.mnist.load_data()": "mnist(DATA)"}
PRIVATE = "tfjac.privacy.DPOptimizer(tf.keras.optimizers.Adam(), clip_norm=1.0, noise_multiplier=1.0, batch_size=BATCH)"
OPTIMIZERS = {"tfjac": "tfjac.LevenbergMarquardt()", "private": PRIVATE}


@dataclasses.dataclass
class Example:
    """What is replaced to run an example here, the text of its optimizer, and what another optimizer needs besides."""

    path: str
    replaced: dict
    optimizer: str
    epochs: int
    batch: int = 128
    needed: dict = dataclasses.field(default_factory=dict)


TABLE = {
    '"KERAS_BACKEND"] = "torch"': '"KERAS_BACKEND"] = "tensorflow"',
    "http://storage.googleapis.com/download.tensorflow.org/data/": "DATA/",
    'keras.utils.plot_model(model, show_shapes=True, rankdir="LR")': "",
}
TEXT = {"range(1, epochs)": "range(EPOCHS)", "TRAINING_SIZE = 50000": "TRAINING_SIZE = 10240"}
SERIES = {"https://raw.githubusercontent.com/numenta/NAB/master/data/": "DATA/"}
VAE = {**MNIST, "\nplot_latent_space(vae)": "\nplot_latent_space(vae, 3)"}
SCALED = {"= reconstruction_loss + kl_loss": "= self.optimizer.scale_loss(reconstruction_loss + kl_loss)"}
EXAMPLES = {
    "table": Example("structured_data/structured_data_classification_from_scratch.py", TABLE, '"adam"', 50, 32),
    "text": Example("nlp/addition_rnn.py", TEXT, '"adam"', 3, 32),
    "images": Example("vision/mnist_convnet.py", MNIST, '"adam"', 3),
    "series": Example(
        "timeseries/timeseries_anomaly_detection.py", SERIES, "keras.optimizers.Adam(learning_rate=0.001)", 50
    ),
    "generative": Example("generative/vae.py", VAE, "keras.optimizers.Adam()", 1, needed=SCALED),
}


def source(example, optimizer, folder):
    """Return the text of an example with the optimizer put in."""
    text, replaced = (folder / example.path).read_text(), dict(example.replaced)
    if optimizer != "own":
        replaced.update({example.optimizer: OPTIMIZERS.get(optimizer, optimizer), **example.needed})
    for old, new in replaced.items():
        if old not in text:
            raise ValueError(f"{example.path} has no {old!r}: it is another version of the example")
        text = text.replace(old, new.replace("DATA/", f"{folder}/data/"))
    return text


def mnist(path, most=10_000):
    """Return what `keras.datasets.mnist.load_data` does, of so many images, and a fifth of them for tests."""
    import numpy as np

    with np.load(path / "mnist.npz") as data:
        parts = (("train", most), ("test", most // 5))
        return tuple((data[f"x_{part}"][:rows], data[f"y_{part}"][:rows]) for part, rows in parts)


def execute(name, optimizer, folder, epochs, seconds):
    """Run an example in this process, and return its numbers."""
    import keras
    import tensorflow as tf

    import tfjac

    example, curve, start, fit = EXAMPLES[name], [], [], keras.Model.fit
    epochs = epochs or example.epochs

    class Clock(keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            spent = {"wall": time.perf_counter() - start[0], "cpu": time.process_time() - start[1]}
            curve.append({**spent, **{key: float(value) for key, value in logs.items()}})
            print(json.dumps(curve[-1]), file=sys.stderr, flush=True)
            self.model.stop_training = self.model.stop_training or over()

    def over():
        return seconds is not None and bool(curve) and curve[-1]["cpu"] >= seconds

    def timed(self, *given, **options):
        if not over():
            start[:] = start or [time.perf_counter(), time.process_time()]
            options["epochs"] = epochs if options["epochs"] > 1 else 1
            options["callbacks"] = [*options.get("callbacks", ()), Clock()]
            return fit(self, *given, **{**options, "verbose": 0})

    keras.Model.fit = timed
    keras.utils.set_random_seed(0)
    names = dict(tfjac=tfjac, tf=tf, mnist=mnist, DATA=folder / "data", EPOCHS=epochs, BATCH=example.batch)
    exec(compile(source(example, optimizer, folder), example.path, "exec"), names)
    keras.Model.fit = fit
    weights = names.get("vae", names.get("model")).trainable_variables
    return {"weights": sum(math.prod(each.shape) for each in weights), "curve": curve}


def line(name, optimizer, run):
    """Return a row of the table."""
    first, last = run["curve"][0], run["curve"][-1]
    times = [f"{point['wall']:.1f} / {point['cpu']:.1f}" for point in (first, last)]
    numbers = ", ".join(f"{key} {value:.4g}" for key, value in last.items() if key not in ("wall", "cpu"))
    return "| " + " | ".join([name, optimizer, f"{run['weights']:,}", str(len(run["curve"])), *times, numbers]) + " |"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--example", nargs="+", choices=EXAMPLES, default=list(EXAMPLES))
    parser.add_argument("--optimizer", nargs="+", default=["own", "tfjac"], help="own, tfjac, private or an expression")
    parser.add_argument("--epochs", type=int, help="default: as the example, or few where it takes minutes")
    parser.add_argument("--seconds", type=float, help="of the CPU, after which no epoch begins")
    asked = parser.parse_args()
    pairs = [(name, optimizer) for name in asked.example for optimizer in asked.optimizer]
    if len(pairs) > 1:
        for name, optimizer in pairs:
            command = [sys.executable, "-m", "benchmarks.keras_examples", *sys.argv[1:], "--example", name]
            found = subprocess.run([*command, "--optimizer", optimizer], capture_output=True, text=True)
            print(found.stderr[-2000:] if found.returncode else found.stdout.splitlines()[-1], flush=True)
        return
    print(line(*pairs[0], execute(*pairs[0], asked.folder.resolve(), asked.epochs, asked.seconds)))


if __name__ == "__main__":
    main()
