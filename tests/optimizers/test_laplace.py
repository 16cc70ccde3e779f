"""The Laplace approximation against a dense J, from one tape per row, and against the closed form of linear models."""

import keras
import numpy as np
import pytest
import scipy.optimize
import scipy.stats
import tensorflow as tf

import tfjac
from tests.precision import floating

layers = keras.layers
RNG = np.random.default_rng(0)
X, NEW = RNG.normal(size=(14, 3)), RNG.normal(size=(5, 3))


def network(outputs=2, activation=None, hidden=4):
    keras.utils.set_random_seed(3)
    body = [layers.Dense(hidden, "tanh"), layers.BatchNormalization(), layers.Dropout(0.5)]
    model = keras.Sequential([layers.Input((3,)), *body, layers.Dense(outputs, activation)])
    for weight in model.non_trainable_weights[:2]:  # moving statistics that are not those of the start
        weight.assign(RNG.uniform(0.5, 1.5, size=weight.shape))
    return model


def dense(model, x, variables, logits=False):
    """J of outputs, or of logits that the last layer would turn into probabilities, one row at a time: `[n, m, p]`."""
    last = model.layers[-1]
    body = keras.Model(model.inputs[0], last.input)
    found = []
    for row in x:
        with tf.GradientTape(persistent=True) as tape:
            z = body(row[None], training=False) @ last.kernel.value + last.bias.value if logits else model(row[None])
            entries = [z[0, k] for k in range(z.shape[1])]
        gradients = [tape.gradient(entry, [v.value for v in variables]) for entry in entries]
        found.append([np.concatenate([np.zeros(v.shape).ravel() if g is None else g.numpy().ravel()
                                      for g, v in zip(each, variables)]) for each in gradients])  # fmt: skip
    return np.array(found)


def logits(model, x):
    probability = model.predict(x, verbose=0)
    return np.log(probability) if probability.shape[-1] > 1 else np.log(probability / (1 - probability))


def hessian(likelihood, z, sigma):
    """H `[n, m, m]`."""
    if likelihood == "gaussian":
        return np.broadcast_to(np.eye(z.shape[1]) / sigma**2, (*z.shape, z.shape[1]))
    if likelihood == "bernoulli":
        p = 1 / (1 + np.exp(-z))
        return (p * (1 - p))[..., None]
    p = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
    return p[:, :, None] * np.eye(p.shape[1]) - p[:, :, None] * p[:, None]


CASES = {
    "gaussian": ("mse", 2, None, RNG.normal(size=(14, 2))),
    "categorical": ("sparse_categorical_crossentropy", 3, "softmax", RNG.integers(3, size=14)),
    "bernoulli": ("binary_crossentropy", 1, "sigmoid", RNG.integers(2, size=(14, 1))),
}


