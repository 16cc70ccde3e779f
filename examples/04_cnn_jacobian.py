"""Take the exact Jacobian of a convolutional network apart: products, kernel, one Gauss–Newton step by hand.

    python examples/04_cnn_jacobian.py [--plot FILE.png]

48 images of blurred bars, three outputs (is the bar upright, level or slanting?), an unmodified Keras model. The
Jacobian of all outputs with respect to all weights is a linear operator: nothing of its size is ever formed. The
script checks what it prints: the operator against TensorFlow's own Jacobian, a linear prediction against the model.
"""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import argparse
import pathlib

import keras
import matplotlib.pyplot as plt
import numpy as np
import tensorflow as tf
from example_figures import save_figure

import tfjac

IMAGES, SIZE, DAMPING = 48, 16, 1e-3
PLOT = pathlib.Path(__file__).parent / "plots" / "04_cnn_jacobian.png"


def draw_bars(seed: int = 0) -> tuple[tf.Tensor, tf.Tensor]:
    """Return noisy images of bars `[n, 16, 16, 1]` and their one-hot directions `[n, 3]`."""
    rng = np.random.default_rng(seed)
    kinds = rng.integers(0, 3, IMAGES)
    angles = np.array([0.0, np.pi / 2, np.pi / 4])[kinds] + rng.normal(0, 0.1, IMAGES)
    centres = rng.uniform(-0.3, 0.3, [2, IMAGES, 1, 1])
    v, u = np.meshgrid(np.linspace(-1, 1, SIZE), np.linspace(-1, 1, SIZE), indexing="ij")
    cos, sin = np.cos(angles)[:, None, None], np.sin(angles)[:, None, None]
    distance = (u - centres[0]) * cos + (v - centres[1]) * sin
    images = np.exp(-((distance / 0.2) ** 2)) + rng.normal(0, 0.05, [IMAGES, SIZE, SIZE])
    return tf.constant(images[..., None], tf.float32), tf.one_hot(kinds, 3)


def build_model() -> keras.Model:
    """Two convolutions and a dense layer."""
    keras.utils.set_random_seed(0)
    return keras.Sequential(
        [
            keras.Input((SIZE, SIZE, 1)),
            keras.layers.Conv2D(8, 3, strides=2, padding="same", activation="tanh"),
            keras.layers.Conv2D(16, 3, strides=2, padding="same", activation="tanh"),
            keras.layers.Flatten(),
            keras.layers.Dense(3),
        ]
    )


def tensorflow_rows(model: keras.Model, images: tf.Tensor) -> tf.Tensor:
    """The Jacobian by `tape.jacobian`, as one matrix `[n·m, p]`: the oracle."""
    with tf.GradientTape() as tape:
        y = model(images)
    blocks = tape.jacobian(y, [variable.value for variable in model.trainable_variables])
    return tf.concat([tf.reshape(block, [y.shape[0] * y.shape[1], -1]) for block in blocks], axis=1)


def gauss_newton_step(model: keras.Model, images: tf.Tensor, targets: tf.Tensor):
    """Return the residual, the damped step p = −Jᵀ(JJᵀ + λI)⁻¹r as a list of arrays, the predicted J·p, and J·Jᵀ."""

    @tf.function
    def solve():
        operator = tfjac.jacobian_operator(model(images), model.trainable_variables)
        residual = tf.reshape(model(images) - targets, [-1])
        kernel = operator.kernel()
        damped = kernel + DAMPING * tf.linalg.trace(kernel) / len(residual) * tf.eye(len(residual))
        multipliers = tf.linalg.cholesky_solve(tf.linalg.cholesky(damped), -residual[:, None])[:, 0]
        step = operator.matvec(multipliers, adjoint=True)
        return residual, operator.split(step), operator.matvec(step), kernel

    return solve()


def save_plot(images, targets, kernel, moved, predicted, path: pathlib.Path) -> None:
    """Draw an image of each kind, the kernel of the first output, and the change of outputs against its prediction."""
    figure = plt.figure(figsize=(11.0, 3.6), layout="constrained")
    pictures, middle, right = figure.subfigures(1, 3, width_ratios=(1.1, 1.4, 1.4))
    kinds = np.argmax(targets, axis=1)
    for kind, (axis, name) in enumerate(zip(pictures.subplots(3, 1), ("upright", "level", "slanting"), strict=True)):
        axis.imshow(images[np.flatnonzero(kinds == kind)[0], ..., 0], cmap="gray")
        axis.set(xticks=[], yticks=[], ylabel=name)
    order = np.argsort(kinds, kind="stable")
    of_first_output = np.asarray(kernel)[::3, ::3][np.ix_(order, order)]
    axis = middle.subplots()
    drawn = axis.imshow(of_first_output, cmap="viridis")
    axis.set(title="J·Jᵀ of the first output", xlabel="image, sorted by kind", ylabel="image, sorted by kind")
    middle.colorbar(drawn, ax=axis, shrink=0.8)
    axis = right.subplots()
    axis.plot(predicted, moved, ".", markersize=4)
    axis.axline((0.0, 0.0), slope=1.0, color="grey", linewidth=1, label="equal")
    axis.set(title="0.05 of the step", xlabel="change by J·p", ylabel="change of the output")
    axis.legend()
    save_figure(figure, path)


def main(arguments: list[str] | None = None) -> dict[str, float]:
    """Run the three checks; return the errors found."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--plot", type=pathlib.Path, default=PLOT, help="where to draw")
    options = parser.parse_args(arguments)
    images, targets = draw_bars()
    model = build_model()
    rows = tf.function(lambda: tfjac.jacobian_operator(model(images), model.trainable_variables).to_dense())()
    oracle = tf.function(tensorflow_rows)(model, images)
    difference = float(tf.reduce_max(tf.abs(rows - oracle)) / tf.reduce_max(tf.abs(oracle)))
    print(
        f"Jacobian {rows.shape[0]} × {rows.shape[1]}: largest difference from tape.jacobian {difference:.1e} (relative)"
    )

    residual, step, predicted, kernel = gauss_newton_step(model, images, targets)
    spectrum = tf.linalg.eigvalsh(kernel)
    print(f"kernel J·Jᵀ: eigenvalues from {float(spectrum[0]):.1e} to {float(spectrum[-1]):.1e}")

    start = [tf.identity(variable.value) for variable in model.trainable_variables]
    errors = {}
    for length in (0.1, 0.05):
        for variable, value, direction in zip(model.trainable_variables, start, step, strict=True):
            variable.assign(value + length * direction)
        moved = tf.reshape(model(images) - targets, [-1]) - residual
        errors[length] = float(tf.norm(moved - length * predicted) / tf.norm(length * predicted))
        print(f"moving {length:4} of the step: the outputs miss the linear prediction by {errors[length]:.2%}")
    print(f"half the step, {errors[0.1] / errors[0.05]:.2f} times less error: the prediction is exact to first order")

    for variable, value, direction in zip(model.trainable_variables, start, step, strict=True):
        variable.assign(value + direction)
    save_plot(images, targets, kernel, moved, length * predicted, options.plot)
    before, after = float(tf.norm(residual)), float(tf.norm(model(images) - targets))
    print(f"the whole step: residual norm {before:.3f} -> {after:.3f}")
    print(f"plot: {options.plot}")
    return {"difference": difference, "order": errors[0.1] / errors[0.05], "reduction": after / before}


if __name__ == "__main__":
    main()
