"""Explain what a network saw in handwritten digits: five methods, each in one call.

    python examples/07_explanations.py [--plot FILE.png]

A perceptron and a small convolutional network, plain Keras, trained on 8 × 8 pixels for some seconds. Each uses one
activation layer twice, and the first has it for a head: where tools that hook layers give up. DeepLIFT's attributions
add up to the change of a score from that of a reference, an empty image; the gap is printed. The maps of the second
network are drawn over the digits, and all five are made again from its SavedModel, of which no Python is left.
"""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import argparse
import pathlib
import tempfile

import keras
import matplotlib.pyplot as plt
import numpy as np
import tensorflow as tf
from example_data import Digits, load_digits
from example_figures import save_figure

import tfjac

SHOWN = 5
METHODS = {
    "grad_cam": ("Grad-CAM", {"layer": "act[1]"}),
    "guided_backprop": ("guided\nbackpropagation", {}),
    "integrated_gradients": ("integrated\ngradients", {}),
    "deep_lift": ("DeepLIFT", {}),
    "lrp": ("LRP, γ = 0.25", {"rule": "gamma"}),
}
PLOT = pathlib.Path(__file__).parent / "plots" / "07_explanations.png"


def convolutional() -> keras.Model:
    """Two convolutions with one ReLU layer between, their means, and a softmax."""
    layers, x = keras.layers, keras.Input((8, 8, 1))
    act = layers.ReLU(name="act")
    hidden = act(layers.Conv2D(16, 3, padding="same", name="first")(x))
    hidden = act(layers.Conv2D(32, 3, padding="same", name="second")(hidden))
    scores = layers.Dense(10, name="scores")(layers.GlobalAveragePooling2D()(hidden))
    return keras.Model(x, layers.Softmax(name="softmax")(scores))


def perceptron() -> keras.Model:
    """A hidden layer with a sigmoid, which is the head as well: a probability for every class."""
    layers, x = keras.layers, keras.Input((8, 8, 1))
    act = layers.Activation("sigmoid", name="act")
    return keras.Model(x, act(layers.Dense(10)(act(layers.Dense(32)(layers.Flatten()(x))))))


def train(build, loss: str, epochs: int, digits: Digits) -> tuple[keras.Model, float]:
    """Return a trained network, and how many of the other digits it gets right."""
    keras.utils.set_random_seed(0)
    model = build()
    model.compile(keras.optimizers.Adam(0.01), loss, steps_per_execution=12, jit_compile=False)
    model.fit(digits.x_train, keras.utils.to_categorical(digits.y_train), batch_size=32, epochs=epochs, verbose=0)
    return model, float(np.mean(model(digits.x_test).numpy().argmax(1) == digits.y_test))


def explained(model, x: np.ndarray, classes: np.ndarray) -> dict[str, np.ndarray]:
    """Return a map `[n, 8, 8]` of each method."""
    found = {}
    for method, (_, options) in METHODS.items():
        explanation = getattr(tfjac.explanations, method)(model, x, class_index=classes, **options)
        found[method] = np.reshape(explanation.attributions, [-1, 8, 8])
    return found


def gradient_times_activation(scores, x: tf.Tensor, node: str) -> tf.Tensor:
    """Return for every class `[n, classes]` the sum of gradient × activation at a node: a method of one's own."""
    jacobian = tfjac.batch_jacobian(lambda: scores(x), node)
    return tf.einsum("nkhwc,nhwc->nk", jacobian, tfjac.values_at(scores, node)(x))


def of_saved_model(model: keras.Model, x: np.ndarray, classes: np.ndarray) -> dict[str, np.ndarray]:
    """Save the model, load it, and explain what is left: a graph."""
    with tempfile.TemporaryDirectory() as folder:
        model.export(folder, verbose=False)
        return explained(tf.saved_model.load(folder), x, classes)


def save_plot(images: np.ndarray, classes: np.ndarray, maps: dict[str, np.ndarray], path: pathlib.Path) -> None:
    """Draw a row for each image, and a column for each method, with one scale for each column."""
    figure, axes = plt.subplots(len(images), len(maps) + 1, figsize=(9.2, 8.2), layout="constrained")
    pictures = np.reshape(images, [-1, 8, 8])
    for axis, picture, digit in zip(axes[:, 0], pictures, classes, strict=True):
        axis.imshow(picture, cmap="gray_r")
        axis.set_ylabel(f"a {digit}", rotation=0, ha="right", va="center", fontsize=13)
    axes[0, 0].set_title("image")
    for column, (method, drawn) in zip(axes.T[1:], maps.items(), strict=True):
        size = float(np.percentile(np.abs(drawn), 99.5))
        limits = {"cmap": "magma_r", "vmin": 0.0} if method == "grad_cam" else {"cmap": "RdBu_r", "vmin": -size}
        smooth = "bicubic" if method == "grad_cam" else "nearest"
        for axis, picture, values in zip(column, pictures, drawn, strict=True):
            shown = axis.imshow(values, vmax=size, interpolation=smooth, **limits)
            axis.contour(picture, levels=[0.4 * picture.max()], colors="black", linewidths=0.9, alpha=0.7)
        column[0].set_title(METHODS[method][0])
        bar = figure.colorbar(shown, ax=column, location="bottom", shrink=0.9, aspect=12)
        bar.ax.tick_params(labelsize=8)
    for axis in axes.flat:
        axis.set(xticks=[], yticks=[])
    figure.suptitle("What speaks for the class (red) and against it (blue)")
    save_figure(figure, path)


def main(arguments: list[str] | None = None) -> dict[str, float]:
    """Train and explain both networks; return accuracies, gaps, and what the reloaded model's maps differ by."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--plot", type=pathlib.Path, default=PLOT, help="where to draw")
    options = parser.parse_args(arguments)
    digits = load_digits()
    x, classes, results = digits.x_test[:SHOWN], digits.y_test[:SHOWN], {}
    print(f"{'network':30s}{'test accuracy':>15s}{'largest contribution':>22s}{'gap of their sum':>18s}")
    runs = (
        (perceptron, "its sigmoids", "binary_crossentropy", 10),
        (convolutional, "before softmax", "categorical_crossentropy", 30),
    )
    for build, output, loss, epochs in runs:
        model, accuracy = train(build, loss, epochs, digits)
        change = tfjac.explanations.deep_lift(model, x, classes, score_at=None if build is convolutional else "act[1]")
        name, gap = build.__name__, float(np.abs(change.gap).max())
        results |= {f"{name} accuracy": accuracy, f"{name} gap": gap}
        print(f"{f'{name}, {output}':30s}{accuracy:15.1%}{np.abs(change.attributions).max():22.4f}{gap:18.1e}")

    maps, again = explained(model, x, classes), of_saved_model(model, x, classes)
    differences = [np.abs(maps[method] - again[method]).max() / np.abs(maps[method]).max() for method in METHODS]
    results["saved"] = float(max(differences))
    print(f"all methods on the SavedModel: differ by {results['saved']:.1e} (relative)")
    shares = gradient_times_activation(tfjac.values_at(model, "scores"), tf.constant(x), "act[1]").numpy()
    print("gradient × activation behind the second convolution, by class:")
    for digit, row in zip(classes, shares, strict=True):
        print(f"  a {digit}: " + " ".join(f"{share:7.2f}" for share in row))
    results["explained"] = float(np.mean(shares.argmax(1) == classes))
    save_plot(x, classes, maps, options.plot)
    print(f"plot: {options.plot}")
    return results


if __name__ == "__main__":
    main()
