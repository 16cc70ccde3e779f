"""Robust losses against SciPy's, and against the formulas of M-estimators in NumPy."""

import numpy as np
import pytest
import scipy.optimize
import tensorflow as tf

from tfjac.optimizers import LeastSquaresProblem, least_squares

RNG = np.random.default_rng(3)
X = np.linspace(0, 4, 60)
Y = 2.5 * np.exp(-1.3 * X) + 0.5 + 0.05 * RNG.normal(size=60)
Y[::6] += np.abs(RNG.normal(size=10)) * 3 + 1
START = [1.0, 1.0, 0.0]
TIGHT = {"ftol": 1e-13, "xtol": 1e-13, "gtol": 1e-13}
RHO = {
    "huber": lambda z: np.where(z <= 1, z, 2 * np.sqrt(z) - 1),
    "soft_l1": lambda z: 2 * (np.sqrt(1 + z) - 1),
    "cauchy": lambda z: np.log(1 + z),
    "arctan": lambda z: np.arctan(z),
    "tukey": lambda z: np.where(z <= 1, (1 - np.abs(1 - z) ** 3) / 3, 1 / 3),
    "welsch": lambda z: 1 - np.exp(-z),
    "geman_mcclure": lambda z: z / (1 + z),
}


def model(b):
    return b[0] * np.exp(-b[1] * X) + b[2]


def cost(b, loss, scale):
    return scale**2 * RHO[loss](((model(b) - Y) / scale) ** 2).sum() / 2


def fit(loss, scale, start=START, **options):
    b = tf.Variable(np.array(start))
    residuals = lambda: b[0] * tf.exp(-b[1] * X) + b[2] - Y  # noqa: E731
    return least_squares(residuals, b, loss=loss, loss_scale=scale, **{**TIGHT, **options})


def test_minimum_of_each_loss():
    """Each of its own block and parameters, in one problem. Those that SciPy has, against it; the others against a
    simplex search; the gradient vanishes for all."""
    start = [2.4, 1.2, 0.4]
    each = [tf.Variable(np.array(start), name=loss) for loss in RHO]
    residuals = lambda: [b[0] * tf.exp(-b[1] * X) + b[2] - Y for b in each]  # noqa: E731
    result = least_squares(residuals, each, loss=list(RHO), loss_scale=0.15, **TIGHT)
    np.testing.assert_allclose(result.cost, sum(cost(b, loss, 0.15) for loss, b in zip(RHO, result.x)), rtol=1e-12)
    np.testing.assert_allclose(result.gradient_norm, 0, atol=1e-6)
    for loss, found in zip(RHO, result.x):
        objective = lambda b, loss=loss: cost(b, loss, 0.15)  # noqa: E731
        if loss in ("huber", "soft_l1", "cauchy", "arctan"):
            tight = dict.fromkeys(("ftol", "xtol", "gtol"), 1e-13)
            expected = scipy.optimize.least_squares(lambda b: model(b) - Y, start, loss=loss, f_scale=0.15, **tight)
            np.testing.assert_allclose(objective(found), expected.cost, rtol=1e-9)
        else:
            options = {"xatol": 1e-10, "fatol": 1e-15, "maxiter": 5000, "maxfev": 5000}
            expected = scipy.optimize.minimize(objective, start, method="Nelder-Mead", options=options)
        np.testing.assert_allclose(found, expected.x, rtol=1e-4, err_msg=loss)
        np.testing.assert_allclose(scipy.optimize.approx_fprime(found, objective, 1e-7), 0, atol=1e-4, err_msg=loss)
        np.testing.assert_allclose(found, [2.5, 1.3, 0.5], atol=0.2, err_msg=loss)


@pytest.mark.by_day(None)
@pytest.mark.parametrize("solver, jit_compile", [("cholesky", True), ("kernel", False)])
def test_other_solvers(solver, jit_compile):
    expected = scipy.optimize.minimize(cost, [2.4, 1.2, 0.4], ("cauchy", 0.15), options={"gtol": 1e-9}).x
    np.testing.assert_allclose(fit("cauchy", 0.15, solver=solver, jit_compile=jit_compile).x, expected, rtol=1e-4)


