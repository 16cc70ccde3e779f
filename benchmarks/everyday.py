"""Everyday problems for `benchmarks/regret.py`: small records of data, a network and a loss.

Half of the problems are put aside: no rule is tuned on them. The others have the networks of issue 66, and some more.
Data are tables and images that come with the package, or made by a teacher, a random network whose outputs are the
truth. A loss may have a floor: what it is where outputs equal the targets, such as the entropy of shares.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from benchmarks import large_networks
from benchmarks.large_networks import CLASSES, Poisson, dense, sum_of_cross_entropies
from benchmarks.tables import kinematics, load, standardised

LABELS = keras.losses.BinaryCrossentropy(from_logits=True)
ENOUGH = 1e-3
"""A cross-entropy below which an example is learnt."""


@dataclasses.dataclass(frozen=True)
class Problem:
    """A problem to train a network on; the test loss is the same loss, of a fifth of the data.

    Attributes:
        data: returns x `[n, ...]` and y `[n, ...]`.
        make: returns a model, or a list of layers.
        loss: as for `model.compile`.
        aside: whether it is put aside.
        large: whether it has some 10⁶ weights.
        floor: of targets `[n, ...]`, the loss of the best possible outputs.
        enough: losses less than this above the floor count as equal.
        draw: of a generator and a number, returns as many new x and y for each batch, where points are fresh.
    """

    data: Callable[[], tuple[np.ndarray, np.ndarray]]
    make: Callable[[], Any]
    loss: Any = "mse"
    aside: bool = False
    large: bool = False
    floor: Callable[[np.ndarray], float] = lambda y: 0.0
    enough: float = 0.0
    draw: Callable[..., tuple[np.ndarray, np.ndarray]] | None = None

    def parts(self, seed):
        """Return pairs of x and y: what is trained on, four fifths by a seed, and what is tested on."""
        x, y = (np.asarray(each, "float32" if each.dtype == "float64" else each.dtype) for each in self.data())
        rows = np.random.default_rng(seed).permutation(len(x))
        cut = int(0.8 * len(x))
        return (x[rows[:cut]], y[rows[:cut]]), (x[rows[cut:]], y[rows[cut:]])


def quantile(level, width):
    """Return the loss of a quantile, `level`·r + width·softplus(−r/width) of residuals r, and its floor."""

    def loss(y, outputs):
        r = y - outputs
        return keras.ops.mean(level * r + width * keras.ops.softplus(-r / width), axis=-1)

    return {"loss": loss, "floor": lambda y: width * float(entropy(level))}


def entropy(share):
    """Return −p·log p − (1 − p)·log(1 − p), elementwise."""
    return sum(-p * np.log(np.where(p > 0, p, 1)) for p in (np.asarray(share, float), 1 - np.asarray(share, float)))


def entropy_of_pixels(y):
    """Return the floor of `sum_of_cross_entropies`."""
    return float(entropy(y).sum(axis=-1).mean())


def poisson_of_counts(y):
    """Return the floor of Keras' Poisson loss: half of the deviance is above it."""
    return float(np.mean(y - y * np.log(np.where(y > 0, y, 1))))


def table(name, units=None):
    """Return standardised features, and targets `[rows, 1]`: as they are, or standardised where units is None."""

    def data():
        x, y = load(name)
        return standardised(x), y[:, None] if units else standardised(y[:, None])

    return data


def rows_of_digits():
    """Return images `[n, 8, 8]` from 0 to 1 and their classes."""
    x, y = images_of_digits()
    return x[..., 0], y


def images_of_digits():
    """Return images `[n, 8, 8, 1]` and their classes."""
    return large_networks.digits()[:2]


def pixels_of_digits():
    """Return images `[n, 64]`, twice."""
    x = images_of_digits()[0].reshape(-1, 64)
    return x, x


def pixels_and_classes():
    """Return images `[n, 64]` and their classes."""
    return pixels_of_digits()[0], images_of_digits()[1]


