"""Examples with very many residuals, such as texts: products alone, against J taken row by row in float64."""

import functools

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.precision import floating
from tfjac.jacobians.rows import forms_of_blocks, product_rows
from tfjac.jacobians.rows.product_rows import ProductRows
from tfjac.linear.contracts import Allowed
from tfjac.objective.residuals import objective_of_residuals
from tfjac.optimizers import ConjugateGradientSolver, LevenbergMarquardt

VOCABULARY, LENGTH, TEXTS = 35, 15, 2
RNG = np.random.default_rng(0)
X = RNG.integers(0, VOCABULARY, (TEXTS, LENGTH)).astype(np.int32)
Y = RNG.integers(0, VOCABULARY, (TEXTS, LENGTH)).astype(np.int32)
MIXERS = {
    "recurrent": lambda x: keras.layers.GRU(5, return_sequences=True)(x),
    "attending": lambda x: x + keras.layers.MultiHeadAttention(1, 4)(x, x, use_causal_mask=True),
}


def language_model(mixer):
    keras.utils.set_random_seed(3)
    tokens = keras.Input((LENGTH,), dtype="int32")
    hidden = MIXERS[mixer](keras.layers.Embedding(VOCABULARY, 4, embeddings_initializer="normal")(tokens))
    return keras.Model(tokens, keras.layers.Dense(VOCABULARY)(hidden))


@pytest.fixture
def small(monkeypatch):
    """Take products for a J of any size, also where its pattern is sparse."""
    monkeypatch.setattr(product_rows, "NUMBERS", 0)
    monkeypatch.setattr(forms_of_blocks, "FEW_COLUMNS", float("inf"))


@functools.cache
def linearised(mixer):
    """Logits `[tokens, vocabulary]` and their J `[tokens, vocabulary, p]`, one gradient of TensorFlow's per row."""
    with floating("float64"):
        model = language_model(mixer)
    variables = [variable.value for variable in model.trainable_variables]

    @tf.function
    def row(index):
        with tf.GradientTape() as tape:
            output = tf.reshape(model(X), [-1])[index]
        return tf.concat([tf.reshape(tf.convert_to_tensor(g), [-1]) for g in tape.gradient(output, variables)], 0)

    rows = np.stack([row(tf.constant(k)).numpy() for k in range(TEXTS * LENGTH * VOCABULARY)])
    return model(X).numpy().reshape(-1, VOCABULARY), rows.reshape(TEXTS * LENGTH, VOCABULARY, -1)


def gauss_newton(mixer):
    """g, and the generalised Gauss-Newton matrix Σ Jᵀ(diag p − ppᵀ)J / tokens, of the mean cross-entropy."""
    logits, jacobian = linearised(mixer)
    probability = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    slope = (probability - np.eye(VOCABULARY)[Y.reshape(-1)]) / len(logits)
    mean = np.einsum("tc,tcp->tp", probability, jacobian)
    gram = np.einsum("tc,tcp,tcq->pq", probability, jacobian, jacobian, optimize=True) - mean.T @ mean
    return np.einsum("tc,tcp->p", slope, jacobian), gram / len(logits)


def position(model):
    return np.concatenate([variable.numpy().reshape(-1) for variable in model.trainable_variables])


def step_of_fit(mixer, **options):
    """The optimizer after one step of `fit`, and the step."""
    with floating("float64"):
        model = language_model(mixer)
        optimizer = LevenbergMarquardt(max_attempts=1, initial_damping=0.3, memory=None, **options)
        model.compile(optimizer=optimizer, loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True))
        start = position(model)
        model.fit(X, Y, batch_size=TEXTS, verbose=0)
    return optimizer, position(model) - start


@pytest.mark.by_day(None)
@pytest.mark.parametrize("mixer", MIXERS)
@pytest.mark.parametrize("solver, tolerance", [("auto", 0.5), (ConjugateGradientSolver(1e-7, 2000), 1e-4)])
@pytest.mark.usefixtures("small")
def test_a_step_of_a_language_model(mixer, solver, tolerance):
    optimizer, step = step_of_fit(mixer, solver=solver)
    gradient, gram = gauss_newton(mixer)
    assert optimizer.solver_used == "cg"
    damping = float(optimizer.last_report.damping)
    assert 0.15 < damping / np.diag(gram).max() < 0.6  # 0.3, but for the estimate of the largest element
    damped = gram + damping * np.eye(len(gram))
    exact = -np.linalg.solve(damped, gradient)
    error = step - exact
    assert error @ damped @ error <= tolerance**2 * (exact @ damped @ exact)


@pytest.mark.usefixtures("small")
def test_what_is_chosen():
    optimizer, _ = step_of_fit("attending")
    plan = optimizer.plan(batch_size=TEXTS)
    assert plan.solver == "cg" and "many residuals" in plan.reason
    assert plan.residuals == TEXTS * LENGTH * VOCABULARY
    marquardt, _ = step_of_fit("attending", scaling="marquardt")  # D is made of diag(JᵀJ): no estimate will do
    assert marquardt.solver_used == "cholesky"


