"""Physics-informed networks: a whole training to an error of the solution that is given.

The problems of J. Müller, M. Zeinhofer, "Achieving high accuracy with PINNs via energy natural gradient descent",
2023. Everything is in float64. The loss is the mean square of the equation's residuals plus that of the conditions;
what is to fall is the root mean square error of u at 9,000 points.
"""

from functools import partial

import keras
import numpy as np
import tensorflow as tf

from benchmarks.equations import Equation, poisson
from benchmarks.questions import Case, question
from benchmarks.training import Training


def training(equation: Equation, *widths: int, seed: int = 1) -> Training:
    """A perceptron of tanh layers that is to solve an equation.

    The score is the root mean square error of u at 9,000 points; with unknown coefficients, their largest relative
    error.
    """
    keras.utils.set_random_seed(seed)
    layers = [keras.layers.Dense(width, "tanh", dtype="float64") for width in widths]
    inputs = keras.Input((len(equation.low),), dtype="float64")
    network = keras.Sequential([inputs, *layers, keras.layers.Dense(1, dtype="float64")])
    grid, variables, coefficients = equation.points(9000), network.trainable_variables, ()
    expected = equation.solution(grid)[:, None]
    if equation.coefficients is not None:
        coefficients = (keras.Variable(equation.coefficients[0], dtype="float64"),)

    def at(points):
        coordinates = tf.unstack(tf.constant(points), axis=1)
        u = network(tf.stack(coordinates, 1))[:, 0]
        return u, lambda y, k: tf.gradients(y, coordinates[k])[0]

    def residuals():
        blocks = equation.residuals(at, *coefficients)
        return [block / np.sqrt(block.shape[0]) for block in blocks]

    def loss(_):
        return tf.add_n([tf.reduce_sum(tf.square(block)) for block in residuals()])

    def error():
        if coefficients:
            return tf.reduce_max(tf.abs(coefficients[0] / equation.coefficients[1] - 1))
        return tf.sqrt(tf.reduce_mean(tf.square(network(grid) - expected)))

    return Training([*variables, *coefficients], loss, 1, error, every=10, residuals=residuals)


@question("poisson")
def poissons_equation(quick: bool):
    """From one start to one error of the solution: Poisson's equation solved by a network."""
    cases = {"2-16-1, error 0.1": (poisson(2), (16,), 0.1, ("straight", "L-BFGS", "Adam"))}
    if not quick:  # peers where they take no minutes
        cases = {
            "2-64-1, error 1e-3": (poisson(2), (64,), 1e-3, ("straight", "L-BFGS")),
            "the same, error 1e-6": (poisson(2), (64,), 1e-6, ("straight",)),
            "2-64-64-48-48-1, error 1e-6": (poisson(2), (64, 64, 48, 48), 1e-6, ()),
            "5-64-1, five dimensions, error 1e-3": (poisson(5), (64,), 1e-3, ("straight",)),
        }
    for title, (equation, widths, target, peers) in cases.items():
        case = training(equation, *widths)
        candidates = {"tfjac": case.levenberg_marquardt(target, acceleration="geodesic")}
        others = {
            "straight": ("tfjac, straight steps", partial(case.levenberg_marquardt, acceleration=None)),
            "L-BFGS": ("SciPy L-BFGS", case.lbfgs),
            "Adam": ("Adam", case.adam),
        }
        candidates |= {others[peer][0]: others[peer][1](target) for peer in peers}
        yield Case(title, candidates, tolerance=None)
