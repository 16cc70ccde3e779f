"""Errors, intervals and summaries of fits, against SciPy, lmfit, and the formulas written out in NumPy."""

import json
import pathlib

import numpy as np
import pytest
import scipy.stats
import tensorflow as tf

from tfjac.optimizers import curve_fit, least_squares

X = np.linspace(0, 4, 25)
Y = 2.5 * np.exp(-1.3 * X) + 0.5 + 0.05 * np.cos(37 * X)
SIGMA = 0.02 * (1 + X)
LMFIT = json.loads((pathlib.Path(__file__).parents[1] / "data" / "lmfit" / "decay.json").read_text())
TIGHT = {"ftol": 1e-14, "xtol": 1e-14, "gtol": 1e-14}


def decay(x, amplitude, rate, offset):
    return amplitude * tf.exp(-rate * x) + offset


def gradients(b, x=X):
    """The derivatives of `decay`, by hand."""
    falling = np.exp(-b[1] * x)
    return np.stack([falling, -b[0] * x * falling, np.ones_like(x)], axis=1)


@pytest.mark.parametrize("case", LMFIT)
def test_the_figures_of_lmfit(case):
    options = {"plain": {}, "weighted": {"sigma": SIGMA}, "absolute": {"sigma": SIGMA, "absolute_sigma": True}}[case]
    result, known = curve_fit(decay, X, Y, [1, 1, 0], **options, **TIGHT), LMFIT[case]
    np.testing.assert_allclose(result.x, known["values"], rtol=1e-6)  # by finite differences
    np.testing.assert_allclose(result.standard_errors(), known["errors"], rtol=1e-5)
    np.testing.assert_allclose(result.correlation()[[0, 0, 1], [1, 2, 2]], known["correlation"], atol=1e-5)
    np.testing.assert_allclose(result.reduced_chi_square, known["reduced_chi_square"], rtol=1e-7)
    lower, upper = result.confidence_band(np.array([0.5, 3.0]))
    if case != "absolute":  # there, lmfit goes by Student's t although nothing is estimated
        np.testing.assert_allclose((upper - lower) / 2, known["confidence_band_95"], rtol=1e-4)
    if case == "plain":
        np.testing.assert_allclose(result.r_squared(), known["r_squared"], rtol=1e-9)
        np.testing.assert_allclose(result.r_squared(Y), known["r_squared"], rtol=1e-9)


@pytest.mark.parametrize("absolute", [False, True])
def test_intervals_and_bands_by_the_formulas(absolute):
    result = curve_fit(decay, X, Y, sigma=SIGMA, absolute_sigma=absolute, **TIGHT)
    slopes = gradients(result.x)
    residuals = (decay(X, *result.x) - Y) / SIGMA
    variance = 1.0 if absolute else residuals.numpy() @ residuals.numpy() / 22
    covariance = variance * np.linalg.inv((slopes / SIGMA[:, None]).T @ (slopes / SIGMA[:, None]))
    reach = scipy.stats.norm.ppf(0.95) if absolute else scipy.stats.t.ppf(0.95, 22)
    width = reach * np.sqrt(np.diag(covariance))
    expected = np.stack([result.x - width, result.x + width], axis=1)
    np.testing.assert_allclose(result.confidence_intervals(0.9), expected, rtol=1e-7)

    spread = np.einsum("ni,ij,nj->n", slopes, covariance, slopes)
    bands = (
        (result.confidence_band(level=0.9), spread),
        (
            result.prediction_band(level=0.9),
            spread + variance * SIGMA**2,
        ),
    )
    for band, square in bands:
        np.testing.assert_allclose((band[1] - band[0]) / 2, reach * np.sqrt(square), rtol=1e-7)
        np.testing.assert_allclose((band[1] + band[0]) / 2, result.predict(), rtol=1e-12)
    far = np.array([10.0])
    there = np.einsum("ni,ij,nj->n", gradients(result.x, far), covariance, gradients(result.x, far))
    lower, upper = result.prediction_band(far, 0.9, sigma=0.5)
    np.testing.assert_allclose((upper - lower) / 2, reach * np.sqrt(there + variance * 0.25), rtol=1e-7)


@pytest.mark.by_day(None)
def test_masked_residuals_are_no_measurements():
    mask = np.where(np.arange(25) % 3 == 0, 0.0, 1.0)
    b = tf.Variable([1.0, 1.0, 0.0], dtype=tf.float64)
    masked = least_squares(lambda: mask * (decay(X, *tf.unstack(b)) - Y), b, **TIGHT)
    left_out = curve_fit(decay, X[mask > 0], Y[mask > 0], **TIGHT)
    np.testing.assert_allclose(masked.standard_errors(), np.sqrt(np.diag(left_out.pcov)), rtol=1e-6)
    assert masked.degrees_of_freedom == 16 - 3 and masked.num_residuals == 25