def friedman(rows=5_000):
    """Return ten features, of which five count, and targets with noise of variance one."""
    generator = np.random.default_rng(0)
    x = generator.uniform(size=(rows, 10))
    y = 10 * np.sin(np.pi * x[:, 0] * x[:, 1]) + 20 * (x[:, 2] - 0.5) ** 2 + 10 * x[:, 3] + 5 * x[:, 4]
    return x, (y + generator.normal(size=rows))[:, None]


def oscillation(rows=10_000):
    """Return 2·sin(1.5x) + cos(2y) + z/2 on [−5, 5]³, with noise of 0.05; inputs are scaled to [0, 1]."""
    generator = np.random.default_rng(0)
    unit = generator.uniform(size=(rows, 3))
    x, y, z = (10 * unit - 5).T
    values = 2 * np.sin(1.5 * x) + np.cos(2 * y) + z / 2 + 0.05 * generator.normal(size=rows)
    return unit, values[:, None]


def chirp(rows=2_000):
    """Return sin(2π·(1 + 4x²)·x) of one number x in [−1, 1], without noise."""
    x = np.random.default_rng(0).uniform(-1, 1, (rows, 1))
    return x, np.sin(2 * np.pi * (1 + 4 * x**2) * x)


def taught(rows, features, outputs=1):
    """Return normal features, the truth `[rows, outputs]` of a random network of 20 tanh units, and a generator."""
    generator = np.random.default_rng(features)
    x = generator.normal(size=(rows, features))
    hidden = np.tanh(x @ generator.normal(size=(features, 20)) / np.sqrt(features / 4))
    return x, standardised(hidden @ generator.normal(size=(20, outputs))), generator


def counts():
    """Return counts `[n, 1]` around exp(3t/4) of a truth t."""
    x, truth, generator = taught(5_000, 10)
    return x, generator.poisson(np.exp(0.75 * truth)).astype("float32")


def labels(features=20, outputs=8):
    """Return labels `[n, outputs]`, one with the probability sigmoid(4t) of truths t."""
    x, truth, generator = taught(5_000, features, outputs)
    return x, (generator.uniform(size=truth.shape) < 1 / (1 + np.exp(-4 * truth))).astype("float32")


def rare(features=12, share=0.04):
    """Return labels `[n, 1]`, of which that share is one: the highest truths, with noise of 0.2."""
    x, truth, generator = taught(5_000, features)
    noisy = truth + 0.2 * generator.normal(size=truth.shape)
    return x, (noisy > np.quantile(noisy, 1 - share)).astype("float32")


def ratings(users=300, items=105, count=12_500):
    """Return pairs of user and item, and ratings: products of four factors each, and noise of 0.3."""
    generator = np.random.default_rng(0)
    pairs = np.stack([generator.integers(users, size=count), generator.integers(items, size=count)], axis=1)
    factors = [generator.normal(size=(many, 4)) / np.sqrt(2) for many in (users, items)]
    truth = np.sum(factors[0][pairs[:, 0]] * factors[1][pairs[:, 1]], axis=1, keepdims=True)
    return pairs.astype("int32"), truth + 0.3 * generator.normal(size=truth.shape)


def clicks():
    """Return pairs of user and item, and whether the rating is above one half."""
    pairs, rated = ratings()
    return pairs, (rated > 0.5).astype("float32")


def shop(rows=8_000):
    """Return three categories of 30, 50 and 12, and a target that adds and multiplies what they are worth."""
    generator = np.random.default_rng(0)
    x = np.stack([generator.integers(many, size=rows) for many in (30, 50, 12)], axis=1)
    a, b, c = (generator.normal(size=many)[column] for many, column in zip((30, 50, 12), x.T))
    return x.astype("int32"), standardised((a + a * b + np.sin(2 * b * c) + 0.2 * generator.normal(size=rows))[:, None])


def heavy_tails():
    """Return the arm of `kinematics` with noise by Student's t of two degrees of freedom."""
    x, y = kinematics(6_000, noise=0.0)
    noise = np.random.default_rng(1).standard_t(2, (len(x), 1))
    return standardised(x), standardised(y[:, None]) + 0.2 * noise


