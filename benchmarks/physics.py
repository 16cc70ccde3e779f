"""Physics-informed networks: a whole training to an error of the solution that is given.

The problems of J. Müller, M. Zeinhofer, "Achieving high accuracy with PINNs via energy natural gradient descent",
2023. Everything is in float64. The loss is the mean square of the equation's residuals plus that of the conditions;
what is to fall is the root mean square error of u at 9,000 points.
"""

import dataclasses
from collections.abc import Callable

import keras
import numpy as np
import tensorflow as tf

from benchmarks.questions import Case, question
from benchmarks.training import Training


@dataclasses.dataclass(frozen=True)
class Equation:
    """One boundary-value problem on the unit cube.

    Attributes:
        inside: points where the equation is to hold, `[n, coordinates]`.
        border: points where u is given, `[k, coordinates]`.
        residual: function of `along` to `[n]`: zero where u solves the equation. `along(k)` gives u and its first and
            second derivative with respect to coordinate k, each `[n]`.
        solution: function of NumPy points to u, `[n]`.
    """

    inside: np.ndarray
    border: np.ndarray
    residual: Callable
    solution: Callable


def poisson(dimensions: int) -> Equation:
    """-Δu = f on the unit cube: sin(πx) sin(πy) in two dimensions, Σ cos(πx) in more."""
    random = np.random.default_rng(0)
    if dimensions == 2:
        inside, border = _grid(30), _sides(30)
        solution, factor = lambda x: np.prod(np.sin(np.pi * x), axis=1), 2 * np.pi**2
    else:
        inside, border = random.uniform(size=(3000, dimensions)), random.uniform(size=(500, dimensions))
        border[np.arange(500), random.integers(dimensions, size=500)] = random.integers(2, size=500)
        solution, factor = lambda x: np.sum(np.cos(np.pi * x), axis=1), np.pi**2
    source = factor * solution(inside)

    def residual(along):
        return tf.add_n([along(k)[2] for k in range(dimensions)]) + source

    return Equation(inside, border, residual, solution)


def _grid(number):
    along = (np.arange(number) + 0.5) / number
    return np.stack(np.meshgrid(along, along), -1).reshape(-1, 2)


def _sides(number):
    """Points on the four sides of the unit square."""
    along = (np.arange(number) + 0.5) / number
    zero = 0 * along
    sides = (zero, along), (along, zero), (along, zero + 1), (zero + 1, along)
    return np.concatenate([np.stack(side, 1) for side in sides])


def training(equation: Equation, *widths: int) -> Training:
    """A perceptron of tanh layers that is to solve an equation."""
    keras.utils.set_random_seed(1)
    hidden = [keras.layers.Dense(width, "tanh", dtype="float64") for width in widths]
    inputs = keras.Input(equation.inside.shape[1:], dtype="float64")
    network = keras.Sequential([inputs, *hidden, keras.layers.Dense(1, dtype="float64")])
    inside, border = tf.constant(equation.inside), tf.constant(equation.border)
    given = equation.solution(equation.border)[:, None]
    grid = np.random.default_rng(0).uniform(size=(9000, equation.inside.shape[1]))
    expected = equation.solution(grid)[:, None]

    def along(k):
        coordinates = tf.unstack(inside, axis=1)
        with tf.GradientTape() as outer:
            outer.watch(coordinates[k])
            with tf.GradientTape() as inner:
                inner.watch(coordinates[k])
                u = network(tf.stack(coordinates, 1))[:, 0]
            slope = inner.gradient(u, coordinates[k])
        return u, slope, outer.gradient(slope, coordinates[k])

    def loss(_):
        equations = equation.residual(along)
        return tf.reduce_mean(tf.square(equations)) + tf.reduce_mean(tf.square(network(border) - given))

    def error():
        return tf.sqrt(tf.reduce_mean(tf.square(network(grid) - expected)))

    return Training(network.trainable_variables, loss, len(equation.inside), error, every=10)


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
            "straight": ("tfjac, straight steps", case.levenberg_marquardt),
            "L-BFGS": ("SciPy L-BFGS", case.lbfgs),
            "Adam": ("Adam", case.adam),
        }
        candidates |= {others[peer][0]: others[peer][1](target) for peer in peers}
        yield Case(title, candidates, tolerance=None)
