"""Minimise and maximise at once: handwritten digits read upright, and learnt for turned ones without labels.

    python examples/08_adversarial_domains.py [--plot FILE.png]

A network reads digits, and is given turned ones, too, without their labels. From its features one head tells the
digit, another whether the picture was turned. At the node between features and second head the gradient is reversed:
the head learns to see the turn, and the features, in the same backward pass, to hide it, so that what was learnt of
upright digits holds for the others. The model is plain Keras, and `fit` its own; a hook is all there is.

Y. Ganin, V. Lempitsky, "Unsupervised domain adaptation by backpropagation", 2015.
"""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import argparse
import pathlib

import keras
import matplotlib.pyplot as plt
import numpy as np
import scipy.ndimage
import tensorflow as tf
from example_data import Digits, load_digits
from example_figures import save_figure

import tfjac

EPOCHS, BATCH, ANGLE, STRENGTH = 30, 128, 30, 0.3
PLOT = pathlib.Path(__file__).parent / "plots" / "08_adversarial_domains.png"


def turned(images: np.ndarray) -> np.ndarray:
    """Turn images `[n, 8, 8, 1]`."""
    return np.clip(scipy.ndimage.rotate(images, ANGLE, axes=(1, 2), reshape=False, order=1), 0, 1)


def network() -> keras.Model:
    """Features of an image, and two heads: the digit, and, behind a tap, the domain."""
    keras.utils.set_random_seed(0)
    layers, x = keras.layers, keras.Input((8, 8, 1))
    hidden = layers.Flatten()(layers.Conv2D(16, 3, activation="relu")(x))
    features = layers.Dense(64, activation="tanh", name="features")(hidden)
    digit = layers.Dense(10, name="digit")(features)
    seen = layers.Dense(32, activation="relu")(tfjac.tap(features, "to_domain"))
    return keras.Model(x, {"digit": digit, "domain": layers.Dense(1, name="domain")(seen)})


def train(digits: Digits, strength: float) -> keras.Model:
    """Train on upright digits with labels and on turned ones without; the reversed gradient grows to `strength`.

    With 0 no gradient of the second head reaches the features: it looks on.
    """
    model, n = network(), len(digits.x_train)
    losses = keras.losses
    steps = 2 * n // BATCH
    rate = keras.optimizers.schedules.CosineDecay(0.05, EPOCHS * steps)
    losses = {
        "digit": keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        "domain": keras.losses.BinaryCrossentropy(from_logits=True),
    }
    model.compile(keras.optimizers.SGD(rate, momentum=0.9), losses, jit_compile=False, steps_per_execution=steps)
    x, is_turned = np.concatenate([digits.x_train, turned(digits.x_train)]), np.repeat([0.0, 1.0], n)
    y = {"digit": np.concatenate([digits.y_train, np.zeros(n, int)]), "domain": is_turned}
    weights = {"digit": 2.0 * (1.0 - is_turned), "domain": np.ones(2 * n)}
    reversed_by = tf.Variable(0.0)
    growing = keras.callbacks.LambdaCallback(
        on_epoch_begin=lambda epoch, logs: reversed_by.assign(strength * np.tanh(5 * epoch / EPOCHS))
    )
    with tfjac.hook(model.get_layer("to_domain"), backward=tfjac.handlers.reverse(reversed_by)):
        model.fit(x, y, BATCH, EPOCHS, sample_weight=weights, callbacks=[growing], verbose=0)
    return model


def judged(model: keras.Model, digits: Digits) -> dict[str, float]:
    """Return how often each head is right about digits that were not trained on."""
    upright, other = model(digits.x_test), model(turned(digits.x_test))
    right = [np.mean(each["digit"].numpy().argmax(1) == digits.y_test) for each in (upright, other)]
    told = [np.mean(upright["domain"].numpy() < 0), np.mean(other["domain"].numpy() > 0)]
    return {"upright": float(right[0]), "turned": float(right[1]), "domain": float(np.mean(told))}


def save_plot(models: dict[str, keras.Model], digits: Digits, path: pathlib.Path) -> None:
    """Draw the features of upright and turned digits, in the plane in which they vary most."""
    figure, axes = plt.subplots(1, len(models), figsize=(8.0, 4.0), layout="constrained")
    for axis, (name, model) in zip(axes, models.items(), strict=True):
        of_images = tfjac.values_at(model, "features")
        both = [of_images(images).numpy() for images in (digits.x_test, turned(digits.x_test))]
        centre = np.concatenate(both).mean(0)
        _, _, directions = np.linalg.svd(np.concatenate(both) - centre, full_matrices=False)
        for features, label in zip(both, ("upright", "turned"), strict=True):
            axis.scatter(*((features - centre) @ directions[:2].T).T, s=8, label=label)
        axis.set(title=f"features, {name}", xlabel="first principal direction")
    axes[0].set_ylabel("second principal direction")
    axes[0].legend(title="test digits")
    save_figure(figure, path)


def main(arguments: list[str] | None = None) -> dict[str, dict[str, float]]:
    """Train with and without the reversed gradient; return how often each network is right."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--plot", type=pathlib.Path, default=PLOT, help="where to draw")
    options = parser.parse_args(arguments)
    digits = load_digits()
    models = {name: train(digits, strength) for name, strength in (("plain", 0.0), ("adversarial", STRENGTH))}
    results = {name: judged(model, digits) for name, model in models.items()}
    print(f"{'right about':14s}{'upright digits':>16s}{'turned digits':>16s}{'the domain':>14s}")
    for name, result in results.items():
        print(f"{name:14s}{result['upright']:16.1%}{result['turned']:16.1%}{result['domain']:14.1%}")
    save_plot(models, digits, options.plot)
    print(f"plot: {options.plot}")
    return results


if __name__ == "__main__":
    main()
