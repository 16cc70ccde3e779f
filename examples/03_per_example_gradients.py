"""Find mislabelled rows by the norms of their gradients, and keep them from steering the training by clipping.

    python examples/03_per_example_gradients.py [--plot FILE.png]

Ten of the 277 training targets of the yacht set are replaced by wrong ones. Two copies of a model are trained with
the same plain Keras optimizer: one on the sum of the gradients, one on the sum of gradients that are clipped per
example (`tfjac.clipped_gradients`). Then the examples are ranked by the norm of their own gradient
(`tfjac.per_example_gradient_norms`). None of the 277 gradients is formed.
"""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import argparse
import pathlib

import keras
import matplotlib.pyplot as plt
import numpy as np
import tensorflow as tf
from example_data import load_yacht
from example_figures import save_figure

import tfjac

SEED, WRONG, STEPS, CLIP_NORM = 3, 10, 1500, 0.5
PLOT = pathlib.Path(__file__).parent / "plots" / "03_per_example_gradients.png"


def build_model() -> keras.Model:
    """A small perceptron, the same initial weights every time."""
    keras.utils.set_random_seed(SEED)
    return keras.Sequential(
        [keras.Input((6,)), keras.layers.Dense(24, activation="tanh"), keras.layers.Dense(24, activation="tanh"),
         keras.layers.Dense(1)]
    )  # fmt: skip


def spoil(y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the targets with a few of them wrong by three standard deviations, and which ones they are."""
    wrong = np.random.default_rng(SEED).choice(len(y), WRONG, replace=False)
    spoiled = y.copy()
    spoiled[wrong] += np.where(y[wrong] > 1.0, -3.0, 3.0)
    return spoiled, wrong


def train(x: tf.Tensor, y: tf.Tensor, clipped: bool) -> keras.Model:
    """Full-batch Adam on the sum of the gradients, each clipped or not."""
    model = build_model()
    optimizer = keras.optimizers.Adam(5e-3)
    variables = model.trainable_variables
    optimizer.build(variables)

    @tf.function
    def step():
        losses = tf.reduce_mean(tf.square(model(x) - y), axis=1)
        bound = CLIP_NORM if clipped else float("inf")
        optimizer.apply(tfjac.clipped_gradients(losses, variables, bound), variables)

    for _ in range(STEPS):
        step()
    return model


def gradient_norms(model: keras.Model, x: tf.Tensor, y: tf.Tensor) -> np.ndarray:
    """The norm of each example's own gradient."""

    @tf.function
    def norms():
        losses = tf.reduce_mean(tf.square(model(x) - y), axis=1)
        return tfjac.per_example_gradient_norms(losses, model.trainable_variables)

    return norms().numpy()


def save_plot(norms: dict[str, np.ndarray], wrong: np.ndarray, path: pathlib.Path) -> None:
    """Draw the norms of all examples, the largest first, and mark the rows that are wrong."""
    figure, axes = plt.subplots(1, len(norms), figsize=(9.0, 3.8), sharey=True, layout="constrained")
    for axis, (name, values) in zip(axes, norms.items(), strict=True):
        order = np.argsort(values)[::-1]
        rank, is_wrong = np.arange(1, len(order) + 1), np.isin(order, wrong)
        axis.loglog(rank[~is_wrong], values[order][~is_wrong], ".", color="C0", label="right target")
        axis.loglog(rank[is_wrong], values[order][is_wrong], "o", color="C3", label="wrong target")
        axis.set(title=f"trained on the {name}", xlabel="rank of the example")
    axes[0].set_ylabel("norm of the gradient of one example")
    axes[0].legend()
    save_figure(figure, path)


def main(arguments: list[str] | None = None) -> dict[str, float]:
    """Train both ways; return the test RMSEs and how many of the wrong rows rank among the largest norms."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--plot", type=pathlib.Path, default=PLOT, help="where to draw")
    options = parser.parse_args(arguments)
    split = load_yacht()
    spoiled, wrong = spoil(split.y_train)
    x, y = tf.constant(split.x_train), tf.constant(spoiled)
    results, norms = {}, {}
    for name, clipped in (("sum of gradients", False), ("sum of clipped gradients", True)):
        model = train(x, y, clipped)
        error = np.sqrt(np.mean(np.square(model.predict(split.x_test, verbose=0) - split.y_test))) * split.target_scale
        norms[name] = gradient_norms(model, x, y)
        suspects = np.argsort(norms[name])[-WRONG:]
        found = len(np.intersect1d(suspects, wrong))
        print(f"{name:26}: test RMSE {error:5.2f}; of the {WRONG} largest gradient norms {found} belong to wrong rows")
        results[name] = float(error)
        results[f"{name}, found"] = found
    save_plot(norms, wrong, options.plot)
    print(f"plot: {options.plot}")
    return results


if __name__ == "__main__":
    main()
