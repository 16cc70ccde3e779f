"""Plain `fit` of networks of 10⁴ to 10⁶ weights beside first-order optimizers, at equal CPU time.

python -m benchmarks.large_networks                              # six problems, seven optimizers, three seeds: hours
python -m benchmarks.large_networks --problem digits --seed 0 --seconds 10     # two minutes
python -m benchmarks.large_networks --show                       # the table of what was kept

All start from the same weights, by `model.compile(optimizer, loss)` and `model.fit(x, y)` with default options, but
for the rates of Adam. CPU time is that of the process, with one thread. The first epoch, which traces, counts as the
mean of the others. Losses are those of at most 2,000 examples of the training part, and of the test part, after each
epoch.

The table has the training loss at the end over the lowest of Adam at three rates, the same for the lowest test loss,
and the share of the time in which tfjac reaches the training loss that the best Adam ends with.
"""

import argparse
import json
import os
import pathlib
import pydoc_data.topics

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import keras
import numpy as np
import tensorflow as tf

from benchmarks import report
from benchmarks.curves import curves
from benchmarks.equal_time import ADAMS, OPTIMIZERS, Timed
from benchmarks.tables import kinematics, standardised

KEPT = report.RESULTS / "large_networks.json"
DIGITS = pathlib.Path(__file__).parents[1] / "examples" / "data" / "digits" / "digits.csv.gz"
METHODS = {**OPTIMIZERS, "Muon": keras.optimizers.Muon}
CLASSES = keras.losses.SparseCategoricalCrossentropy(from_logits=True)


def dense(sizes, activation="tanh"):
    """Return layers of so many units, the last without activation."""
    return [*[keras.layers.Dense(units, activation) for units in sizes[:-1]], keras.layers.Dense(sizes[-1])]


def sum_of_cross_entropies(y, logits):
    """Return the cross-entropy of pixels, summed up over an image."""
    return keras.ops.sum(keras.ops.binary_crossentropy(y, logits, from_logits=True), axis=-1)


def autoencoder():
    """CURVES: 784-400-200-100-50-25-6 and back, batches of 256."""
    images = curves(11_000)
    half = [400, 200, 100, 50, 25]

    def model():
        code = keras.layers.Dense(6)
        return [*dense([*half, 25], "tanh")[:-1], code, *dense([*half[::-1], 784])]

    return images, images, model, sum_of_cross_entropies, 256


def digits():
    """UCI's digits, a CNN of 10⁵ weights, batches of 64."""
    table = np.loadtxt(DIGITS, delimiter=",", dtype=int)
    x, y = table[:, :-1].reshape(-1, 8, 8, 1).astype("float32") / 16, table[:, -1]

    def model():
        convolutions = [keras.layers.Conv2D(filters, 3, padding="same", activation="relu") for filters in (32, 32)]
        return [*convolutions, keras.layers.MaxPooling2D(), keras.layers.Flatten(), *dense([170, 10], "relu")]

    return x, y, model, CLASSES, 64


def text():
    """Characters of Python's manual, which Python ships: the next of 32 by two layers of attention, batches of 64."""
    whole = "".join(sorted(pydoc_data.topics.topics.values(), key=len)).encode()
    _, codes = np.unique(np.frombuffer(whole, np.uint8), return_inverse=True)
    starts = np.random.default_rng(0).permutation(len(codes) - 33)[:8_000]
    windows = codes[starts[:, None] + np.arange(33)]

    def model():
        entry = keras.Input((32,), dtype="int32")
        places = keras.layers.Embedding(32, 64)(keras.ops.arange(32))
        hidden = keras.layers.Embedding(int(codes.max()) + 1, 64)(entry) + places
        for _ in range(2):
            normal = keras.layers.LayerNormalization()(hidden)
            hidden = hidden + keras.layers.MultiHeadAttention(4, 16)(normal, normal, use_causal_mask=True)
            inner = keras.layers.Dense(192, "gelu")(keras.layers.LayerNormalization()(hidden))
            hidden = hidden + keras.layers.Dense(64)(inner)
        return keras.Model(entry, keras.layers.Dense(int(codes.max()) + 1)(keras.layers.LayerNormalization()(hidden)))

    return windows[:, :-1], windows[:, 1:], model, CLASSES, 64


class Poisson(keras.Model):
    """The residual of Δu = f in the unit square, u = 0 on its edge, at points `[n, 2]`: `[n, 1]`."""

    def __init__(self, layers):
        super().__init__()
        self.network = keras.Sequential([keras.Input((2,)), *layers])

    def call(self, points):
        x, y = points[:, :1], points[:, 1:]
        with tf.GradientTape(persistent=True) as outer:
            outer.watch([x, y])
            with tf.GradientTape() as inner:
                inner.watch([x, y])
                edge = x * (1 - x) * y * (1 - y)
                u = edge * self.network(tf.concat([x, y], axis=1))
            slopes = inner.gradient(u, [x, y])
        return outer.gradient(slopes[0], x) + outer.gradient(slopes[1], y)


def physics():
    """Poisson's equation with a wave on the right, 2-180-180-180-180-1, points of each batch of 256 others."""
    points = np.random.default_rng(0).uniform(size=(12_000, 2)).astype("float32")
    right = np.sin(6 * points[:, :1]) * np.cos(4 * points[:, 1:])
    return points, right, lambda: Poisson(dense([180, 180, 180, 180, 1])), "mse", 256


