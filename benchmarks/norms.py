"""Per-example gradient norms and clipped gradients, against the plain gradient of the batch."""

import tensorflow as tf

import tfjac
from benchmarks import models, private_training
from benchmarks.floors import Floor
from benchmarks.questions import Case, question

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
    examples = 8 if quick else private_training.EXAMPLES
    titles = {"convolutions": "convolutions, 28×28", "LSTM": "LSTM, 64 words"}
    for network, title in titles.items():
        kinds = {"DPOptimizer": "private", "plain SGD": "plain"}
        steps = {name: private_training.by_keras(network, kind, examples) for name, kind in kinds.items()}
        yield Case(f"{title}, {examples} examples", steps, targets={"plain SGD": 1 / 2.2}, tolerance=None)
