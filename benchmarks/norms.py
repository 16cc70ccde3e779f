"""Per-example gradient norms and clipped gradients, against the plain gradient of the batch."""

import functools

import keras
import numpy as np
import tensorflow as tf

import tfjac
from benchmarks import models
from benchmarks.floors import Floor
from benchmarks.questions import Case, question
from tfjac import privacy

CLIP_NORM = 1.0
YARDSTICK = "plain batch gradient"


def _setting(quick: bool):
    width, examples = (64, 8) if quick else (1024, 64)
    model = models.mlp((width, width, width, 10))
    x = models.inputs(examples, width)
    y = models.inputs(examples, 10)

    def losses():
        return tf.reduce_sum(tf.square(model(x) - y), axis=1)

    def example_loss(row, target):
        return tf.reduce_sum(tf.square(model(row[None])[0] - target))

    title = f"{width}-{width}-{width}-10, {examples} examples"
    # Forward, cotangents and weight gradients: a multiplication and an addition per weight and example each.
    floor = Floor(bytes_written=4 * model.count_params(), flops=6 * examples * model.count_params())
    return model, x, y, losses, example_loss, title, floor


def batch_gradient(model, losses):
    """What every training step computes: the gradient of the sum of all losses."""
    variables = models.values(model)

    def gradient():
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(losses())
        return tape.gradient(loss, variables)

    return gradient


def mapped_gradients(model, x, y, example_loss):
    """Per-example gradients by `tf.vectorized_map`."""
    variables = models.values(model)

    def one_example(pair):
        with tf.GradientTape() as tape:
            loss = example_loss(*pair)
        return tape.gradient(loss, variables)

    return lambda: tf.vectorized_map(one_example, (x, y))


def _norms(gradients):
    return tf.sqrt(tf.add_n([tf.reduce_sum(tf.square(g), axis=list(range(1, g.shape.rank))) for g in gradients]))


@question("gradient-norms")
def gradient_norms(quick: bool):
    """Norms of per-example gradients of wide dense layers."""
    model, x, y, losses, example_loss, title, floor = _setting(quick)
    per_example = mapped_gradients(model, x, y, example_loss)
    ways = {
        "tfjac": lambda: tfjac.per_example_gradient_norms(losses(), model.trainable_variables),
        YARDSTICK: batch_gradient(model, losses),
        "vectorized_map": lambda: _norms(per_example()),
    }
    candidates = {name: tf.function(way) for name, way in ways.items()}
    # Norms need no weight gradients: two thirds of the flops, and nothing written.
    floor = Floor(flops=floor.flops * 2 / 3)
    yield Case(title, candidates, floor, targets={YARDSTICK: 1 / 1.5}, unlike=(YARDSTICK,))


@question("clipped-gradients")
def clipped_gradients(quick: bool):
    """Sum of per-example gradients, each clipped to a norm."""
    model, x, y, losses, example_loss, title, floor = _setting(quick)
    per_example = mapped_gradients(model, x, y, example_loss)

    def clip_mapped():
        gradients = per_example()
        weights = tf.minimum(1.0, CLIP_NORM / _norms(gradients))
        return [tf.tensordot(weights, gradient, 1) for gradient in gradients]

    ways = {
        "tfjac": lambda: tfjac.clipped_gradients(losses(), model.trainable_variables, CLIP_NORM),
        YARDSTICK: batch_gradient(model, losses),
        "vectorized_map": clip_mapped,
    }
    candidates = {name: tf.function(way) for name, way in ways.items()}
    yield Case(title, candidates, floor, targets={YARDSTICK: 1 / 2.5}, unlike=(YARDSTICK,))


@question("private-step")
def private_step(quick: bool):
    """A step of Keras' `fit` with `tfjac.privacy.DPOptimizer`, against the same step without privacy."""
    random = np.random.default_rng(0)
    examples = 8 if quick else 64
    layers = keras.layers
    images = keras.Input((28, 28, 1)), [
        layers.Conv2D(16, 8, strides=2, padding="same", activation="relu"), layers.MaxPooling2D(2, strides=1),
        layers.Conv2D(32, 4, strides=2, activation="relu"), layers.MaxPooling2D(2, strides=1),
        layers.Flatten(), layers.Dense(32, "relu"), layers.Dense(10),
    ]  # fmt: skip
    texts = keras.Input((64,), dtype="int32"), [layers.Embedding(5000, 32), layers.LSTM(64), layers.Dense(10)]
    data = {
        "convolutions, 28×28": (images, random.normal(size=(examples, 28, 28, 1)).astype("float32")),
        "LSTM, 64 words": (texts, random.integers(0, 5000, (examples, 64))),
    }
    y = random.integers(0, 10, examples)
    for title, ((inputs, stack), x) in data.items():
        model = keras.Sequential([inputs, *stack])
        steps = {}
        for name, optimizer in {
            "DPOptimizer": privacy.DPOptimizer(keras.optimizers.SGD(1e-3), CLIP_NORM, 1.0),
            "plain SGD": keras.optimizers.SGD(1e-3),
        }.items():
            twin = keras.models.clone_model(model)
            twin.compile(optimizer, keras.losses.SparseCategoricalCrossentropy(from_logits=True))
            steps[name] = functools.partial(twin.train_on_batch, x, y)
        yield Case(f"{title}, {examples} examples", steps, targets={"plain SGD": 1 / 2.2}, tolerance=None)
