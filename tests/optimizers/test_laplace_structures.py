"""Laplace posteriors by Kronecker factors, draws and noise of each output: beside laplace-torch and a dense J."""

import keras
import numpy as np
import pytest
import scipy.optimize
import scipy.special
import scipy.stats

import tfjac
from tests.optimizers.test_laplace import NEW, X, dense, network
from tests.precision import floating

layers = keras.layers
OF_LAPLACE_TORCH = {
    ("classification", "full", "all"): (
        -38.9931760693,
        [2.622446063, 3.259751835, 2.716019106],
        [0.2571351, 0.2581006, 0.4847643],
        [0.2516, 0.2467, 0.5017],
    ),
    ("classification", "full", "last_layer"): (
        -34.3690182738,
        [1.90030545, 1.818010091, 1.755724222],
        [0.2487566, 0.2497432, 0.5015002],
        [0.2509, 0.2415, 0.5077],
    ),
    ("classification", "kronecker", "all"): (
        -41.7246345372,
        [2.061961259, 3.414175549, 2.670538487],
        [0.2567384, 0.2577799, 0.4854817],
        [0.2547, 0.252, 0.4933],
    ),
    ("classification", "kronecker", "last_layer"): (
        -34.8753105235,
        [1.818783758, 1.641327154, 1.682369313],
        [0.2479994, 0.2489886, 0.503012],
        [0.2516, 0.2301, 0.5183],
    ),
    ("regression", "full", "all"): (-444.1642691556, [0.079199832, 0.115570246, 0.117899107], None, None),
    ("regression", "full", "last_layer"): (-425.4278642234, [0.063679079, 0.063679079, 0.063679079], None, None),
    ("regression", "kronecker", "all"): (-461.0802670108, [0.03760074, 0.078823346, 0.055028204], None, None),
    ("regression", "kronecker", "last_layer"): (-427.2034775318, [0.027724048, 0.027724048, 0.027724048], None, None),
}
"""Log marginal likelihood; of the first new input variances, and probabilities by its "probit" and by 200,000 draws.

Prior precision 0.8, noise 0.4, its `CurvlinopsGGN`, full batch, float64."""


def of_laplace_torch():
    """The network, inputs and targets that version 0.3 of laplace-torch was given."""
    rng = np.random.default_rng(5)
    x, new = rng.normal(size=(20, 3)), rng.normal(size=(4, 3))
    shapes = (((3, 5), 0.7), (5, 0.3), ((5, 3), 0.7), (3, 0.2))
    weights = [rng.normal(size=shape) * scale for shape, scale in shapes]
    model = keras.Sequential([layers.Input((3,)), layers.Dense(5, "tanh"), layers.Dense(3)])
    model.set_weights(weights)
    return model, x, new, {"classification": rng.integers(3, size=20), "regression": rng.normal(size=(20, 3))}


@pytest.mark.by_day(None)
@pytest.mark.parametrize("case", OF_LAPLACE_TORCH, ids="-".join)
@pytest.mark.parametrize("batch_size", [None, 7])
def test_values_of_laplace_torch(case, batch_size):
    evidence, variance, probit, drawn = OF_LAPLACE_TORCH[case]
    task, structure, variables = case
    options = {"noise": 0.4, "likelihood": "gaussian"}
    if task == "classification":
        options = {"from_logits": True, "likelihood": "categorical"}
    with floating("float64"):
        model, x, new, targets = of_laplace_torch()
        posterior = tfjac.laplace(
            model, x, targets[task], structure=structure, variables=variables, prior_precision=0.8,
            batch_size=batch_size, **options,
        )  # fmt: skip
        np.testing.assert_allclose(posterior.predict(new.tolist()).variance[0], variance, rtol=1e-7)
        np.testing.assert_allclose(posterior.log_marginal_likelihood(), evidence, rtol=1e-9)
        if task == "classification":
            np.testing.assert_allclose(posterior.probabilities(new)[0], probit, atol=1e-6)
            found = posterior.probabilities(new, method="monte_carlo", num_draws=20000)
            np.testing.assert_allclose(found[0], drawn, atol=4e-3)
    assert posterior.structure == structure


