"""What it costs to change gradients inside, against a backward pass that is left alone, and against PyTorch's hooks."""

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