def small_physics():
    """The same equation with 5,301 weights, 2-50-50-50-1, in batches of 32."""
    points, right, _, loss, _ = physics()
    return points, right, lambda: Poisson(dense([50, 50, 50, 1])), loss, 32


def table():
    """The hand of an arm with eight joints, 10⁵ rows with noise, 8-200-200-200-1, batches of 256."""
    x, y = kinematics(rows=100_000)
    x, y = (standardised(values).astype("float32") for values in (x, y[:, None]))
    return x, y, lambda: dense([200, 200, 200, 1]), "mse", 256


PROBLEMS = {each.__name__: each for each in (autoencoder, digits, text, physics, small_physics, table)}


class Losses(Timed):
    """Notes both losses after each epoch.

    Args:
        parts: pairs of x and y, of the training and of the test part.
        budget: CPU seconds.
    """

    def __init__(self, parts, budget):
        super().__init__(budget)
        self._parts = parts

    def point(self):
        """Return the loss of each part."""
        return [float(self.model.evaluate(*part, batch_size=500, verbose=0)) for part in self._parts]


def built(make, x, seed):
    """Return the model that `make` gives for examples x, as it is or as a list of layers, from a seed."""
    keras.backend.clear_session()
    keras.utils.set_random_seed(seed)
    model = make()
    return keras.Sequential([keras.Input(x.shape[1:]), *model]) if isinstance(model, list) else model


def train(method, problem, seed, seconds):
    """Return the run of an optimizer: weights, what a step takes, the curve of `[seconds, training, test]`."""
    x, y, make, loss, batch = problem
    model = built(make, x, seed)
    cut = int(0.9 * len(x))
    losses = Losses([(x[:cut][:2000], y[:cut][:2000]), (x[cut:], y[cut:])], seconds)
    model.compile(METHODS[method](), loss)
    model.fit(x[:cut], y[:cut], batch_size=batch, epochs=10_000, verbose=0, callbacks=[losses])
    steps = -(-cut // batch)
    return {"weights": model.count_params(), "step_ms": 1e3 * losses.mean / steps, "first_epoch": losses.first,
            "curve": losses.rows()}  # fmt: skip


def markdown(results):
    """Return the table of results `{"problem, seed": {method: run}}`."""
    others = [name for name in METHODS if name not in ADAMS]
    heads = ["problem", "weights", "seconds", "Adam's best", *others, "tfjac's time to it", "tfjac's step / Adam's"]
    lines = ["| " + " | ".join(heads) + " |", "|" + " --- |" * len(heads)]
    for name in PROBLEMS:
        cases = [runs for key, runs in results.items() if key.split(", ")[0] == name and "tfjac" in runs]
        if not cases:
            continue
        bests = [[min(ends(runs[adam])[k] for adam in ADAMS if adam in runs) for k in (0, 1)] for runs in cases]
        cells = []
        for method in others:
            found = [ends(runs[method]) for runs in cases if method in runs]
            ratios = [np.array(one) / best for one, best in zip(found, bests)]
            cells.append(" / ".join(f"{r:.2f}" for r in np.exp(np.mean(np.log(ratios), axis=0))) if ratios else "")
        first = cases[0]["tfjac"]
        shares = [share_of_time(runs, best[0]) for runs, best in zip(cases, bests)]
        step = np.median([runs["tfjac"]["step_ms"] / runs[ADAMS[0]]["step_ms"] for runs in cases])
        best = " / ".join(f"{value:.3g}" for value in np.mean(bests, axis=0))
        row = [name, f"{first['weights']:,}", f"{cases[0][ADAMS[0]]['curve'][-1][0]:.0f}", best, *cells]
        lines.append("| " + " | ".join([*row, " ".join(shares), f"{step:.1f}"]) + " |")
    return "\n".join(lines)


def ends(run):
    """Return the training loss at the end and the lowest test loss; infinite if it is not finite at the end."""
    training = run["curve"][-1][1]
    return [training if np.isfinite(training) else np.inf, min(point[2] for point in run["curve"])]


def share_of_time(runs, loss):
    """Return the share of Adam's time that tfjac takes to a training loss, in words."""
    times = [point[0] for point in runs["tfjac"]["curve"] if point[1] <= loss]
    return f"{times[0] / runs[ADAMS[0]]['curve'][-1][0]:.2f}" if times else "> 1"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problem", nargs="+", choices=PROBLEMS, default=list(PROBLEMS))
    parser.add_argument("--method", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--seed", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--seconds", type=float, default=60, help="of CPU, for each training")
    parser.add_argument("--show", action="store_true", help="print the table of the results that were kept, and stop")
    asked = parser.parse_args()
    results = json.loads(KEPT.read_text())["runs"] if KEPT.exists() else {}
    if not asked.show:
        tf.config.threading.set_intra_op_parallelism_threads(1)
        tf.config.threading.set_inter_op_parallelism_threads(1)
    for name in [] if asked.show else asked.problem:
        problem = PROBLEMS[name]()
        for seed in asked.seed:
            runs = results.setdefault(f"{name}, {seed}", {})
            for method in asked.method:
                runs[method] = train(method, problem, seed, asked.seconds)
                print(name, seed, method, *(f"{value:.4g}" for value in ends(runs[method])), flush=True)
            data = {"question": __doc__.splitlines()[0], "environment": report.environment(None), "runs": results}
            KEPT.write_text(json.dumps(data, separators=(",", ":")).replace('},"', '},\n"') + "\n")
    print(markdown(results))


if __name__ == "__main__":
    main()
