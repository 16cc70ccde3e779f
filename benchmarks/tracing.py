"""What the first call costs: tracing, optimising the graph, running it once."""

import tensorflow as tf

import tfjac
from benchmarks import models
from benchmarks.questions import Case, question


def _first_calls(model, x) -> dict:
    """Each candidate traces a new `tf.function` and calls it once."""
    ways = {
        "tfjac": lambda: tfjac.per_example_jacobian(model(x), model.trainable_variables),
        "tape.jacobian": models.tape_jacobian(model, x),
        "vectorized_map of gradients": models.vectorized_jacobian(model, x),
    }
    return {name: lambda way=way: tf.function(way)() for name, way in ways.items()}


@question("first-call")
def first_call(quick: bool):
    """First call of a fresh tf.function that takes a per-example Jacobian."""
    cases = {
        "MLP 8-50-50-1, 100 examples": (models.mlp((8, 50, 50, 1)), models.inputs(100, 8)),
        "CNN, 8 images 16×16, 10 outputs": (models.small_cnn(), models.inputs(8, 16, 16, 1)),
    }
    for title, (model, x) in list(cases.items())[: 1 if quick else 2]:
        yield Case(title, _first_calls(model, x), targets={"tape.jacobian": 0.5})