@pytest.mark.by_day(None)
@pytest.mark.parametrize(
    "outputs, parameters, expected",
    [(511, 2053, False), (512, 2047, False), (512, 2048, True), (4097, 256, False), (4097, 257, True)],
)
def test_where_products_are_the_cheaper_way(outputs, parameters, expected):
    w, x = tf.Variable(RNG.normal(size=parameters)), RNG.normal(size=[2, parameters, outputs])
    found = []

    @tf.function(autograph=False)
    def run():
        residuals = tf.tanh(tf.einsum("npm,p->nm", x, w))
        model = objective_of_residuals([residuals], [w]).linearise(Allowed(by_products=True))
        found.append(isinstance(model.jacobian.operators[0], ProductRows))
        return model.gradient()

    run()
    assert found == [expected]


@pytest.mark.usefixtures("small")
def test_products_and_what_is_made_of_them():
    """A block of two tensors, the second of which depends on one of the variables alone."""
    a, b = tf.Variable(RNG.normal(size=[12, 30])), tf.Variable(RNG.normal(size=[5, 4]))
    x, y = RNG.normal(size=[4, 20, 12]), RNG.normal(size=[4, 6, 5])
    v, u = RNG.normal(size=380), RNG.normal(size=4 * 624)

    def residuals():
        return [tf.tanh(x @ a), tf.sin(y @ b)]

    @tf.function(autograph=False)
    def run():
        jacobian = objective_of_residuals(residuals(), [a, b]).linearise(Allowed(by_products=True)).jacobian
        assert [type(operator) for operator in jacobian.operators] == [ProductRows]
        gram, gradient = jacobian.gram_and_gradient(tf.constant(u))
        given = jacobian.matvec(tf.constant(v)), jacobian.adjoint(tf.constant(u)), jacobian.to_dense()
        single = jacobian.cast(tf.float32).matvec(tf.constant(v, tf.float32))
        kernels = jacobian.kernel(tf.constant([2.0, 3.0], tf.float64)), jacobian.weighted_kernel(tf.constant(v**2))
        return *given, gram, gradient, *kernels, single

    one, two = 1 - np.tanh(x @ a.numpy()) ** 2, np.cos(y @ b.numpy())
    first = np.einsum("nto,nti,op->ntoip", one, x, np.eye(30)).reshape(4, 600, 360)
    second = np.einsum("nto,nti,op->ntoip", two, y, np.eye(4)).reshape(4, 24, 20)
    dense = np.zeros([4, 624, 380])
    dense[:, :600, :360], dense[:, 600:, 360:] = first, second
    dense = dense.reshape(-1, 380)
    scales = np.repeat([2.0, 3.0], [360, 20])
    kernels = dense * scales @ dense.T, dense * v**2 @ dense.T
    expected = dense @ v, dense.T @ u, dense, dense.T @ dense, dense.T @ u, *kernels, dense @ v
    for given, wanted in zip(run(), expected, strict=True):
        tolerance = 1e-10 if given.dtype == tf.float64 else 1e-4
        np.testing.assert_allclose(given, wanted, rtol=tolerance, atol=tolerance)


@pytest.mark.by_day(None)
@pytest.mark.usefixtures("small")
def test_estimates_are_of_the_right_size():
    w, x = tf.Variable(RNG.normal(size=300)), RNG.normal(size=[50, 300, 600])

    @tf.function(autograph=False)
    def run():
        return (
            objective_of_residuals([tf.einsum("npm,p->nm", x, w)], [w]).linearise(Allowed(by_products=True)).diagonal()
        )

    ratio = run().numpy() / np.square(x).sum(axis=(0, 2))
    assert abs(ratio.mean() - 1) < 0.02 and 0.05 < ratio.std() < 0.15  # √(2 / (50 examples · 4 probes)) = 0.1


@pytest.mark.usefixtures("small")
def test_mixed_examples_have_their_rows():
    w, x = tf.Variable(RNG.normal(size=[20, 20])), RNG.normal(size=[2, 30, 20])

    @tf.function(autograph=False)
    def run(x):
        residuals = tf.nn.softmax(x @ w, axis=0)
        model = objective_of_residuals([residuals], [w]).linearise(Allowed(by_products=True))
        assert not isinstance(model.jacobian.operators[0], ProductRows)
        return model.diagonal()

    ratio = np.exp(x @ w.numpy())
    share = ratio / ratio.sum(axis=0)
    slope = share[..., None] * (x[:, :, None] - np.einsum("nto,nti->toi", share, x))
    expected = np.square(slope).sum(axis=(0, 1)).T.reshape(-1)
    with pytest.warns(UserWarning, match="examples mix"):
        np.testing.assert_allclose(run(tf.constant(x)), expected, rtol=1e-9)
