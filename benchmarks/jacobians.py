"""Per-example Jacobians of feed-forward models, with respect to their weights."""

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


def jacobian_candidates(model, x, jax_jacobian=None) -> dict:
    """tfjac and TensorFlow's ways, each as a `tf.function`, with and without XLA."""
    variables = model.trainable_variables
    ways = {"tfjac": lambda: tfjac.per_example_jacobian(model(x), variables)}
    ways |= {name: way(model, x) for name, way in TENSORFLOWS_WAYS.items()}
    candidates = {name: tf.function(way) for name, way in ways.items()}
    candidates |= {f"{name} + XLA": tf.function(way, jit_compile=True) for name, way in ways.items()}
    if jax_jacobian is not None and models.HAS_JAX:
        candidates["JAX vmap(jacrev)"] = jax_jacobian(model, x)
    return candidates


def jacobian_floor(model, examples: int, outputs: int) -> Floor:
    """Every entry of the Jacobian must be written once, and takes at least one multiplication."""
    entries = examples * outputs * model.count_params()
    return Floor(bytes_written=4 * entries, flops=entries)


@question("mlp-jacobian")
def mlp_jacobian(quick: bool):
    """Per-example Jacobian of multilayer perceptrons against tape.jacobian and vectorized_map."""
    sizes = [((1, 20, 1), 1000), ((1, 20, 20, 1), 1000), ((8, 50, 50, 1), 1000), ((32, 64, 64, 8), 256)]
    sizes += [((784, 16, 10), 64), ((784, 128, 10), 64)]
    for layers, examples in sizes[:1] if quick else sizes:
        model, x = models.mlp(layers), models.inputs(examples, layers[0])
        yield Case(
            f"{'-'.join(map(str, layers))}, {examples:,} examples",
            jacobian_candidates(model, x, models.jax_mlp_jacobian),
            jacobian_floor(model, examples, layers[-1]),
            targets={name: 1 / 1.1 for way in TENSORFLOWS_WAYS for name in (way, f"{way} + XLA")},
        )


@question("cnn-jacobian")
def cnn_jacobian(quick: bool):
    """Per-example Jacobian of a small convolutional network."""
    examples = 8 if quick else 32
    model, x = models.small_cnn(), models.inputs(examples, 16, 16, 1)
    yield Case(
        f"{examples} images 16×16, 10 outputs",
        jacobian_candidates(model, x),
        jacobian_floor(model, examples, 10),
        targets={
            "tape.jacobian": 5.0,
            "vectorized_map of gradients": 2.0,
            "vectorized_map of tape.jacobian": 2.0,
        },
    )
