"""Products of Jacobians through their factors, against the same through the dense Jacobian."""

import itertools

import tensorflow as tf

import tfjac
from benchmarks import models
from benchmarks.floors import Floor
from benchmarks.questions import Case, question


def _title(layers, examples) -> str:
    return f"{'-'.join(map(str, layers))}, {examples} examples"


def _dense_rows(model, x):
    """The Jacobian by TensorFlow's fastest way, as one matrix `[n·m, p]`."""
    jacobian = models.vectorized_jacobian(model, x)

    def rows():
        blocks = jacobian()
        n, m = blocks[0].shape[:2]
        return tf.concat([tf.reshape(block, [n * m, -1]) for block in blocks], axis=1)

    return rows


def _candidates(model, x, product, of_rows, dense=True) -> dict:
    """A product through the factors, and the same through dense Jacobians: tfjac's and TensorFlow's."""
    variables = model.trainable_variables
    rows = _dense_rows(model, x)
    ways = {"tfjac": lambda: product(tfjac.jacobian_operator(model(x), variables))}
    if dense:
        ways["through tfjac's dense J"] = lambda: of_rows(tfjac.jacobian_operator(model(x), variables).to_dense())
        ways["through vectorized_map's J"] = lambda: of_rows(rows())
    return {name: tf.function(way) for name, way in ways.items()}


@question("kernel")
def kernel(quick: bool):
    """J·Jᵀ, the kernel of a network, from all pairs of examples and outputs."""
    sizes = [((784, 16, 10), 256), ((784, 128, 64, 10), 100), ((784, 1024, 1024, 10), 100)]
    for layers, examples in [((20, 16, 4), 32)] if quick else sizes:
        model, x = models.mlp(layers), models.inputs(examples, layers[0])
        dense = model.count_params() < 200_000  # beyond, the dense Jacobian has gigabytes
        candidates = _candidates(model, x, lambda operator: operator.kernel(), _outer, dense)
        rows = examples * layers[-1]
        # Symmetric: half of examples² · inputs and half of rows² · outputs products, for each layer.
        flops = sum(examples**2 * i + rows**2 * o for i, o in itertools.pairwise(layers))
        targets = {name: 30.0 for name in candidates if name != "tfjac"}
        yield Case(_title(layers, examples), candidates, Floor(bytes_written=4 * rows**2, flops=flops), targets)


def _outer(rows):
    return tf.matmul(rows, rows, transpose_b=True)


@question("gram")
def gram(quick: bool):
    """Jᵀ·J, the Gauss–Newton matrix of a sum of squares."""
    sizes = [((784, 16, 10), 256, 5.0), ((8, 50, 50, 1), 10_000, 2.0)]
    for layers, examples, aim in [((20, 16, 4), 32, 0.0)] if quick else sizes:
        model, x = models.mlp(layers), models.inputs(examples, layers[0])
        candidates = _candidates(model, x, lambda operator: operator.gram(), _inner)
        p = model.count_params()
        # Both symmetries used where there are several outputs: a quarter; with one output J is cheap, JᵀJ half.
        floor = Floor(bytes_written=4 * p**2, flops=examples * p**2 / (2 if layers[-1] > 1 else 1))
        yield Case(_title(layers, examples), candidates, floor, {name: aim for name in candidates if name != "tfjac"})


def _inner(rows):
    return tf.matmul(rows, rows, transpose_a=True)


@question("gram-vector")
def gram_vector(quick: bool):
    """Jᵀ·(J·v), the product that conjugate gradients needs, where Jᵀ·J itself would have gigabytes."""
    layers, examples = ((20, 16, 4), 32) if quick else ((784, 128, 64, 10), 100)
    model, x = models.mlp(layers), models.inputs(examples, layers[0])
    variables = model.trainable_variables
    rows = _dense_rows(model, x)
    v = models.inputs(model.count_params())

    def through_factors():
        operator = tfjac.jacobian_operator(model(x), variables)
        return operator.matvec(operator.matvec(v), adjoint=True)

    def through_dense():
        j = rows()
        return tf.linalg.matvec(j, tf.linalg.matvec(j, v), transpose_a=True)

    yield Case(
        _title(layers, examples),
        {"tfjac": tf.function(through_factors), "through vectorized_map's J": tf.function(through_dense)},
        Floor(bytes_written=4 * model.count_params(), flops=8 * examples * model.count_params()),
        targets={"through vectorized_map's J": 5.0},
    )
