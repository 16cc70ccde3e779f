"""Steps to where J is not finite are taken back, and where a fit ends at such a point, the op and the row are named."""

import numpy as np
import pytest
import scipy.optimize
import tensorflow as tf

import tfjac
from tfjac.optimizers import Status, TrustRegionDamping, least_squares

DOSE = np.array([0.0, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0])
TRUTH = np.array([0.1, 3.0, 2.0, 1.3])


class Loop(TrustRegionDamping):
    """A damping that a user has made, like the default."""


def response(dose, low, high, middle, slope):
    """With a slope below one, the derivative by `middle` is 0 · ∞ at a dose of zero."""
    power = (dose / middle) ** slope
    return high + (low - high) / (1 + power)


DATA = response(DOSE, *TRUTH)
WAYS = {
    "op": {}, "loop": {"damping": Loop()}, "nielsen": {"damping": "nielsen"}, "radius": {"damping": "radius"},
    "multiplicative": {"damping": "multiplicative"}, "window": {"window": 3}, "cholesky": {"solver": "cholesky"},
}  # fmt: skip


@pytest.mark.by_day(one_in=7)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("start", [[0.2, 2.0, 10.0, 4.0], [0.2, 2.0, 1.0, 2.0]])
def test_such_a_step_is_taken_back(way, start):
    with np.errstate(all="ignore"):
        known, _ = scipy.optimize.curve_fit(response, DOSE, DATA, p0=start)
    np.testing.assert_allclose(known, TRUTH, rtol=1e-6)
    fit = tfjac.curve_fit(response, DOSE, DATA, p0=start, **WAYS[way])
    assert fit.success
    np.testing.assert_allclose(fit.popt, known, rtol=1e-6)


@pytest.mark.by_day(None)
def test_of_many_fits_too():
    start = tf.Variable(np.array([[0.2, 2.0, 10.0, 4.0], [0.2, 2.0, 1.0, 2.0]]))
    result = least_squares(lambda p: response(DOSE, *tf.split(p, 4, axis=1)) - DATA, start, batch_dims=1)
    assert result.success.all()
    np.testing.assert_allclose(start.numpy(), [TRUTH, TRUTH], rtol=1e-6)


@pytest.mark.by_day(None)
@pytest.mark.parametrize("way", ["op", "loop", "nielsen", "window"])
def test_a_barrier_is_not_crossed(way):
    """J is infinite below x = 1, and what is left at x = 1 is no minimum."""

    @tf.custom_gradient
    def walled(x):
        return x - 0.5, lambda upstream: tf.where(x < 1, np.nan * x, tf.ones_like(x)) * upstream

    x = tf.Variable([3.0], dtype=tf.float64)
    result = least_squares(lambda: walled(tf.identity(x)), x, **WAYS[way])
    costs = result.history.cost
    assert 1 <= x.numpy()[0] < 1.01 and result.status in (Status.STALLED, Status.MAX_STEPS)
    np.testing.assert_allclose([result.cost, costs[-1]], (x.numpy()[0] - 0.5) ** 2 / 2)
    assert np.isfinite(result.gradient_norm)


@pytest.mark.by_day(one_in=3)
@pytest.mark.parametrize("max_steps", [1, 2, 3])
def test_where_steps_run_out(max_steps):
    fit = least_squares(
        lambda p: tf.sqrt(tf.abs(p - 1)) * np.array([1.0, 2.0]) - 1 + p,
        tf.Variable([9.0], dtype=tf.float64),
        max_steps=max_steps,
        damping=Loop(),
    )
    assert np.isfinite([fit.cost, fit.gradient_norm, fit.x[0]]).all()


CASES = {
    "derivative": (lambda x: tf.stack([x[0], (x[1] - 2) ** x[0]]), "a derivative of residual 1", "Pow"),
    "value": (lambda x: tf.math.log(tf.stack([x[0], -x[1]])) * 2, "the value of residual 1", "Log"),
    "two tensors": (lambda x: [3 * x, tf.sqrt(x[:1] - 0.5) + x[1:]], "a derivative of residual 2", "Sqrt"),
}


@pytest.mark.by_day(None)
@pytest.mark.parametrize("name", CASES)
def test_the_op_and_the_row_are_named(name):
    function, what, op = CASES[name]
    result = least_squares(function, tf.Variable([0.5, 2.0], dtype=tf.float64))
    assert result.status is Status.NOT_FINITE
    assert what in result.message and f"of type {op}, at test_not_finite.py" in result.message


@pytest.mark.by_day(one_in=2)
@pytest.mark.parametrize("batched", [False, True])
def test_a_cost_out_of_range(batched):
    t, start = np.linspace(0.0, 2.0, 20), np.ones([3, 2])
    data = np.stack([2 * np.exp(-1.3 * t)] * 3)
    data[1, 3] = 1e300
    if batched:
        x = tf.Variable(start)
        given = {"args": (data,), "batch_dims": 1}
        result = least_squares(lambda p, y: p[:, :1] * tf.exp(-p[:, 1:] * t) - y, x, **given)
        assert list(result.success) == [True, False, True]
        status = Status(int(result.status[1]))
    else:
        x = tf.Variable(start[0])
        status = least_squares(lambda p: p[0] * tf.exp(-p[1] * t) - data[1], x).status
    assert status is Status.NOT_FINITE
