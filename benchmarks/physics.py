"""Physics-informed networks: a whole training to an error of the solution that is given."""

import keras
import numpy as np
import tensorflow as tf

from benchmarks.questions import Case, question
from benchmarks.training import Training


def poisson(*widths: int) -> Training:
    """-Δu = 2π² sin(πx) sin(πy) on the unit square, 900 points inside and 120 on the border; float64.

    The problem of J. Müller, M. Zeinhofer, "Achieving high accuracy with PINNs via energy natural gradient descent",
    2023. What is to fall is the root mean square error of u at 9,000 points.
    """
    keras.utils.set_random_seed(1)
    hidden = [keras.layers.Dense(width, "tanh", dtype="float64") for width in widths]
    network = keras.Sequential([keras.Input((2,), dtype="float64"), *hidden, keras.layers.Dense(1, dtype="float64")])
    along = (np.arange(30) + 0.5) / 30
    inside = tf.constant(np.stack(np.meshgrid(along, along), -1).reshape(-1, 2))
    sides = [np.stack(ends, 1) for at in (0.0, 1.0) for ends in ((along, 0 * along + at), (0 * along + at, along))]
    border, grid = tf.constant(np.concatenate(sides)), tf.constant(np.random.default_rng(0).uniform(size=(9000, 2)))
    source = 2 * np.pi**2 * tf.reduce_prod(tf.sin(np.pi * inside), axis=1)
    solution = tf.reduce_prod(tf.sin(np.pi * grid), axis=1, keepdims=True)

    def laplacian():
        coordinates, total = tf.unstack(inside, axis=1), 0.0
        for x in coordinates:
            with tf.GradientTape() as outer:
                outer.watch(x)
                with tf.GradientTape() as inner:
                    inner.watch(x)
                    u = network(tf.stack(coordinates, 1))
                slope = inner.gradient(u, x)
            total += outer.gradient(slope, x)
        return total

    def loss(_):
        equation = laplacian() + source
        return tf.reduce_mean(tf.square(equation)) + tf.reduce_mean(tf.square(network(border)))

    def error():
        return tf.sqrt(tf.reduce_mean(tf.square(network(grid) - solution)))

    return Training(network.trainable_variables, loss, 900, error, every=10)


@question("poisson")
def poissons_equation(quick: bool):
    """From one start to one error of the solution: Poisson's equation solved by a network."""
    cases = {"2-16-1, error 0.1": ((16,), 0.1)}
    if not quick:
        cases = {
            "2-64-1, error 1e-3": ((64,), 1e-3),
            "the same, error 1e-5": ((64,), 1e-5),
        }
    for title, (widths, target) in cases.items():
        case = poisson(*widths)
        candidates = {"tfjac": case.levenberg_marquardt(target)}
        if target >= 1e-3:  # below, it takes minutes
            candidates["SciPy L-BFGS"] = case.lbfgs(target)
        if target >= 1e-2:
            candidates["Adam"] = case.adam(target)
        yield Case(title, candidates, tolerance=None)