@pytest.mark.by_day(one_in=2)
@pytest.mark.parametrize(
    ("name", "side", "batch_size"),
    [
        ("gaussian", "examples", 3), ("categorical", "weights", None), ("categorical", "examples", 3),
        ("bernoulli", "weights", 3),
    ],
)  # fmt: skip
def test_against_a_dense_jacobian(name, side, batch_size):
    loss, outputs, activation, y = CASES[name]
    sigma, delta = 0.3, 0.7
    with floating("float64"):
        model = network(outputs, activation)
        model.compile(loss=loss)
        noise = {"noise": sigma} if name == "gaussian" else {}
        posterior = tfjac.laplace(model, X, y, prior_precision=delta, side=side, batch_size=batch_size, **noise)
        mean, variance = posterior.predict(NEW)
        covariance, evidence = posterior.covariance(NEW), posterior.log_marginal_likelihood()
        variables = model.trainable_variables
        at, new = (dense(model, x, variables, activation is not None) for x in (X, NEW))
        outside = model.predict(NEW, verbose=0)
        z = model.predict(X, verbose=0) if name == "gaussian" else logits(model, X)
        w = np.concatenate([v.numpy().ravel() for v in variables])
    assert posterior.likelihood == name and posterior.side == side
    gram = np.einsum("nip,nij,njq->pq", at, hessian(name, z, sigma), at)
    precision = gram + delta * np.eye(len(w))
    expected = np.einsum("nip,pq,njq->nij", new, np.linalg.inv(precision), new)
    np.testing.assert_allclose(covariance, expected, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(variance, np.diagonal(expected, axis1=1, axis2=2), rtol=1e-6, atol=1e-9)
    found = mean if name == "gaussian" else posterior.probabilities(NEW)
    assert found.shape == outside.shape
    if name == "gaussian":
        np.testing.assert_allclose(mean, outside, rtol=1e-9)
        fitted = scipy.stats.norm.logpdf(y, z, sigma).sum()
    else:
        rows = np.random.default_rng(1).multivariate_normal(np.zeros(mean.shape[1]), np.eye(mean.shape[1]), 20000)
        roots = [np.linalg.cholesky(each + 1e-12 * np.eye(len(each))) for each in expected]
        drawn = [centre + rows @ root.T for centre, root in zip(mean, roots)]
        if name == "bernoulli":
            sampled = [np.mean(1 / (1 + np.exp(-each)), axis=0) for each in drawn]
            fitted = scipy.stats.bernoulli.logpmf(y, 1 / (1 + np.exp(-z))).sum()
        else:
            sampled = [np.mean(scipy.special.softmax(each, axis=1), axis=0) for each in drawn]
            fitted = np.log(scipy.special.softmax(z, axis=1)[range(14), y]).sum()
        np.testing.assert_allclose(found, sampled, atol=0.08)
    expected = fitted - (delta * w @ w - len(w) * np.log(delta) + np.linalg.slogdet(precision)[1]) / 2
    np.testing.assert_allclose(evidence, expected, rtol=1e-8)
    effective = len(w) - delta * np.trace(np.linalg.inv(precision))
    np.testing.assert_allclose(posterior.effective_parameters, effective, rtol=1e-6)


@pytest.mark.parametrize("examples", [30, 4])
def test_a_linear_model_has_a_closed_form(examples):
    """Bayesian linear regression: with weights at their mean the marginal likelihood is that of the targets."""
    delta, sigma = 2.0, 0.5
    x, y = RNG.normal(size=(examples, 5)), RNG.normal(size=(examples, 1))
    design = np.concatenate([x, np.ones((examples, 1))], axis=1)
    precision = design.T @ design / sigma**2 + delta * np.eye(6)
    w = np.linalg.solve(precision, design.T @ y / sigma**2)
    with floating("float64"):
        model = keras.Sequential([layers.Input((5,)), layers.Dense(1)])
        model.set_weights([w[:5], w[5]])
        posterior = tfjac.laplace(model, x, y, likelihood="gaussian", prior_precision=delta, noise=sigma)
        mean, variance = posterior.predict(2 * x)
    wide = np.concatenate([2 * x, np.ones((examples, 1))], axis=1)
    assert posterior.side == ("weights" if examples == 30 else "examples")
    np.testing.assert_allclose(mean, wide @ w)
    np.testing.assert_allclose(variance[:, 0], np.diag(wide @ np.linalg.inv(precision) @ wide.T), rtol=1e-7)
    covariance = sigma**2 * np.eye(examples) + design @ design.T / delta
    marginal = scipy.stats.multivariate_normal(np.zeros(examples), covariance)
    np.testing.assert_allclose(posterior.log_marginal_likelihood(), marginal.logpdf(y[:, 0]), rtol=1e-8)


@pytest.mark.by_day(one_in=2)
@pytest.mark.parametrize("name", ["gaussian", "categorical"])
def test_what_is_not_given_maximises_the_marginal_likelihood(name):
    """Found by SciPy as well, from values far off."""
    loss, outputs, activation, y = CASES[name]
    model = network(outputs, activation)
    model.compile(loss=loss)
    posterior = tfjac.laplace(model, X, y)

    def cost(logs):
        return -posterior.log_marginal_likelihood(*np.exp(logs))

    start = np.log([3.0, 2.0][: 2 if name == "gaussian" else 1])
    options = {"xatol": 1e-7, "fatol": 1e-12}
    found = np.exp(scipy.optimize.minimize(cost, start, method="Nelder-Mead", options=options).x)
    np.testing.assert_allclose(posterior.prior_precision, found[0], rtol=1e-4)
    assert posterior.noise == (pytest.approx(found[1], rel=1e-4) if name == "gaussian" else None)
    assert f"prior precision {posterior.prior_precision:.4g}" in repr(posterior) and name in repr(posterior)


@pytest.mark.by_day(None)
def test_the_last_layer_alone_and_a_list_of_variables():
    with floating("float64"):
        model = network()
        last = tfjac.laplace(model, X, variables="last_layer", likelihood="gaussian", prior_precision=1, noise=1)
        listed = tfjac.laplace(
            model, X, variables=model.layers[-1].trainable_variables, likelihood="gaussian", prior_precision=1, noise=1
        )
        at, new = (dense(model, x, model.layers[-1].trainable_variables) for x in (X, NEW))
    inverse = np.linalg.inv(np.einsum("nip,niq->pq", at, at) + np.eye(10))
    expected = np.einsum("nip,pq,niq->ni", new, inverse, new)
    for posterior in (last, listed):
        np.testing.assert_allclose(posterior.predict(NEW).variance, expected, rtol=1e-8)


def test_refused_by_name():
    model = network()
    with pytest.raises(ValueError, match=r"follows from the loss.*Received: loss=None"):
        tfjac.laplace(model, X)
    with pytest.raises(ValueError, match="give y, or noise"):
        tfjac.laplace(model, X, likelihood="gaussian")
    with pytest.raises(ValueError, match=r"has no noise.*noise=1"):
        tfjac.laplace(model, X, likelihood="categorical", noise=1, from_logits=True)
    with pytest.raises(ValueError, match=r"must return what its last layer's softmax does.*Received: the output of op"):
        tfjac.laplace(model, X, likelihood="categorical", prior_precision=1)
    with pytest.raises(
        ValueError, match=r"a target for each output of each example, 14 x \[2\]. Received: shape \(5, 3\)"
    ):
        tfjac.laplace(model, X, X[:5], likelihood="gaussian")
    with pytest.raises(ValueError, match="must be finite: look for a weight or an input"):
        tfjac.laplace(model, np.full_like(X, np.nan), likelihood="gaussian", prior_precision=1, noise=1)
    posterior = tfjac.laplace(model, X, likelihood="gaussian", prior_precision=1, noise=1)
    with pytest.raises(ValueError, match="call laplace with y"):
        posterior.log_marginal_likelihood()
    with pytest.raises(ValueError, match="Probabilities are for classifiers"):
        posterior.probabilities(NEW)
    model.layers[-1].bias.assign([1.0, 2.0])
    with pytest.raises(ValueError, match="call laplace again"):
        posterior.predict(NEW)


@pytest.mark.by_day(one_in=3)
@pytest.mark.parametrize(
    ("name", "broken", "message"),
    [
        ("gaussian", lambda y: np.where(y == y[3, 0], np.nan, y), r"y must be finite.*Received: 1 numbers"),
        ("categorical", lambda y: y + 1, r"classes from 0 to 2.*Received: values from 1 to 3"),
        ("categorical", lambda y: y + 0.5, r"classes from 0 to 2"),
        ("categorical", lambda y: np.eye(3)[y] * 2 - 1 / 3, r"zero or more, and add up to one"),
        ("bernoulli", lambda y: 2 * y - 1, r"zeros and ones.*\(y \+ 1\)/2. Received: values from -1.0 to 1.0"),
    ],
)
@pytest.mark.parametrize("function", [tfjac.laplace, tfjac.influence])
def test_targets_that_the_likelihood_does_not_know(function, name, broken, message):
    loss, outputs, activation, y = CASES[name]
    model = network(outputs, activation)
    model.compile("sgd", loss)
    with pytest.raises(ValueError, match=message):
        function(model, X, broken(y))


@pytest.mark.by_day(one_in=2)
@pytest.mark.parametrize("noise", [None, "each_output"])
def test_what_keras_masks_is_no_target(noise):
    """Of a linear model that is the regression on the rows that count alone, which has a closed form."""
    counts = np.array([[1, 1, 0], [1, 0, 0], [1, 1, 1], [0, 1, 0]])
    x, y = RNG.normal(size=(4, 3, 2)) * counts[..., None], RNG.normal(size=(4, 3, 1))
    delta, rows = 2.0, x[counts > 0]
    with floating("float64"):
        model = keras.Sequential([layers.Input((3, 2)), layers.Masking(), layers.Dense(1, use_bias=False)])
        model.compile(loss="mse")
        model.set_weights([np.linalg.lstsq(rows, y[counts > 0])[0] * 0.8])
        posterior = tfjac.laplace(model, x, y, prior_precision=delta, noise=noise)
        variance = posterior.predict(x).variance
    sigma = np.broadcast_to(posterior.noise, (3, 1))[:, 0]
    scaled, errors = x / sigma[:, None], (y[..., 0] - (x @ model.get_weights()[0])[..., 0]) * counts
    precision = np.einsum("ntp,ntq->pq", scaled, scaled) + delta * np.eye(2)
    np.testing.assert_allclose(variance[..., 0], np.einsum("ntp,pq,ntq->nt", x, np.linalg.inv(precision), x), rtol=1e-6)
    # MacKay (1992): at the maximum of the marginal likelihood
    gamma = np.einsum("ntp,pq,ntq->t", scaled, np.linalg.inv(precision), scaled)
    if noise is None:
        np.testing.assert_allclose(sigma[0] ** 2, np.sum(errors**2) / (counts.sum() - gamma.sum()), rtol=1e-5)
    else:
        np.testing.assert_allclose(sigma**2, np.sum(errors**2, axis=0) / (counts.sum(axis=0) - gamma), rtol=1e-5)
    w = model.get_weights()[0]
    expected = np.sum(counts * scipy.stats.norm.logpdf(errors, scale=sigma)) - delta * np.sum(w**2) / 2
    expected -= np.linalg.slogdet(precision / delta)[1] / 2
    np.testing.assert_allclose(posterior.log_marginal_likelihood(), expected, rtol=1e-8)