@pytest.mark.by_day(None)
def test_what_is_not_determined_is_said_and_the_rest_known():
    free = {"level": tf.Variable(0.0, dtype=tf.float64), "pair": tf.Variable([1.0, 2.0], dtype=tf.float64)}
    slope = X - X.mean()
    result = least_squares(lambda: free["level"] + (free["pair"][0] + free["pair"][1]) * slope - Y, free)
    assert result.rank == 2 and result.degrees_of_freedom == 23
    assert not result.undetermined["level"] and result.undetermined["pair"].all()
    with pytest.raises(ValueError, match="do not determine all parameters"):
        result.confidence_intervals()
    table = result.summary()
    error = scipy.stats.linregress(X, Y)
    error = np.sqrt(np.sum((Y - error.intercept - error.slope * X) ** 2) / 23 / 25)
    assert f"{error:.4g}" in next(line for line in table.splitlines() if line.strip().startswith("level"))
    assert table.count("not determined") == 2 and "rank 2" in table and repr(result) == str(result) == table


@pytest.mark.by_day(None)
def test_rows_are_those_of_one_tensor_after_the_other():
    """Also where tensors share their examples, whose rows are next to each other in the system that is solved."""
    b = tf.Variable([1.0, 1.0, 0.0], dtype=tf.float64)

    def residuals():
        error = decay(X, *tf.unstack(b)) - Y
        return {"a": error, "b": {"pairs": tf.stack([2.0 * error, error + b[0]], axis=1), "rate": b[1] - 3.0}, "c": b}

    result = least_squares(residuals, b, loss="soft_l1")
    error, slopes = (decay(X, *result.x) - Y).numpy(), gradients(result.x)
    pairs = np.stack([2 * error, error + result.x[0]], axis=1)
    rows = np.stack([2 * slopes, slopes + [1, 0, 0]], axis=1)
    expected = [error, pairs.ravel(), [result.x[1] - 3], result.x]
    np.testing.assert_allclose(result.residuals(), np.concatenate(expected), rtol=1e-9, atol=1e-12)
    expected = [slopes, rows.reshape(-1, 3), [[0, 1, 0]], np.eye(3)]
    np.testing.assert_allclose(result.jacobian(), np.concatenate(expected), rtol=1e-9, atol=1e-12)


def test_float32_has_statistics_in_float64():
    b, x, y = tf.Variable([1.0, 1.0, 0.0]), tf.constant(X, tf.float32), tf.constant(Y, tf.float32)
    result = least_squares(lambda: decay(x, b[0], b[1], b[2]) - y, b)
    np.testing.assert_allclose(result.standard_errors(), LMFIT["plain"]["errors"], rtol=1e-3)
    assert result.covariance().dtype == np.float64 and result.jacobian().dtype == np.float32


def test_a_summary_of_many_parameters_forms_no_jacobian():
    weights = [tf.Variable(tf.zeros([50, 3]), name="kernel"), tf.Variable(tf.zeros([3]), name="bias")]
    data = tf.random.stateless_normal([20, 50], [1, 2])
    result = least_squares(lambda: data @ weights[0] + weights[1] - 1.0, weights, max_steps=2)
    assert "kernel  50×3" in result.summary() and len(result.summary().splitlines()) == 4
    assert "_linearisation" not in vars(result)


def test_a_summary_where_nothing_can_be_said():
    """No degrees of freedom; no finite residuals; no residuals left."""
    x = tf.Variable([1.0, 2.0], dtype=tf.float64)
    assert "x[0]" in least_squares(lambda: x - 3.0, x).summary()
    assert "NOT_FINITE" in least_squares(lambda: tf.math.log(x - 10.0), x).summary()
    assert "not determined" in least_squares(lambda: tf.concat([0.0 * x, 0.0 * x, [1.0]], 0), x).summary()


def test_names():
    one, other = tf.Variable([1.0]), tf.Variable(2.0)
    assert least_squares(lambda: tf.stack([one[0], other]), [one, other]).parameter_names() == ["x0[0]", "x1"]
    named = {"b": tf.Variable(1.0), "a": tf.Variable(2.0)}
    assert least_squares(lambda: tf.stack(list(named.values())), named).names == ("a", "b")


def test_levels():
    result = curve_fit(decay, X, Y, **TIGHT)
    with pytest.raises(ValueError, match=r"level must be a number between 0 and 1. Received: level=95"):
        result.confidence_intervals(95)
    with pytest.raises(ValueError, match=r"one value for each. Received: 3 values, 25 residuals"):
        result.r_squared([1.0, 2.0, 3.0])
