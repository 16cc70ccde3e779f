"""Random starts on hard problems, free, within bounds, and with robust losses: nothing raises, no NaN is left in a
variable, and the status is true."""

import numpy as np
import pytest
import tensorflow as tf

from tfjac.optimizers import LeastSquaresProblem, Status

from . import more_garbow_hillstrom as mgh

KINDS = {
    "Brown badly scaled": "free", "Meyer": "free", "Osborne 1": "free", "Wood": "free",
    "Powell badly scaled": "bounds", "helical valley": "bounds", "Osborne 2": "bounds", "Box 3D": "robust",
}  # fmt: skip


@pytest.mark.parametrize("name", KINDS)
def test_random_starts(name):
    function, start = mgh.PROBLEMS[name]
    rng, start, kind = np.random.default_rng(len(name)), np.array(start), KINDS[name]
    lower, upper = start - 2 * np.abs(start) - 1, start + np.abs(start) + 0.5
    options = {"free": {}, "bounds": {"bounds": (lower, upper)}, "robust": {"loss": "cauchy", "loss_scale": 0.1}}[kind]
    x = tf.Variable(start)
    problem = LeastSquaresProblem(lambda: function(x), x, max_steps=150, **options)
    for spread in (1.0, 3.0, 10.0, 100.0):
        first = start * rng.normal(scale=spread, size=start.size) + rng.normal(size=start.size)
        first = np.clip(first, lower, upper) if kind == "bounds" else first
        x.assign(first)
        result = problem.solve()
        assert np.isfinite(x.numpy()).all() and (result.history.reduction[result.history.accepted] > 0).all()
        if kind == "bounds":
            assert ((lower <= x.numpy()) & (x.numpy() <= upper)).all()
        check_status(result, function, first, kind, lower, upper)


def check_status(result, function, first, kind, lower, upper):
    """Hold what the status claims against the residuals and their gradient, taken by a tape."""
    x = tf.constant(result.x)
    with tf.GradientTape() as tape:
        tape.watch(x)
        r = function(x)
        cost = tf.reduce_sum(0.01 * tf.math.log1p(100 * r**2) if kind == "robust" else r**2) / 2
    gradient = tape.gradient(cost, x).numpy()
    if result.status is Status.NOT_FINITE:
        assert not np.isfinite(function(tf.constant(first)).numpy() ** 2).all() or not np.isfinite(gradient).all()
        return
    np.testing.assert_allclose(result.cost, cost, rtol=1e-9, atol=1e-20)
    held = (result.x <= lower) & (gradient > 0) | (result.x >= upper) & (gradient < 0) if kind == "bounds" else False
    gradient = np.where(held, 0, gradient)
    rounding = 1e-8 * np.linalg.norm(result.jacobian(), axis=0).max() * np.linalg.norm(r)  # the terms of Jᵀr may cancel
    np.testing.assert_allclose(result.gradient_norm, np.abs(gradient).max(), rtol=1e-5, atol=rounding)
    if result.status is Status.MAX_STEPS:
        assert result.steps == 150