@pytest.mark.by_day(None)
def test_kronecker_factors_of_tables_and_of_positions():
    """Rows of a table exactly, without those between rows; a kernel with positions by the mean of its inputs."""
    ids = np.random.default_rng(1).integers(4, size=(12, 1))
    with floating("float64"):
        keras.utils.set_random_seed(4)
        model = keras.Sequential([layers.Input((1,), dtype="int32"), layers.Embedding(4, 2), layers.Conv1D(3, 1)])
        table, kernel = (each.numpy() for each in model.trainable_variables[:2])
        posterior = tfjac.laplace(
            model, ids, structure="kronecker", likelihood="gaussian", prior_precision=0.5, noise=0.3
        )
        covariance = posterior.covariance(np.arange(4)[:, None])
    counts, read = np.bincount(ids[:, 0], minlength=4), table[ids[:, 0]]
    of_kernel = np.kron(read.T @ read / 12, 12 * np.eye(3)) / 0.09 + 0.5 * np.eye(6)
    for row in range(4):
        of_row = kernel[0] @ kernel[0].T * counts[row] / 0.09 + 0.5 * np.eye(2)
        expected = kernel[0].T @ np.linalg.solve(of_row, kernel[0]) + np.eye(3) / (12 / 0.09 + 0.5)
        j = np.kron(table[row], np.eye(3))
        np.testing.assert_allclose(covariance[row], expected + j @ np.linalg.solve(of_kernel, j.T), rtol=1e-9)


