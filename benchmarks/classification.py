"""Classifiers: a whole training to a loss that is given, on handwritten digits."""

import pathlib

import keras
import numpy as np
import tensorflow as tf

from benchmarks.questions import Case, question
from benchmarks.training import Training

DIGITS = pathlib.Path(__file__).parents[1] / "examples" / "data" / "digits" / "digits.csv.gz"


def training(makers, rows: int) -> Training:
    """The regularised cross-entropy of a model of the first `rows` of the UCI digits."""
    keras.utils.set_random_seed(1)
    table = np.loadtxt(DIGITS, delimiter=",", dtype=int, max_rows=rows)
    x, y = tf.constant(table[:, :-1].reshape(-1, 8, 8, 1) / 16, tf.float32), tf.constant(table[:, -1])
    head = keras.layers.Dense(10, kernel_regularizer=keras.regularizers.L2(1e-5))
    layers = [make() for make in makers]
    model = keras.Sequential([keras.Input((8, 8, 1)), *layers, keras.layers.Flatten(), head])

    def loss(chosen):
        images, digits = (x, y) if chosen is None else (tf.gather(x, chosen), tf.gather(y, chosen))
        crossentropy = tf.nn.sparse_softmax_cross_entropy_with_logits(digits, model(images))
        return tf.reduce_mean(crossentropy) + tf.add_n(model.losses)

    return Training(model.trainable_variables, loss, rows)


@question("classification")
def classification(quick: bool):
    """From one start to one training loss: cross-entropy of handwritten digits, with a little weight decay."""
    perceptron = [keras.layers.Flatten, lambda: keras.layers.Dense(10, activation="tanh")]
    convolutional = [lambda: keras.layers.Conv2D(8, 3, strides=2, activation="tanh")]
    sizes = {"64-10-10, 300 digits, loss 0.1": (perceptron, 300, 0.1)}
    if not quick:
        sizes = {
            "CNN of 810 weights, 1,500 digits, loss 0.03": (convolutional, 1500, 0.03),
            "the same, loss 0.008": (convolutional, 1500, 0.008),
        }
    for title, (makers, rows, target) in sizes.items():
        case = training(makers, rows)
        candidates = {
            "tfjac": case.levenberg_marquardt(target, solver="cholesky"),
            "tfjac, XLA": case.levenberg_marquardt(target, jit_compile=True, solver="cholesky"),
            "Adam, batches of 50": case.adam(target, batch=50),
            "SciPy L-BFGS": case.lbfgs(target),
        }
        yield Case(title, candidates, tolerance=None)
