"""Losses with lone linear terms, and normal likelihoods with a learned variance: steps by formulas, and refusals."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfjac
from tests.precision import floating

RNG = np.random.default_rng(0)
X = RNG.normal(size=(30, 3))
ops = keras.ops

FORMS = {
    "as in the tutorials": lambda m, v: -0.5 * ops.mean(1 + v - ops.square(m) - ops.exp(v)),
    "summed by example": lambda m, v: -0.5 * ops.mean(ops.sum(1 + v - m * m - ops.exp(v), axis=1)),
    "the other way round": lambda m, v: 0.5 * ops.mean(ops.square(m) + ops.exp(v) - v - 1),
    "with a deviation": lambda m, v: 0.5 * ops.mean(ops.square(m) + ops.square(ops.exp(0.5 * v)) - v - 1),
    "two means": lambda m, v: 0.5 * ops.mean(m**2 + ops.exp(v)) - ops.mean(0.5 * v) - 0.5,
}


class Divergence(keras.layers.Layer):
    """Adds the Kullback-Leibler divergence of a normal distribution from the standard one, and returns its mean."""

    form = FORMS["as in the tutorials"]

    def call(self, x):
        mean, log_variance = ops.split(x, 2, axis=-1)
        self.add_loss(self.form(mean, log_variance))
        return mean


@pytest.mark.by_day(one_in=6)
@pytest.mark.parametrize(("form", "jit_compile"), [*((form, False) for form in FORMS), (next(iter(FORMS)), True)])
def test_a_step_on_the_divergence_of_an_autoencoder(form, jit_compile):
    """One step of the generalised Gauss-Newton method with little damping, against NumPy: H = diag(1, eᵛ) / (n·k)."""
    with floating("float64"):
        keras.utils.set_random_seed(0)
        layer = Divergence()
        layer.form = FORMS[form]
        model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(4), layer])
        optimizer = tfjac.LevenbergMarquardt(initial_damping=1e-9, scaling="identity", acceleration=None)
        model.compile(optimizer, loss=None, jit_compile=jit_compile)
        kernel, bias = model.get_weights()
        model.fit(X, batch_size=30, verbose=0)
        found = np.concatenate([weight.ravel() for weight in model.get_weights()])
    z = X @ kernel + bias
    scale = len(X) if "example" in form else z[:, :2].size
    slope = np.concatenate([z[:, :2], 0.5 * (np.exp(z[:, 2:]) - 1)], axis=1) / scale
    curvature = np.concatenate([np.ones_like(z[:, :2]), 0.5 * np.exp(z[:, 2:])], axis=1) / scale
    inputs = np.concatenate([X, np.ones((30, 1))], axis=1)
    expected = np.concatenate([kernel, bias[None]])
    for k in range(4):
        gram = inputs.T @ (curvature[:, k, None] * inputs) + 1e-9 * np.eye(4)
        expected[:, k] -= np.linalg.solve(gram, inputs.T @ slope[:, k])
    np.testing.assert_allclose(found, np.concatenate([expected[:3].ravel(), expected[3]]), rtol=1e-5, atol=1e-7)


@pytest.mark.by_day(None)
def test_an_autoencoder_with_samples_is_verified():
    keras.utils.set_random_seed(0)
    inputs = keras.Input((3,))
    mean, log_variance = (keras.layers.Dense(2, name=name)(inputs) for name in ("mean", "log_variance"))

    class Sampling(keras.layers.Layer):
        def __init__(self):
            super().__init__()
            self.seed = keras.random.SeedGenerator(1)

        def call(self, both):
            m, v = both
            self.add_loss(-0.01 * ops.mean(1 + v - ops.square(m) - ops.exp(v)))
            return m + ops.exp(0.5 * v) * keras.random.normal(ops.shape(m), seed=self.seed)

    model = keras.Model(inputs, keras.layers.Dense(3)(Sampling()([mean, log_variance])))
    model.compile(tfjac.LevenbergMarquardt(verify=True), loss="mse")
    losses = model.fit(X, X, batch_size=30, epochs=15, verbose=0).history["loss"]
    assert losses[-1] < 0.6 * losses[0]


def _noisy(n=2000):
    x = np.random.default_rng(1).uniform(-1, 1, size=(n, 1))
    return x, 2 * x + (0.1 + 0.3 * (x > 0)) * np.random.default_rng(2).normal(size=(n, 1))


def _softplus(z):
    return z[..., :1], tf.nn.softplus(z[..., 1:]) + 1e-3


def _own_nll(y, z):
    mean, deviation = _softplus(z)
    return tf.reduce_sum(tf.math.log(deviation) + 0.5 * ((y - mean) / deviation) ** 2, axis=-1)


OWN = tfjac.register_curvature(_own_nll, hessian_root=tfjac.fisher_of_normal(_softplus))


@pytest.mark.by_day(one_in=2)
@pytest.mark.parametrize("kind", ["built in", "declared"])
def test_a_learned_variance_is_found(kind):
    x, y = _noisy()
    keras.utils.set_random_seed(0)
    features = np.concatenate([x, x > 0], axis=1)
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(2)])
    model.compile(tfjac.LevenbergMarquardt(verify=True), loss=tfjac.GaussianNLL() if kind == "built in" else OWN)
    model.fit(features, y, batch_size=len(x), epochs=30, verbose=0)
    outputs = model.predict(np.array([[-0.5, 0.0], [0.5, 1.0]]), verbose=0)
    deviation = np.exp(outputs[:, 1] / 2) if kind == "built in" else np.log1p(np.exp(outputs[:, 1])) + 1e-3
    np.testing.assert_allclose(deviation, [0.1, 0.4], rtol=0.08)
    np.testing.assert_allclose(outputs[:, 0], [-1.0, 1.0], atol=0.05)
    assert model.optimizer.num_steps <= 30


def test_the_built_in_likelihood_is_that_of_scipy():
    from scipy import stats

    y, z = RNG.normal(size=(5, 4, 2)), RNG.normal(size=(5, 4, 4))
    loss = tfjac.GaussianNLL(full=True, reduction="none", dtype="float64")
    expected = -stats.norm(z[..., :2], np.exp(z[..., 2:] / 2)).logpdf(y).mean(axis=-1)
    np.testing.assert_allclose(loss(y, z), expected, rtol=1e-10)
    assert keras.losses.deserialize(keras.losses.serialize(loss)).full
    with pytest.raises(ValueError, match=r"two outputs for each target.*the last layer 4 units.*Received"):
        loss(y, z[..., :3])


def test_fisher_of_normal_is_the_expected_hessian():
    """Against the mean of the Hessian over many targets drawn from the distribution, by finite differences."""
    z = np.array([0.3, -0.2])
    mean, deviation = z[0], np.log1p(np.exp(z[1])) + 1e-3
    y = mean + deviation * np.random.default_rng(3).normal(size=200_000)

    def nll(a, b):
        s = np.log1p(np.exp(b)) + 1e-3
        return np.mean(np.log(s) + 0.5 * ((y - a) / s) ** 2)

    h, unit = 1e-3, np.eye(2)
    hessian = [
        [
            sum(p * q * nll(*(z + h * (p * unit[i] + q * unit[j]))) for p in (1, -1) for q in (1, -1)) / (4 * h * h)
            for j in range(2)
        ]
        for i in range(2)
    ]
    root = tf.function(lambda z: tfjac.fisher_of_normal(_softplus)(None, z))(tf.constant(z[None]))[0].numpy()
    np.testing.assert_allclose(root @ root.T, hessian, atol=0.02)


def _nll_written_out(y, p):
    return ops.mean(0.5 * ops.square(y - p[:, :1]) + 0.5 * p[:, 1:])


def _pinball(y, p):
    error = y - p[:, :1]
    return tf.reduce_mean(tf.where(error > 0, 0.9 * error, -0.1 * error))


BY_TERM = r"tfjac.GaussianNLL.*which the term of the loss at op 'compile_loss/\S* of type"
OF_A_KINK = r"straight lines that are chosen from.*for a quantile tau.*op 'compile_loss/\S* of type SelectV2"


@pytest.mark.by_day(one_in=2)
@pytest.mark.parametrize(
    "loss, match", [(_nll_written_out, BY_TERM), (_pinball, OF_A_KINK), (lambda y, p: ops.sum(p), BY_TERM)]
)
def test_a_refusal_names_the_term_of_the_loss(loss, match):
    keras.utils.set_random_seed(0)
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
    model.compile(tfjac.LevenbergMarquardt(), loss=loss)
    with pytest.raises(ValueError, match=match):
        model.fit(X, X[:, :1], batch_size=30, verbose=0)
