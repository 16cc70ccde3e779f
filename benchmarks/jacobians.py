"""Per-example Jacobians of feed-forward models, with respect to their weights."""

from collections.abc import Iterator

import tensorflow as tf

import tfjac
from benchmarks import models
from benchmarks.floors import Floor
from benchmarks.questions import Case, question

TENSORFLOWS_WAYS = {
    "tape.jacobian": models.tape_jacobian,
    "vectorized_map of gradients": models.vectorized_jacobian,
    "vectorized_map of tape.jacobian": models.nested_jacobian,
}


def jacobian_cases(title, model, x, floor, aims, jax_jacobian=None) -> Iterator[Case]:
    """tfjac against TensorFlow's ways, each as a `tf.function`; then all of them compiled by XLA, next to JAX.

    Args:
        aims: way → the ratio of its time to tfjac's that is aimed at, without XLA and with it.
    """
    variables = model.trainable_variables
    ways = {"tfjac": lambda: tfjac.per_example_jacobian(model(x), variables)}
    ways |= {name: way(model, x) for name, way in TENSORFLOWS_WAYS.items()}
    yield Case(title, {name: tf.function(way) for name, way in ways.items()}, floor, aims[False])
    compiled = {f"{name}, XLA": tf.function(way, jit_compile=True) for name, way in ways.items()}
    if jax_jacobian is not None and models.HAS_JAX:
        compiled["JAX vmap(jacrev)"] = jax_jacobian(model, x)
    yield Case(f"{title}, XLA", compiled, floor, {f"{name}, XLA": ratio for name, ratio in aims[True].items()})


def jacobian_floor(model, examples: int, outputs: int) -> Floor:
    """Every entry of the Jacobian must be written once, and takes at least one multiplication."""
    entries = examples * outputs * model.count_params()
    return Floor(bytes_written=4 * entries, flops=entries)


@question("mlp-jacobian")
def mlp_jacobian(quick: bool):
    """Per-example Jacobian of multilayer perceptrons against tape.jacobian and vectorized_map."""
    sizes = [((1, 20, 1), 1000), ((1, 20, 20, 1), 1000), ((8, 50, 50, 1), 1000), ((32, 64, 64, 8), 256)]
    sizes += [((784, 16, 10), 64), ((784, 128, 10), 64)]
    never_much_slower = dict.fromkeys(TENSORFLOWS_WAYS, 1 / 1.1)
    for layers, examples in sizes[:1] if quick else sizes:
        model, x = models.mlp(layers), models.inputs(examples, layers[0])
        title = f"{'-'.join(map(str, layers))}, {examples:,} examples"
        floor = jacobian_floor(model, examples, layers[-1])
        aims = {False: never_much_slower, True: never_much_slower}
        yield from jacobian_cases(title, model, x, floor, aims, models.jax_mlp_jacobian)


@question("cnn-jacobian")
def cnn_jacobian(quick: bool):
    """Per-example Jacobian of a small convolutional network."""
    examples = 8 if quick else 32
    model, x = models.small_cnn(), models.inputs(examples, 16, 16, 1)
    aims = {"tape.jacobian": 5.0, "vectorized_map of gradients": 2.0, "vectorized_map of tape.jacobian": 2.0}
    floor = jacobian_floor(model, examples, 10)
    yield from jacobian_cases(f"{examples} images 16×16, 10 outputs", model, x, floor, {False: aims, True: {}})