def waves(generator, count):
    """Return points of the unit square, and the right of Poisson's equation."""
    points = generator.uniform(size=(count, 2)).astype("float32")
    return points, np.sin(6 * points[:, :1]) * np.cos(4 * points[:, 1:])


def times(generator, count):
    """Return times in [0, 1], and zeros: the right of an oscillator."""
    return generator.uniform(size=(count, 1)).astype("float32"), np.zeros((count, 1), "float32")


def fixed(draw, count):
    """Return data that are drawn once."""
    return lambda: draw(np.random.default_rng(0), count)


class Oscillator(keras.Model):
    """The residual of ü + 4u̇ + 400u = 0 over 400, u = 1 + t²·network(t), at times `[n, 1]`: `[n, 1]`."""

    def __init__(self, layers):
        super().__init__()
        self.network = keras.Sequential([keras.Input((1,)), *layers])

    def call(self, t):
        with tf.GradientTape() as outer:
            outer.watch(t)
            with tf.GradientTape() as inner:
                inner.watch(t)
                u = 1 + t**2 * self.network(t)
            slope = inner.gradient(u, t)
        return (outer.gradient(slope, t) + 4 * slope) / 400 + u


def normalised_cnn():
    """Two convolutions with batch normalisation, and dropout: 5,322 weights."""
    layers = keras.layers
    blocks = [[layers.Conv2D(f, 3, padding="same"), layers.BatchNormalization(), layers.ReLU()] for f in (16, 32)]
    ends = [layers.GlobalAveragePooling2D(), layers.Dropout(0.25), layers.Dense(10)]
    return [*blocks[0], layers.MaxPooling2D(), *blocks[1], *ends]


def attention():
    """One block of attention over eight rows of an image: 9,226 weights."""
    entry = keras.Input((8, 8))
    hidden = keras.layers.Dense(32)(entry) + keras.layers.Embedding(8, 32)(keras.ops.arange(8))
    normal = keras.layers.LayerNormalization()(hidden)
    hidden = hidden + keras.layers.MultiHeadAttention(4, 8)(normal, normal)
    inner = keras.layers.Dense(64, "gelu")(keras.layers.LayerNormalization()(hidden))
    hidden = hidden + keras.layers.Dense(32)(inner)
    pooled = keras.layers.GlobalAveragePooling1D()(keras.layers.LayerNormalization()(hidden))
    return keras.Model(entry, keras.layers.Dense(10)(pooled))


def recommender(users=300, items=105, factors=10, biases=False):
    """Two tables of embeddings, whose dot product is scaled, with biases of users and items or without."""
    entry = keras.Input((2,), dtype="int32")
    user, item = entry[:, 0], entry[:, 1]
    small = keras.initializers.RandomNormal(stddev=0.3)
    pair = [keras.layers.Embedding(many, factors, small)(ids) for many, ids in ((users, user), (items, item))]
    rating = keras.layers.Dot(1)(pair)
    if not biases:
        return keras.Model(entry, keras.layers.Dense(1)(rating))
    return keras.Model(entry, rating + keras.layers.Embedding(users, 1)(user) + keras.layers.Embedding(items, 1)(item))


def categories():
    """Embeddings of three categories, four numbers each, before 32 units."""
    entry = keras.Input((3,), dtype="int32")
    parts = [keras.layers.Embedding(many, 4)(entry[:, k]) for k, many in enumerate((30, 50, 12))]
    hidden = keras.layers.Dense(32, "relu")(keras.layers.Concatenate()(parts))
    return keras.Model(entry, keras.layers.Dense(1)(hidden))


def activated(sizes, activation, last):
    """Return layers as `dense` does, with an activation of the last."""
    return [*dense(sizes, activation), keras.layers.Activation(last)]


def known(problem, loss=CLASSES, **options):
    """Return the record of a problem of `benchmarks/large_networks.py`, which is read when it is needed."""
    return Problem(lambda: problem()[:2], lambda: problem()[2](), loss, **options)