def test_a_loss_for_each_block_and_within_bounds():
    b = tf.Variable(np.array([2.0, 1.0, 0.95]))
    blocks = lambda: {"fit": b[0] * tf.exp(-b[1] * X) + b[2] - Y, "prior": 3.0 * (b - 1.0)}  # noqa: E731
    result = least_squares(blocks, b, loss=["cauchy", None], loss_scale=[0.15, None], bounds=(0.9, None), **TIGHT)
    objective = lambda v: cost(v, "cauchy", 0.15) + 4.5 * np.sum((v - 1) ** 2)  # noqa: E731
    bounds = [(0.9, None)] * 3
    expected = scipy.optimize.minimize(
        objective, [2.0, 1.0, 0.95], method="L-BFGS-B", bounds=bounds, options={"ftol": 1e-15}
    )
    np.testing.assert_allclose(result.cost, expected.fun, rtol=1e-8)
    np.testing.assert_allclose(result.x, expected.x, rtol=1e-4)
    assert result.x[2] == 0.9 and result.active[2] == -1
    with pytest.raises(ValueError, match=r"one for each tensor.*Received: 3 losses, 2 tensors"):
        least_squares(blocks, b, loss=["cauchy", None, None])


def test_errors_by_huber():
    """His formula for the covariance of an M-estimator, with ψ written out."""
    scale, result = 0.15, fit("huber", 0.15)
    r, (a, rate, _) = model(result.x) - Y, result.x
    design = np.stack([np.exp(-rate * X), -a * X * np.exp(-rate * X), np.ones(60)], axis=1)
    psi, inlier = np.clip(r, -scale, scale), np.abs(r) < scale
    expected = psi @ psi / 57 / inlier.mean() ** 2 * np.linalg.inv(design.T @ design)
    np.testing.assert_allclose(result.covariance(), expected, rtol=1e-5)


@pytest.mark.by_day(None)
def test_errors_are_those_of_repeated_experiments():
    """Of 120 data sets with outliers: the spread of the parameters, and what the fits said it would be."""
    rng, x, b = np.random.default_rng(0), np.linspace(0, 1, 50), tf.Variable([1.0, 1.0], dtype=tf.float64)
    line = LeastSquaresProblem(lambda y: b[0] * x + b[1] - y, b, loss="soft_l1", loss_scale=0.1)
    found, said = [], []
    for _ in range(120):
        noise = np.where(rng.random(50) < 0.15, rng.normal(scale=2, size=50), rng.normal(scale=0.1, size=50))
        fitted = line.solve(2 * x + 1 + noise)
        found.append(fitted.x)
        said.append(np.diag(fitted.covariance()))
    np.testing.assert_allclose(np.sqrt(np.mean(said, axis=0)), np.std(found, axis=0), rtol=0.2)


@pytest.mark.by_day(None)
def test_derivatives_of_a_robust_minimum():
    b = tf.Variable(np.array(START))

    @tf.function
    def minimum(y):
        b.assign(START)
        found = least_squares(
            lambda y: b[0] * tf.exp(-b[1] * X) + b[2] - y, b, args=(y,), loss="cauchy", loss_scale=0.2, **TIGHT
        )
        return found.x, tf.gradients(found.x[1], y)[0]

    gradient = minimum(tf.constant(Y))[1].numpy()
    for k in (1, 6, 30):
        moved = [minimum(tf.constant(Y + size * (np.arange(60) == k)))[0][1].numpy() for size in (1e-4, -1e-4)]
        np.testing.assert_allclose(gradient[k], (moved[0] - moved[1]) / 2e-4, rtol=1e-3, atol=1e-7)


def test_residuals_of_any_scale():
    b, scale = tf.Variable([1.0, 1.0, 0.0]), 1e-20
    x, y = tf.constant(X, tf.float32), tf.constant(Y, tf.float32)
    residuals = lambda: scale * (b[0] * tf.exp(-b[1] * x) + b[2] - y)  # noqa: E731
    result = least_squares(residuals, b, loss="soft_l1", loss_scale=0.15 * scale)
    expected = scipy.optimize.least_squares(lambda b: model(b) - Y, START, loss="soft_l1", f_scale=0.15)
    np.testing.assert_allclose(result.x, expected.x, rtol=1e-2)


