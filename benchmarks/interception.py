"""What it costs to change gradients inside, against a backward pass that is left alone, and against PyTorch's hooks."""

import os

import keras
import numpy as np
import tensorflow as tf

import tfjac
from benchmarks import models, torch_peers
from benchmarks.floors import Floor
from benchmarks.questions import Case, question

FACTOR, RATE = 0.5, 0.01
PLAIN, TORCH = "the same, nothing changed", "PyTorch, nothing changed"


@question("interception")
def interception(quick):
    """Gradients of a loss, and steps of SGD, with the gradient at every layer scaled on its way."""
    width, examples = (64, 32) if quick else (512, 256)
    model = models.mlp((width, width, width, 10))
    x, y = models.inputs(examples, width), models.inputs(examples, 10)
    scaled = tfjac.intercept(model, {layer: tfjac.handlers.scale(FACTOR) for layer in model.layers})
    floor = Floor(bytes_written=4 * model.count_params(), flops=6 * examples * model.count_params())
    for title, then in (("gradient", _as_it_is), ("step of SGD", _step)):
        candidates = {
            "tfjac.intercept": _compiled(scaled, model, x, y, then),
            "tf.custom_gradient in the model's code": _compiled(_by_hand(model), model, x, y, then),
            PLAIN: _compiled(model, model, x, y, then),
        }
        if torch_peers.HAS_TORCH:
            candidates |= _torch_candidates(model, x, y, then)
        yield Case(
            f"{width}-{width}-{width}-10, {examples} examples, {title}", candidates, floor, unlike=(PLAIN, TORCH)
        )


def _as_it_is(weights, gradients):
    return list(gradients)


def _step(weights, gradients):
    return [weight - RATE * gradient for weight, gradient in zip(weights, gradients, strict=True)]


def _compiled(function, model, x, y, then):
    variables = models.values(model)

    @tf.function
    def run():
        return then(variables, tf.gradients(tf.reduce_mean((function(x) - y) ** 2), variables))

    return run


def _by_hand(model):
    @tf.custom_gradient
    def scaled(value):
        return tf.identity(value), lambda gradient: FACTOR * gradient

    def function(x):
        for layer in model.layers:
            x = scaled(layer(x))
        return x

    return function


def _torch_candidates(model, x, y, then):
    """The same network in PyTorch, with a hook on every layer, and without."""
    import torch

    def candidate(network):
        given, wanted = torch.tensor(x.numpy()), torch.tensor(y.numpy())

        def run():
            loss = ((network(given) - wanted) ** 2).mean()
            weights = list(network.parameters())
            results = then(weights, torch.autograd.grad(loss, weights))
            return [part.detach().T.numpy() if part.ndim == 2 else part.detach().numpy() for part in results]

        return run

    hooked = torch_peers.perceptron(model)
    for module in hooked:
        module.register_full_backward_pre_hook(lambda module, gradients: tuple(FACTOR * part for part in gradients))
    return {"PyTorch, a hook on every layer": candidate(hooked), TORCH: candidate(torch_peers.perceptron(model))}


@question("explanations")
def explanations(quick):
    """Integrated gradients of 50 steps, and Grad-CAM, of a small CNN, in one call each, NumPy in and out."""
    size, examples, steps = (12, 4, 50) if quick else (28, 32, 50)
    keras.utils.set_random_seed(0)
    layers = keras.layers
    convolutions = [layers.Conv2D(c, 3, padding="same", activation="relu", name=f"conv_{c}") for c in (16, 32)]
    model = keras.Sequential([keras.Input((size, size, 1)), *convolutions, layers.GlobalAveragePooling2D()])
    model.add(layers.Dense(10))
    x = np.random.default_rng(0).normal(size=(examples, size, size, 1)).astype("float32")
    classes = np.arange(examples) % 10
    explain = tfjac.explanations
    integrated = {
        "tfjac.explanations": lambda: explain.integrated_gradients(model, x, classes, steps=steps).attributions,
        "a tape in a tf.function, a call for each step": _integrated_by_hand(model, x, classes, steps),
    }
    maps = {"tfjac.explanations": lambda: explain.grad_cam(model, x, "conv_32", classes).details["maps"]}
    for threads in (1, os.cpu_count() or 1) if torch_peers.HAS_CAPTUM else ():
        name = f"Captum, {threads} thread{'s' if threads > 1 else ''}"
        integrated[name], maps[name] = torch_peers.explainers(model, "conv_32", x, classes, steps, threads)
    yield Case(f"{examples} images {size}×{size}, integrated gradients", integrated)
    yield Case(f"{examples} images {size}×{size}, Grad-CAM", maps)


def _integrated_by_hand(model, x, classes, steps):
    places, weights = np.polynomial.legendre.leggauss(steps)

    @tf.function
    def gradient(points):
        with tf.GradientTape() as tape:
            tape.watch(points)
            scores = tf.gather(model(points), classes, axis=1, batch_dims=1)
        return tape.gradient(scores, points)

    def run():
        pairs = zip((1 + places) / 2, weights / 2)
        return x * sum(w * gradient(tf.constant((t * x).astype("float32"))).numpy() for t, w in pairs)

    return run