def aside(*given, **options):
    """Return the record of a problem that is put aside."""
    return Problem(*given, **options, aside=True)


IN_CLASSES, IN_LABELS = {"loss": CLASSES, "enough": ENOUGH}, {"loss": LABELS, "enough": ENOUGH}
IN_COUNTS = {"loss": "poisson", "floor": poisson_of_counts}
IN_PIXELS = {"loss": sum_of_cross_entropies, "floor": entropy_of_pixels}

PROBLEMS = {
    "friedman": Problem(friedman, lambda: dense([64, 64, 1], "relu")),
    "normalised CNN": Problem(images_of_digits, normalised_cnn, **IN_CLASSES),
    "autoencoder": Problem(pixels_of_digits, lambda: activated([32, 8, 32, 64], "tanh", "sigmoid")),
    "counts": Problem(counts, lambda: activated([16, 1], "tanh", "softplus"), **IN_COUNTS),
    "LSTM": Problem(rows_of_digits, lambda: [keras.layers.LSTM(32), *dense([10])], **IN_CLASSES),
    "recommender": Problem(ratings, recommender),
    "labels": Problem(labels, lambda: dense([32, 8]), **IN_LABELS),
    "concrete, Huber": Problem(table("concrete", "MPa"), lambda: dense([16, 8, 1]), keras.losses.Huber(5.0)),
    "rare": Problem(rare, lambda: dense([32, 16, 1], "relu"), **IN_LABELS),
    "oscillation": Problem(oscillation, lambda: dense([20, 20, 1])),
    "quantile": Problem(table("concrete"), lambda: dense([16, 8, 1]), **quantile(0.9, 0.05)),
    "physics": known(large_networks.small_physics, "mse"),
    "fresh physics": Problem(fixed(waves, 5_000), lambda: Poisson(dense([32, 32, 1])), draw=waves),
    "attention": Problem(rows_of_digits, attention, **IN_CLASSES),
    "yacht": Problem(table("yacht"), lambda: dense([12, 1])),
    "text": known(large_networks.text),
    "curves": known(large_networks.autoencoder, **IN_PIXELS, large=True),
    "concrete": aside(table("concrete"), lambda: dense([50, 50, 1])),
    "airfoil as it is": aside(table("airfoil", "dB"), lambda: dense([16, 8, 1])),
    "diabetes": aside(table("diabetes"), lambda: dense([10, 1])),
    "GRU": aside(rows_of_digits, lambda: [keras.layers.GRU(24), *dense([10])], **IN_CLASSES),
    "CNN": known(large_networks.digits, enough=ENOUGH, aside=True),
    "rings": aside(table("abalone", "rings"), lambda: activated([16, 16, 1], "tanh", "exponential"), **IN_COUNTS),
    "low quantile": aside(friedman, lambda: dense([32, 32, 1], "relu"), **quantile(0.1, 0.2)),
    "heavy tails": aside(heavy_tails, lambda: dense([32, 32, 1], "relu"), keras.losses.Huber(0.5)),
    "deep labels": aside(lambda: labels(15, 5), lambda: dense([48, 24, 5], "relu"), **IN_LABELS),
    "very rare": aside(lambda: rare(8, 0.02), lambda: dense([16, 1]), **IN_LABELS),
    "clicks": aside(clicks, lambda: recommender(factors=6, biases=True), **IN_LABELS),
    "shop": aside(shop, categories),
    "oscillator": aside(fixed(times, 5_000), lambda: Oscillator(dense([32, 32, 1])), draw=times),
    "chirp": aside(chirp, lambda: dense([32, 32, 1])),
    "pixels": aside(pixels_of_digits, lambda: dense([64, 10, 64, 64], "relu"), **IN_PIXELS),
    "arm": known(large_networks.table, "mse", aside=True),
    "wide digits": aside(pixels_and_classes, lambda: dense([1000, 900, 10], "relu"), **IN_CLASSES, large=True),
}