def test_kronecker_factors_of_a_convolution():
    """A mean over five places of x·K + b: A is the mean of xxᵀ over all places, G = n/5·I, that of the bias n·I."""
    rng = np.random.default_rng(6)
    x, new = rng.normal(size=(12, 5, 3)), rng.normal(size=(4, 5, 3))
    with floating("float64"):
        model = keras.Sequential([layers.Input((5, 3)), layers.Conv1D(2, 1), layers.GlobalAveragePooling1D()])
        posterior = tfjac.laplace(
            model, x, structure="kronecker", likelihood="gaussian", prior_precision=0.5, noise=0.3, batch_size=5
        )
        covariance, drawn = posterior.covariance(new), posterior._basis.deviations(np.eye(8), 1 / 0.09, 0.5)
    of_kernel = np.linalg.inv(np.einsum("nti,ntj->ij", x, x) / 60 * 12 / 5 / 0.09 + 0.5 * np.eye(3))
    read = new.mean(axis=1)
    expected = np.einsum("ni,ij,nj->n", read, of_kernel, read) + 1 / (12 / 0.09 + 0.5)
    np.testing.assert_allclose(covariance, expected[:, None, None] * np.eye(2), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose((drawn @ drawn.T)[:6, :6], np.kron(of_kernel, np.eye(2)), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(("structure", "side"), [("full", "weights"), ("full", "examples"), ("kronecker", "auto")])
def test_draws_have_the_covariance_of_the_posterior(structure, side):
    """S with S·Sᵀ = P⁻¹ for the identity in the place of the normal numbers; outputs move by J times the weights."""
    with floating("float64"):
        model = network()
        options = {"prior_precision": 0.7, "noise": 0.3, "likelihood": "gaussian", "batch_size": 4}
        posterior = tfjac.laplace(model, X, structure=structure, side=side, **options)
        variables = model.trainable_variables
        at, new = dense(model, X, variables), dense(model, NEW, variables)
        root = posterior._basis.deviations(np.eye(at.shape[2]), 1 / 0.09, 0.7)
        weights, outputs = posterior.sample(3, seed=5), posterior.sample(3, NEW, seed=5)
        covariance, mean = posterior.covariance(NEW), posterior.predict(NEW).mean
    inverse = root @ root.T
    if structure == "full":
        expected = np.linalg.inv(np.einsum("nip,niq->pq", at, at) / 0.09 + 0.7 * np.eye(at.shape[2]))
        np.testing.assert_allclose(inverse, expected, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(covariance, np.einsum("nip,pq,njq->nij", new, inverse, new), rtol=1e-7, atol=1e-10)
    assert [each.shape for each in weights] == [(3, *v.shape) for v in variables]
    moved = [each - v.numpy() for each, v in zip(weights, variables)]
    moved = np.concatenate([each.reshape(3, -1) for each in moved], axis=1)
    np.testing.assert_allclose(outputs, mean + np.einsum("nip,sp->sni", new, moved), rtol=1e-8, atol=1e-10)
    normal = np.random.default_rng(5).normal(size=moved.shape)
    np.testing.assert_allclose(moved, normal @ root.T, rtol=1e-7, atol=1e-10)


def test_the_mean_of_a_sigmoid_over_draws():
    """Beside a quadrature."""
    y = np.random.default_rng(2).integers(2, size=(14, 1))
    model = network(1, "sigmoid")
    posterior = tfjac.laplace(model, X, y, likelihood="bernoulli", prior_precision=0.3)
    mean, variance = posterior.predict(NEW)
    points, weights = np.polynomial.hermite_e.hermegauss(60)
    at = scipy.special.expit(mean + np.sqrt(variance) * points)
    expected = at @ weights / weights.sum()
    found = posterior.probabilities(NEW, method="monte_carlo", num_draws=20000)
    assert found.shape == (5, 1)
    np.testing.assert_allclose(found[:, 0], expected, atol=5e-3)


def evidence_of(at, error, w, delta, noise):
    """Log marginal likelihood in NumPy, from `J[n, m, p]`."""
    rows = at / noise[:, None]
    precision = np.einsum("nip,niq->pq", rows, rows) + delta * np.eye(len(w))
    fitted = scipy.stats.norm.logpdf(error, 0, noise).sum()
    return fitted - (delta * w @ w - len(w) * np.log(delta) + np.linalg.slogdet(precision)[1]) / 2


@pytest.mark.by_day(one_in=2)
@pytest.mark.parametrize("side", ["weights", "examples"])
def test_noise_of_each_output(side):
    noise = np.array([0.2, 0.9])
    y = np.random.default_rng(3).normal(size=(14, 2)) * [0.1, 2]
    with floating("float64"):
        model = network(hidden=1)
        model.compile(loss="mse")
        given = tfjac.laplace(model, X, y, noise=noise, prior_precision=0.7, side=side)
        found = tfjac.laplace(model, X, y, noise="each_output", side=side)
        covariance = given.covariance(NEW)
        at, new = dense(model, X, model.trainable_variables), dense(model, NEW, model.trainable_variables)
        error = y - model.predict(X, verbose=0)
        w = np.concatenate([v.numpy().ravel() for v in model.trainable_variables])
    rows = at / noise[:, None]
    inverse = np.linalg.inv(np.einsum("nip,niq->pq", rows, rows) + 0.7 * np.eye(len(w)))
    np.testing.assert_allclose(covariance, np.einsum("nip,pq,njq->nij", new, inverse, new), rtol=1e-7)
    np.testing.assert_allclose(given.noise, noise)
    np.testing.assert_allclose(given.log_marginal_likelihood(), evidence_of(at, error, w, 0.7, noise), rtol=1e-9)
    np.testing.assert_allclose(
        given.log_marginal_likelihood(2.0, 2 * noise), evidence_of(at, error, w, 2.0, 2 * noise), rtol=1e-9
    )
    best = scipy.optimize.minimize(
        lambda logs: -evidence_of(at, error, w, np.exp(logs[0]), np.exp(logs[1:])), np.zeros(3),
        method="Nelder-Mead", options={"xatol": 1e-8, "fatol": 1e-13, "maxfev": 4000},
    )  # fmt: skip
    np.testing.assert_allclose([found.prior_precision, *found.noise], np.exp(best.x), rtol=1e-4)
    with pytest.raises(ValueError, match=r"in the ratios that.*call laplace with this noise.*ratios are"):
        given.tuned(noise=[0.2, 0.8])
    with pytest.raises(ValueError, match=r"one for each output, of which there are 2.*\(3,\)"):
        tfjac.laplace(model, X, y, noise=[1.0, 2.0, 3.0])


@pytest.mark.by_day(None)
@pytest.mark.parametrize("side", ["weights", "examples"])
def test_prior_of_each_variable(side):
    prior = np.array([0.5, 2.0, 0.3, 4.0, 1.0, 0.7])
    y = np.random.default_rng(3).normal(size=(14, 2))
    with floating("float64"):
        model = network(hidden=1)
        posterior = tfjac.laplace(model, X, y, likelihood="gaussian", noise=0.4, prior_precision=prior, side=side)
        again = tfjac.laplace(model, X, y, likelihood="gaussian", noise=0.4, prior_precision=3 * prior, side=side)
        variables = model.trainable_variables
        at, new = dense(model, X, variables), dense(model, NEW, variables)
        error, drawn = y - model.predict(X, verbose=0), posterior.sample(2)
    w = np.concatenate([v.numpy().ravel() for v in variables])
    diagonal = np.repeat(prior, [int(np.prod(v.shape)) for v in variables])
    precision = np.einsum("nip,niq->pq", at, at) / 0.16 + np.diag(diagonal)
    expected = np.einsum("nip,pq,njq->nij", new, np.linalg.inv(precision), new)
    np.testing.assert_allclose(posterior.covariance(NEW), expected, rtol=1e-7)
    fitted = scipy.stats.norm.logpdf(error, 0, 0.4).sum() - w @ (diagonal * w) / 2 + np.sum(np.log(diagonal)) / 2
    evidence = fitted - np.linalg.slogdet(precision)[1] / 2
    np.testing.assert_allclose(posterior.log_marginal_likelihood(), evidence, rtol=1e-9)
    np.testing.assert_allclose(again.log_marginal_likelihood(prior), evidence, rtol=1e-9)
    np.testing.assert_allclose(again.tuned(prior, 0.4).covariance(NEW), expected, rtol=1e-7)
    moved = [(each - v.numpy()).reshape(2, -1) for each, v in zip(drawn, variables)]
    outputs = posterior.sample(2, NEW) - posterior.predict(NEW).mean
    np.testing.assert_allclose(outputs, np.einsum("nip,sp->sni", new, np.concatenate(moved, axis=1)), rtol=1e-7)
    with pytest.raises(ValueError, match="prior_precision must be in the ratios"):
        posterior.tuned(1.0)
    with pytest.raises(ValueError, match=r"one for each variable, of which there are 6.*\(2,\)"):
        tfjac.laplace(model, X, y, likelihood="gaussian", prior_precision=[1.0, 2.0])


def test_prior_of_each_variable_by_kronecker_factors():
    """Of one layer the kernel and the bias: A ⊗ G and G, each with its own δ."""
    with floating("float64"):
        model = keras.Sequential([layers.Input((3,)), layers.Dense(2)])
        posterior = tfjac.laplace(
            model, X, likelihood="gaussian", noise=0.4, prior_precision=[0.5, 3.0], structure="kronecker"
        )
        variance = posterior.predict(NEW).variance
    of_kernel = np.linalg.inv(X.T @ X / 0.16 + 0.5 * np.eye(3))
    expected = np.einsum("ni,ij,nj->n", NEW, of_kernel, NEW) + 1 / (14 / 0.16 + 3)
    np.testing.assert_allclose(variance, np.stack([expected, expected], axis=1), rtol=1e-9)


@pytest.mark.by_day(None)
@pytest.mark.parametrize("structure", ["full", "kronecker"])
def test_tuned_is_what_laplace_returns_for_the_same(structure):
    y = np.random.default_rng(4).normal(size=(14, 2))
    with floating("float64"):
        model = network()
        model.compile(loss="mse")
        first = tfjac.laplace(model, X, y, structure=structure, prior_precision=3.0, noise=1.0)
        for options in ({}, {"noise": 0.4}, {"prior_precision": 0.2, "noise": 0.5}):
            tuned, direct = first.tuned(**options), tfjac.laplace(model, X, y, structure=structure, **options)
            np.testing.assert_allclose(tuned.prior_precision, direct.prior_precision, rtol=1e-7)
            np.testing.assert_allclose(tuned.noise, direct.noise, rtol=1e-7)
            np.testing.assert_allclose(tuned.covariance(NEW), direct.covariance(NEW), rtol=1e-6)
        best = first.tuned()
        assert best.log_marginal_likelihood() > first.log_marginal_likelihood(2.9, 0.9)
        for factor in (0.99, 1.01):
            assert best.log_marginal_likelihood(factor * best.prior_precision) < best.log_marginal_likelihood()
            assert best.log_marginal_likelihood(noise=factor * best.noise) < best.log_marginal_likelihood()
    assert first.prior_precision == 3.0 and first.noise == 1.0


def test_refused_by_name():
    model = network()
    with pytest.raises(ValueError, match=r"Kronecker factors are of weights.*side='examples'"):
        tfjac.laplace(model, X, likelihood="gaussian", structure="kronecker", side="examples", noise=1)
    with pytest.raises(ValueError, match="found where structure="):
        tfjac.laplace(model, X, X[:, :2], likelihood="gaussian", structure="kronecker", noise="each_output")
    with pytest.raises(
        ValueError, match=r"a target for each output of each example, 14 x \[2\]. Received: shape \(14, 3\)"
    ):
        tfjac.laplace(model, X, X, likelihood="gaussian")
    with pytest.raises(ValueError, match="noise must be positive and finite"):
        tfjac.laplace(model, X, likelihood="gaussian", noise=[1.0, -1.0])
    posterior = tfjac.laplace(model, X, likelihood="gaussian", prior_precision=1, noise=1)
    with pytest.raises(ValueError, match="call laplace with y, or give it"):
        posterior.tuned()
    with pytest.raises(ValueError, match="prior_precision must be"):
        posterior.tuned(-1.0, 1.0)
    classifier = tfjac.laplace(model, X, likelihood="categorical", from_logits=True, prior_precision=1)
    with pytest.raises(ValueError, match="has no noise to be given"):
        classifier.tuned(noise=1.0)
    with pytest.raises(ValueError, match="method"):
        classifier.probabilities(NEW, method="bridge")
    model.layers[-1].bias.assign([1.0, 2.0])
    with pytest.raises(ValueError, match="call laplace again"):
        classifier.sample(2)
    with pytest.raises(ValueError, match="call laplace again"):
        classifier.tuned().sample(2)
