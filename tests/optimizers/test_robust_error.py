"""The robust loss for Keras: its values by SciPy's formulas, its steps by a reweighted system in NumPy."""

import keras
import numpy as np
import pytest
import scipy.special
import tensorflow as tf

import tfjac
from tests.optimizers.gauss_newton import first_step, flat_values, rows_of_jacobian

RNG = np.random.default_rng(3)
X, SCALE = RNG.normal(size=(20, 3)), 0.4
RHO = {  # ρ(z) and ρ'(z), where no formula of tfjac's is used
    "huber": (lambda z: 2 * scipy.special.huber(1, np.sqrt(z)), lambda z: 1 / np.maximum(1, np.sqrt(z))),
    "soft_l1": (lambda z: 2 * np.sqrt(1 + z) - 2, lambda z: 1 / np.sqrt(1 + z)),
    "cauchy": (lambda z: np.log(1 + z), lambda z: 1 / (1 + z)),
    "arctan": (np.arctan, lambda z: 1 / (1 + z**2)),
    "tukey": (lambda z: (1 - np.clip(1 - z, 0, None) ** 3) / 3, lambda z: np.clip(1 - z, 0, None) ** 2),
    "welsch": (lambda z: 1 - np.exp(-z), lambda z: np.exp(-z)),
    "geman_mcclure": (lambda z: z / (1 + z), lambda z: 1 / (1 + z) ** 2),
}


@pytest.mark.by_day(None)
@pytest.mark.parametrize("name", RHO)
def test_value_and_step(name):
    weight, y = tf.Variable(RNG.normal(size=(3, 2))), X @ RNG.normal(size=(3, 2))
    y[::4] += 3.0  # outliers
    weight.assign(weight + 0.1)
    loss = tfjac.RobustError(name, scale=SCALE, dtype="float64")
    weights = np.linspace(0.5, 2, 20)
    error = X @ weight.numpy() - y
    value, slope = RHO[name]
    np.testing.assert_allclose(loss(y, X @ weight), np.mean(SCALE**2 * value(error**2 / SCALE**2)), rtol=1e-12)
    residuals, jacobian = rows_of_jacobian(lambda: tf.constant(X) @ weight - y, [weight])
    scales = np.repeat(weights, 2) * 2 * slope(residuals**2 / SCALE**2) / residuals.size
    gram = jacobian.T @ (scales[:, None] * jacobian)
    expected = -np.linalg.solve(gram + 0.01 * np.diag(gram).max() * np.eye(6), jacobian.T @ (scales * residuals))
    before = flat_values([weight])
    step, _ = first_step(lambda: loss(y, tf.constant(X) @ weight, sample_weight=weights), [weight])
    np.testing.assert_allclose(step, expected, rtol=1e-6, atol=1e-9 * np.abs(before).max())


@pytest.mark.by_day(None)
def test_outliers_hardly_count_in_fit(tmp_path):
    x = np.linspace(-1, 1, 80)[:, None]
    clean = 2 * x + 0.5
    y = np.where(np.arange(80)[:, None] % 8 == 3, clean + 5, clean)
    keras.utils.set_random_seed(0)
    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
    model.compile(tfjac.LevenbergMarquardt(verify=True), loss=tfjac.RobustError("cauchy", scale=0.2))
    losses = model.fit(x, y, batch_size=80, epochs=15, verbose=0).history["loss"]
    assert (np.diff(losses) <= 1e-6).all()
    error = np.abs(model.predict(x, verbose=0) - clean).max()
    assert error < np.abs(np.polyval(np.polyfit(x[:, 0], y[:, 0], 1), x) - clean).max() / 20
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert loaded.loss.get_config() == model.loss.get_config()
    np.testing.assert_allclose(loaded.evaluate(x, y, verbose=0), model.evaluate(x, y, verbose=0), rtol=1e-6)


def test_bad_options():
    with pytest.raises(ValueError, match=r"Unknown loss; choose one of .*'tukey'.* Did you mean 'cauchy'"):
        tfjac.RobustError("couchy")
    with pytest.raises(ValueError, match=r"loss_scale must be a positive number. Received: loss_scale=0"):
        tfjac.RobustError(scale=0)


def test_a_history_is_drawn():
    b = tf.Variable([-1.2, 1.0], dtype=tf.float64)
    result = tfjac.least_squares(lambda: tf.stack([10 * (b[1] - b[0] ** 2), 1 - b[0]]), b)
    left, right = result.plot()
    cost = left.get_lines()[0].get_ydata()
    np.testing.assert_array_equal(cost[cost > 0], result.history.cost[result.history.cost > 0])
    drawn = [line.get_xdata() for line in right.get_lines()[:2]]
    assert [len(each) for each in drawn] == [result.history.accepted.sum(), (~result.history.accepted).sum()]
    assert result.plot((left, right)) == (left, right)
