"""Explain what a network saw in handwritten digits: Grad-CAM, guided backpropagation, DeepLIFT.

    python examples/07_explanations.py [--plot FILE.png]

A perceptron and a small convolutional network, plain Keras, trained on 8 × 8 pixels for some seconds. Each uses one
activation layer twice, and the first has it for a head: where tools that hook layers give up. DeepLIFT's attributions
add up to the change of a score from that of a reference, an empty image; the gap is printed. The maps of the second
network are drawn over the digits, and Grad-CAM is made again from its SavedModel, of which no Python is left.
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

SHOWN = 6
NONLINEAR = ("Relu", "Sigmoid")
UNITS = {"Grad-CAM": "weighted channels", "guided\nbackpropagation": "gradient", "DeepLIFT": "part of the score"}
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


def of_classes(outputs: tf.Tensor, classes: np.ndarray) -> tf.Tensor:
    """The output `[n]` of each row's class."""
    return tf.gather(outputs, classes, axis=1, batch_dims=1)


def grad_cam(scores, x: tf.Tensor, classes: np.ndarray, node: str) -> tf.Tensor:
    """Return maps `[n, height, width]`: the channels of a node, weighted by their mean gradients."""
    gradients, values = tfjac.node_gradients(lambda: of_classes(scores(x), classes), node, values=True)
    return tf.nn.relu(tf.einsum("nhwc,nc->nhw", values, tf.reduce_mean(gradients, [1, 2])))


def guided_backpropagation(scores, x: tf.Tensor, classes: np.ndarray) -> tf.Tensor:
    """Return the gradient at the pixels, of which each ReLU passes what is positive."""
    guided = tfjac.intercept(scores, rules={"Relu": tfjac.rules.guided})
    return tfjac.vjp(lambda: of_classes(guided(x), classes), x)


def deep_lift(scores, x: tf.Tensor, reference: tf.Tensor, classes: np.ndarray) -> tuple[np.ndarray, float]:
    """Return what each pixel contributes to the change of the score, and by how much the sums miss that change."""
    both, n = tf.concat([x, reference], 0), len(x)
    nonlinear = lambda node: node.kind == "op" and node.op_type in NONLINEAR  # noqa: E731
    ruled = tfjac.intercept(scores, rules={nonlinear: tfjac.rules.rescale})
    with tf.GradientTape() as tape:
        tape.watch(both)
        outputs = ruled(both)
        chosen = of_classes(outputs[:n], classes)
    contributions = (tape.gradient(chosen, both)[:n] * (x - reference)).numpy()
    change = chosen - of_classes(outputs[n:], classes)
    return contributions, float(tf.reduce_max(tf.abs(contributions.sum((1, 2, 3)) - change)))


def gradient_times_activation(scores, x: tf.Tensor, node: str) -> tf.Tensor:
    """Return for every class `[n, classes]` the sum of gradient × activation at a node."""
    jacobian = tfjac.batch_jacobian(lambda: scores(x), node)
    return tf.einsum("nkhwc,nhwc->nk", jacobian, tfjac.values_at(scores, node)(x))


def grad_cam_of_saved_model(model: keras.Model, x: tf.Tensor, classes: np.ndarray) -> tf.Tensor:
    """Save the model, load it, and make the maps from what is left: a graph."""
    with tempfile.TemporaryDirectory() as folder:
        model.export(folder, verbose=False)
        loaded = tf.saved_model.load(folder)
        return grad_cam(tfjac.values_at(loaded.serve, "scores"), x, classes, "act[1]")


def save_plot(images: np.ndarray, classes: np.ndarray, maps: dict[str, np.ndarray], path: pathlib.Path) -> None:
    """Draw the images, and below them each map over the image, with one scale for each kind of map."""
    figure, axes = plt.subplots(len(maps) + 1, len(images), figsize=(9.0, 6.4), layout="constrained")
    pictures = np.reshape(images, [-1, 8, 8])
    for axis, picture, digit in zip(axes[0], pictures, classes, strict=True):
        axis.imshow(picture, cmap="gray")
        axis.set_title(f"a {digit}")
    axes[0, 0].set_ylabel("image")
    for row, (name, drawn) in zip(axes[1:], maps.items(), strict=True):
        size = float(np.abs(drawn).max())
        limits = {"cmap": "inferno", "vmin": 0.0} if name == "Grad-CAM" else {"cmap": "RdBu", "vmin": -size}
        for axis, picture, values in zip(row, pictures, np.reshape(drawn, [-1, 8, 8]), strict=True):
            axis.imshow(1.0 - picture, cmap="gray", vmin=0.0, vmax=1.0)
            shown = axis.imshow(values, vmax=size, alpha=0.75, **limits)
        row[0].set_ylabel(name)
        figure.colorbar(shown, ax=row, shrink=0.9, label=UNITS[name])
    for axis in axes.flat:
        axis.set(xticks=[], yticks=[])
    save_figure(figure, path)


def main(arguments: list[str] | None = None) -> dict[str, float]:
    """Train and explain both networks; return accuracies, gaps, and what the reloaded model's maps differ by."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--plot", type=pathlib.Path, default=PLOT, help="where to draw")
    options = parser.parse_args(arguments)
    digits = load_digits()
    x, classes, results = tf.constant(digits.x_test[:SHOWN]), digits.y_test[:SHOWN], {}
    print(f"{'network':30s}{'test accuracy':>15s}{'largest contribution':>22s}{'gap of their sum':>18s}")
    runs = (
        (perceptron, "its sigmoids", "binary_crossentropy", 10),
        (convolutional, "before softmax", "categorical_crossentropy", 30),
    )
    for build, output, loss, epochs in runs:
        model, accuracy = train(build, loss, epochs, digits)
        explained = tfjac.values_at(model, "scores") if build is convolutional else model
        contributions, gap = deep_lift(explained, x, tf.zeros_like(x), classes)
        name = build.__name__
        results |= {f"{name} accuracy": accuracy, f"{name} gap": gap}
        print(f"{f'{name}, {output}':30s}{accuracy:15.1%}{np.abs(contributions).max():22.4f}{gap:18.1e}")

    maps = grad_cam(explained, x, classes, "act[1]")
    guided = guided_backpropagation(explained, x, classes)
    again = grad_cam_of_saved_model(model, x, classes)
    results["saved"] = float(tf.reduce_max(tf.abs(maps - again)) / tf.reduce_max(maps))
    print(f"Grad-CAM of the SavedModel: differs by {results['saved']:.1e} (relative)")
    shares = gradient_times_activation(explained, x, "act[1]").numpy()
    print("gradient × activation behind the second convolution, by class:")
    for digit, row in zip(classes, shares, strict=True):
        print(f"  a {digit}: " + " ".join(f"{share:7.2f}" for share in row))
    results["explained"] = float(np.mean(shares.argmax(1) == classes))
    save_plot(
        x, classes, {"Grad-CAM": maps, "guided\nbackpropagation": guided, "DeepLIFT": contributions}, options.plot
    )
    print(f"plot: {options.plot}")
    return results


if __name__ == "__main__":
    main()
