"""Steps that damping holds back gain little each, and per cents together: they must have stopped to for convergence."""

import itertools

import keras
import numpy as np
import pytest
import scipy.optimize
import tensorflow as tf

import tfjac
from tfjac.optimizers import Status, TrustRegionDamping, least_squares, least_squares_by_parts, normal_equations
from tfjac.steps.converge import LONG, Stretch, Tolerances, standing_of
from tfjac.steps.records import Report

UNITS, LIMITS = 15, Tolerances(cost=1e-3, step=0.0, gradient=0.0)


def noisy(seed):
    """200 examples of a wave with as much noise: no network of 15 units comes near."""
    generator = np.random.default_rng(seed)
    x = generator.normal(size=(200, 4)).astype("float32")
    return x, (np.sin(x.sum(axis=1)) + generator.normal(size=200)).astype("float32")[:, None]


def network(seed):
    keras.utils.set_random_seed(seed)
    return keras.Sequential([keras.Input((4,)), keras.layers.Dense(UNITS, "tanh"), keras.layers.Dense(1)])


def split(weights):
    """Kernel, bias, kernel and bias of the network, from one vector."""
    kernel, bias, last, offset = np.split(weights, np.cumsum([4 * UNITS, UNITS, UNITS]))
    return kernel.reshape(4, UNITS), bias, last, offset


def error(weights, x, y):
    kernel, bias, last, offset = split(weights)
    return np.tanh(x @ kernel + bias) @ last + offset - y[:, 0]


def rows(weights, x, y):
    """J, in NumPy."""
    kernel, bias, last, _ = split(weights)
    hidden = np.tanh(x @ kernel + bias)
    slope = last * (1 - hidden**2)
    return np.hstack([(x[:, :, None] * slope[:, None]).reshape(len(x), -1), slope, hidden, np.ones((len(x), 1))])


def gain_of_further_steps(weights, x, y, steps=50):
    """By which part SciPy lowers the cost from there, in float64."""
    start, data = np.asarray(weights, float), (x.astype(float), y.astype(float))
    never = dict.fromkeys(("ftol", "xtol", "gtol"), 1e-15)
    found = scipy.optimize.least_squares(error, start, rows, args=data, max_nfev=steps, **never)
    return 1 - found.cost / (error(start, *data) @ error(start, *data) / 2)


def flat(model):
    return np.concatenate([weight.ravel() for weight in model.get_weights()])


@pytest.mark.by_day(None)
def test_a_training_ends_where_little_is_left():
    """By each step alone, it ended where SciPy gained 4.7 % in 50 steps."""
    model, (x, y) = network(2), noisy(2)
    history = tfjac.fit(model, x, y)
    assert history.status is Status.COST_TOLERANCE
    assert gain_of_further_steps(flat(model), x, y) < 0.01


@pytest.mark.by_day(None)
def test_a_minimisation_has_not_converged_while_it_gains():
    """By each step alone, it had COST_TOLERANCE after 206 steps, and 3 % left for the next 50.

    Steps that learn the curvature of the residuals get there in that time.
    """

    def after_250_steps(learns):
        model, (x, y) = network(2), noisy(2)
        damping = TrustRegionDamping(residual_curvature=learns)
        result = least_squares(lambda: model(x) - y, model.trainable_variables, max_steps=250, damping=damping)
        return result.success, gain_of_further_steps(flat(model), x, y)

    (alone, left), (with_curvature, rest) = after_250_steps(False), after_250_steps(True)
    assert not alone and with_curvature and left > 0.01 > rest


def test_stretches_against_a_loop():
    """The number of steps since F was last lowered by a thousandth, for three fits at once."""
    generator = np.random.default_rng(0)
    falls = np.where(generator.uniform(size=(90, 3)) < [0.02, 0.1, 0.5], 0.01, 1e-5)
    costs = np.cumprod(np.vstack([[3.0, -2.0, 1.0], 1 - falls * np.array([1, -1, 1])]), axis=0)
    stretch, mark, since = Stretch.begun(tf.zeros([3], tf.float64)), costs[0].copy(), np.zeros(3, int)
    seen = set()
    for before, after in itertools.pairwise(costs):
        stretch = stretch.after(report(cost=after, reduction=before - after), LIMITS)
        for k in range(3):
            fallen = mark[k] - after[k] > 1e-3 * abs(mark[k])
            mark[k], since[k] = (after[k], 0) if fallen else (mark[k], since[k] + 1)
        np.testing.assert_array_equal(stretch.steps, since)
        np.testing.assert_array_equal(stretch.is_long, since >= LONG)
        seen.update(map(bool, stretch.is_long.numpy()))
    assert seen == {True, False}


def report(**numbers):
    values = {name: tf.constant(numbers.get(name, 0.0), tf.float64) for name in Report._fields}
    return Report(**values)._replace(status=tf.constant(int(Status.RUNNING)), attempts=tf.constant(1))


@pytest.mark.parametrize(
    "held, is_long, status",
    [
        (0.5, False, Status.RUNNING),
        (0.5, True, Status.COST_TOLERANCE),
        (0.05, False, Status.COST_TOLERANCE),  # damping has no part in it
    ],
)
def test_which_points_are_asked_for_progress(held, is_long, status):
    step = report(cost=1.0, predicted=5e-4, promised=5e-4, held=held * 5e-4, cosine=0.01)
    assert Status(int(standing_of(step, LIMITS, first_cost=2.0, is_long=is_long))) is status


def predicted(weights, x):
    """Many networks at once, `[fits, 91]`."""
    kernel, bias, last, offset = tf.split(weights, [4 * UNITS, UNITS, UNITS, 1], axis=1)
    hidden = tf.tanh(tf.matmul(x, tf.reshape(kernel, [-1, 4, UNITS])) + bias[:, None])
    return tf.linalg.matvec(hidden, last) + offset


@pytest.mark.by_day(None)
def test_many_fits():
    """By each step alone, the second had COST_TOLERANCE after 199 steps, and SciPy gained 6 % in 50."""
    starts, (x, y) = np.stack([flat(network(seed)) for seed in (0, 2)]), noisy(2)
    many = tf.Variable(starts)
    result = least_squares(lambda w: predicted(w, x) - y[:, 0], many, batch_dims=1, max_steps=220)
    for success, weights in zip(result.success, many.numpy()):
        assert not success or gain_of_further_steps(weights, x, y) < 0.01


@pytest.mark.by_day(None)
def test_sums_by_hand():
    """By each step alone, it had COST_TOLERANCE after 266 steps, and SciPy gained 4 % in 50."""
    start, (x, y) = flat(network(0)), noisy(2)
    one = tf.Variable(start[None])

    def total(position):
        one.assign(np.asarray(position, "float32")[None])
        return normal_equations(lambda: tf.reshape(predicted(one, x) - y[:, 0], [-1]), [one])

    found = least_squares_by_parts(total, start, max_steps=280)
    assert not Status(int(found.status)).converged or gain_of_further_steps(found.x, x, y) < 0.01