def test_bad_losses():
    with pytest.raises(ValueError, match=r"Unknown loss.*Did you mean 'huber'\? Received: loss='hubert'"):
        fit("hubert", 1.0)
    with pytest.raises(ValueError, match=r"loss_scale must be a positive number. Received: loss_scale=-1"):
        fit("huber", -1)
    with pytest.raises(TypeError, match=r"no such option. Did you mean 'max_steps'\? Received: max_step=5"):
        fit("huber", 1.0, max_step=5)
    with pytest.raises(TypeError, match=r"no such option. Did you mean 'loss_scale'\? Received: f_scale=0.1"):
        fit("huber", 1.0, f_scale=0.1)


@pytest.mark.by_day(one_in=2)
@pytest.mark.parametrize("kind", ["rho", "all three"])
def test_a_function_as_in_scipy(kind):
    """ρ = 3((1 + z)^⅓ − 1), by itself or with its derivatives; SciPy's fit with NumPy's is the oracle."""
    rng = np.random.default_rng(7)
    x = np.linspace(0.0, 4.0, 40)
    y = 2.5 * np.exp(-1.3 * x) + 0.05 * rng.normal(size=40)
    y[::7] += 2.0

    def rho(z, stack):
        t = 1 + z
        return stack([3 * (t ** (1 / 3) - 1), t ** (-2 / 3), -2 / 3 * t ** (-5 / 3)])

    b = tf.Variable([1.0, 1.0], dtype=tf.float64)
    loss = (lambda z: rho(z, tf.stack)) if kind == "all three" else (lambda z: 3 * ((1 + z) ** (1 / 3) - 1))
    found = least_squares(
        lambda: b[0] * tf.exp(-b[1] * x) - y, b, loss=loss, loss_scale=0.1, ftol=1e-13, xtol=1e-13, gtol=1e-13
    )
    known = scipy.optimize.least_squares(
        lambda b: b[0] * np.exp(-b[1] * x) - y, [1.0, 1.0], loss=lambda z: rho(z, np.stack), f_scale=0.1, xtol=1e-13,
        ftol=1e-13, gtol=1e-13,
    )  # fmt: skip
    np.testing.assert_allclose(found.x, known.x, rtol=1e-5)
    np.testing.assert_allclose(found.cost, known.cost, rtol=1e-9)
    np.testing.assert_allclose(found.grad, 0, atol=1e-5)
    with pytest.raises(ValueError, match=r"returns ρ\(z\), of the shape of z"):
        least_squares(lambda: b - 1.0, b, loss=lambda z: tf.reduce_sum(z))


def taped_soft_l1(z):
    """Give ρ = 2(√(1 + z) − 1) and its derivatives, by tapes of the user."""
    with tf.GradientTape() as outer:
        outer.watch(z)
        with tf.GradientTape() as inner:
            inner.watch(z)
            rho = 2 * (tf.sqrt(1 + z) - 1)
        first = inner.gradient(rho, z)
    return tf.stack([rho, first, outer.gradient(first, z)])


@pytest.mark.by_day(None)
def test_tapes_in_a_function_see_what_it_computes():
    """Wherever the function is traced: for the steps, and for the covariance after them. SciPy's fit is the oracle."""
    rng, x = np.random.default_rng(7), np.linspace(0.0, 4.0, 40)
    y = 2.5 * np.exp(-1.3 * x) + 0.05 * rng.normal(size=40)
    y[::7] += 2.0
    b = tf.Variable([1.0, 1.0], dtype=tf.float64)
    results, tight = [], {"loss": "soft_l1", "ftol": 1e-13, "xtol": 1e-13, "gtol": 1e-13}
    for loss in (taped_soft_l1, "soft_l1"):
        b.assign([1.0, 1.0])
        results.append(least_squares(lambda: b[0] * tf.exp(-b[1] * x) - y, b, loss_scale=0.1, **tight | {"loss": loss}))
    found, named = results
    known = scipy.optimize.least_squares(lambda b: b[0] * np.exp(-b[1] * x) - y, [1.0, 1.0], f_scale=0.1, **tight)
    np.testing.assert_allclose(found.x, known.x, rtol=1e-5)
    np.testing.assert_allclose(found.covariance(), named.covariance(), rtol=1e-6)
