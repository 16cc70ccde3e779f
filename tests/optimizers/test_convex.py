"""Convex losses: against dense generalised Gauss-Newton matrices in NumPy, with Hessians written out by hand.

The oracle takes J of the outputs by one backward pass for each row, and the gradient by TensorFlow's backward pass of
the loss; a step is −(JᵀHJ + λI)⁻¹g. All in float64.
"""

import warnings

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfjac
from tests.optimizers.convex_losses import (
    CASES,
    COUNTS,
    LABELS,
    REAL,
    RNG,
    SOFT,
    M,
    N,
    Network,
    X,
    keras_loss,
    softmax,
)
from tests.optimizers.gauss_newton import first_step, flat_values, rows_of_jacobian
from tfjac.objective.residuals import objective_of_loss


def found(names, jit_compile=False):
    """Return for each name, from one trace, H `[N, M, M]` and ∇ `[N, M]` of the rows, and TensorFlow's gradient."""
    network = Network()

    def derivatives(loss, along):
        """Of each part of the rows the derivative of its columns that `along` adds up, the residuals; the gradient."""
        outputs = network()  # of its own for each loss: a gradient looks at all that follows its source
        loss = loss(outputs)
        parts = objective_of_loss(loss, network.variables).rows
        roots = [tf.gradients(rows, outputs, tf.ones_like(rows) * along)[0] for rows, _ in parts]
        return roots, [residual for _, residual in parts], tf.gradients(loss, outputs)[0]

    @tf.function(jit_compile=jit_compile, autograph=False)
    def trace(along):
        return network(), {name: derivatives(CASES[name][0], along) for name in names}

    by_column = [tf.nest.map_structure(lambda tensor: tensor.numpy(), trace(tf.constant(row))) for row in np.eye(M)]
    outputs, of_names = by_column[0]
    return outputs, {name: assembled([column[name] for _, column in by_column]) for name in of_names}


def assembled(by_column):
    """H and ∇ from the derivatives of one column after the other; and TensorFlow's gradient, the same each time."""
    _, residuals, gradient = by_column[0]
    root = np.stack([part for parts, _, _ in by_column for part in parts], -1)
    residual = np.stack([part[:, k] for k in range(M) for part in residuals], -1)
    return root @ root.transpose(0, 2, 1), np.einsum("nik,nk->ni", root, residual), gradient


@pytest.fixture(scope="module")
def all_found():
    return found(CASES)


def check(outputs, name, hessian, ours, theirs):
    expected = CASES[name][1](outputs)
    np.testing.assert_allclose(hessian, expected, rtol=1e-5, atol=1e-6 * np.abs(expected).max())
    if "add up" in name:  # TensorFlow's takes it that they do
        theirs = softmax(outputs) * COUNTS.sum(-1, keepdims=True) - COUNTS
    if "probabilities" in name or name in ("divergence", "focal"):  # what all classes share changes no probability
        ours, theirs = (x - x.mean(-1, keepdims=True) for x in (ours, theirs))
    np.testing.assert_allclose(ours, theirs, rtol=1e-6, atol=1e-9 * np.abs(theirs).max())


@pytest.mark.by_day(one_in=11)
@pytest.mark.parametrize("name", CASES)
def test_curvature_and_gradient(name, all_found):
    outputs, pairs = all_found
    check(outputs, name, *pairs[name])


@pytest.mark.by_day(None)
def test_compiled_by_xla():
    outputs, pairs = found(["sparse, of logits", "focal", "binary focal", "log-cosh", "declared"], jit_compile=True)
    for name, derivatives in pairs.items():
        check(outputs, name, *derivatives)


@pytest.mark.by_day(None)
@pytest.mark.parametrize("solver", ["cholesky", "qr", "kernel", "cg"])
def test_step_of_a_square_and_a_cross_entropy(solver):
    network, (loss, hessian) = Network(), CASES["a square and a cross-entropy"]
    outputs, jacobian = rows_of_jacobian(network, network.variables)
    jacobian = jacobian.reshape(N, M, -1)
    gram = np.einsum("nip,nij,njq->pq", jacobian, hessian(outputs.reshape(N, M)), jacobian)
    with tf.GradientTape() as tape:
        value = loss(network())
    gradient = np.concatenate([np.ravel(g) for g in tape.gradient(value, network.variables)])
    expected = -np.linalg.solve(gram + np.diag(gram).max() * np.eye(len(gram)), gradient)
    solver = tfjac.optimizers.ConjugateGradientSolver(1e-10, 1000) if solver == "cg" else solver
    step, _ = first_step(lambda: loss(network()), network.variables, 1.0, solver)
    np.testing.assert_allclose(step, expected, rtol=1e-6, atol=1e-7 * np.abs(expected).max())


def log_likelihood_of_noise(a):
    """The mean squared error, as the logarithm of a Gaussian."""
    return -tf.reduce_mean(tf.math.log(tf.exp(-tf.square(a - REAL)) / np.pi))


@pytest.mark.by_day(None)
def test_a_square_written_as_a_likelihood():
    network, plain = Network(), Network()
    expected, _ = first_step(lambda: tf.reduce_mean(tf.square(plain() - REAL)), plain.variables)
    step, _ = first_step(lambda: log_likelihood_of_noise(network()), network.variables)
    np.testing.assert_allclose(step, expected, rtol=1e-9, atol=1e-12)


@pytest.mark.by_day(None)
def test_a_weight_is_a_repetition():
    counts, (weighted, repeated) = RNG.integers(0, 3, N), (Network(), Network())
    which = np.repeat(np.arange(N), counts)
    loss = keras_loss("SparseCategoricalCrossentropy", from_logits=True, reduction="sum")
    step, _ = first_step(lambda: loss(LABELS, weighted(), sample_weight=counts), weighted.variables, 1.0)
    expected, _ = first_step(lambda: loss(LABELS[which], tf.gather(repeated(), which)), repeated.variables, 1.0)
    np.testing.assert_allclose(step, expected, rtol=1e-9, atol=1e-12)


# ------------------------------------------------------------------ at the edges


@pytest.mark.by_day(None)
@pytest.mark.parametrize("logit", [30.0, 1e4])
@pytest.mark.parametrize("kind, solver", [("softmax", "cholesky"), ("sigmoid", "kernel")])
def test_saturated_logits_have_steps_that_lower_the_loss(logit, kind, solver):
    """Wrong with certainty: no curvature is left, in float32, and all of the gradient."""
    weight = tf.Variable(np.diag([logit, -logit, 0.0]).astype("float32"))
    x, labels = np.eye(3, dtype="float32"), [1, 0, 2]

    def loss():
        z = x @ weight
        if kind == "softmax":
            return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, z))
        return tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(tf.one_hot(labels, 3), z))

    before = loss()
    step, optimizer = first_step(loss, [weight], 1e-3, solver, max_attempts=30)
    assert np.isfinite(step).all() and optimizer.num_accepted == 1 and loss() < before


@pytest.mark.by_day(None)
def test_what_is_masked_may_be_anything():
    """Classes ruled out by −∞, examples left out by `ignore_class`, and no example at all that is left in."""
    network, expected = Network(), Network()
    labels = np.where(np.arange(N) < 3, LABELS, -1)

    def loss(labels, z):
        return keras_loss("SparseCategoricalCrossentropy", from_logits=True, ignore_class=-1)(labels, z)

    ruled_out = np.array([0.0, -np.inf, 0.0])
    two = (np.where(labels == 1, 2, labels) > 1).astype(int)
    step, _ = first_step(lambda: loss(np.where(labels == 1, 2, labels), network() + ruled_out), network.variables, 1.0)
    other, _ = first_step(
        lambda: loss(np.where(labels < 0, -1, two), tf.gather(expected(), [0, 2], axis=1)), expected.variables, 1.0
    )
    np.testing.assert_allclose(step, other, rtol=1e-6, atol=1e-9)
    step, optimizer = first_step(lambda: loss(np.full(N, -1), network()), network.variables)
    assert (step == 0).all() and optimizer.status is tfjac.Status.GRADIENT_TOLERANCE


@pytest.mark.by_day(None)
def test_zero_and_huge_weights():
    network, weights = Network(), np.array([0, 0, 1e12, 1e12, 0, 1e12, 1e12])
    loss = keras_loss("CategoricalCrossentropy", from_logits=True)
    step, optimizer = first_step(
        lambda: loss(SOFT, network(), sample_weight=weights), network.variables, 1.0, "kernel", max_attempts=9
    )
    assert np.isfinite(step).all() and optimizer.num_accepted == 1


def test_one_class_has_nothing_to_learn():
    network = Network()
    step, optimizer = first_step(
        lambda: tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits(np.ones((N, 1)), network()[:, :1])),
        network.variables,
    )
    assert (step == 0).all() and optimizer.status is tfjac.Status.GRADIENT_TOLERANCE


# ------------------------------------------------------------------ declared


@pytest.mark.parametrize("wrong", [{"function": 3}, {"hessian": 1.0}, {"hessian": abs, "hessian_root": abs}], ids=str)
def test_what_cannot_be_declared(wrong):
    with pytest.raises(TypeError, match=r"register_curvature takes a function.*Received: function="):
        tfjac.register_curvature(**wrong)


def test_a_hessian_of_another_shape():
    declared = tfjac.register_curvature(lambda z: tf.reduce_logsumexp(z, -1), hessian=lambda z: z[:, :2])
    network = Network()
    with pytest.raises(ValueError, match=r"A Hessian must have the shape .*\(7, 3\).*Received: one of shape \(7, 2\)"):
        first_step(lambda: tf.reduce_sum(declared(network())), network.variables)


def test_eagerly_a_declared_function_is_what_it_was():
    declared = tfjac.register_curvature(hessian=lambda z: 1 / 0)(lambda z: z**4)
    assert declared(tf.constant(2.0)) == 16


# ------------------------------------------------------------------ in fit


def fit(outputs, loss, y, verify=True, epochs=4, **options):
    keras.utils.set_random_seed(0)
    inputs = keras.Input((4,))
    hidden = keras.layers.Dense(6, "tanh", kernel_regularizer="l2")(inputs)
    model = keras.Model(inputs, outputs(hidden))
    optimizer = tfjac.LevenbergMarquardt(solver="cholesky", verify=verify)
    model.compile(optimizer=optimizer, loss=loss, **options)
    history = model.fit(X.astype("float32"), y, batch_size=N, epochs=epochs, verbose=0).history["loss"]
    assert history[-1] < history[0] and model.optimizer.num_accepted == epochs
    return flat_values(model.trainable_variables)


@pytest.mark.by_day(None)
def test_two_heads_in_fit():
    """A cross-entropy, a squared error and an L2, with weights; what Keras says of the gradient is compared."""
    heads = lambda x: [keras.layers.Dense(M, "softmax")(x), keras.layers.Dense(M)(x)]  # noqa: E731
    losses = ["sparse_categorical_crossentropy", "mse"]
    fit(heads, losses, [LABELS, REAL], loss_weights=[1.0, 0.3])


class Steps(keras.layers.Layer):
    """[n, 4·3] to [n, 4 steps, 3 classes]."""

    def call(self, x):
        return tf.reshape(x, [-1, 4, M])


@pytest.mark.by_day(None)
@pytest.mark.parametrize("activation", [None, "softmax"])
def test_sequences_keep_their_examples(activation):
    """TensorFlow's op wants rows; taken from there, examples would mix, at a backward pass for each row."""
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=activation is None)
    head = lambda x: keras.layers.Activation(activation)(Steps()(keras.layers.Dense(4 * M)(x)))  # noqa: E731
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        fit(head, loss, RNG.integers(0, M, (N, 4)))


@pytest.mark.by_day(None)
@pytest.mark.parametrize("layer", [keras.layers.Dense, keras.layers.LSTM])
def test_one_hot_labels_of_sequences_with_a_smaller_last_batch(layer):
    """TensorFlow reshapes to rows by a size that an open batch hides; the labels' indices are the oracle."""
    x = np.random.default_rng(0).normal(size=(40, 7, 12)).astype("float32")
    indices = np.random.default_rng(1).integers(0, 12, (40, 7))

    def weights(loss, labels):
        keras.utils.set_random_seed(0)
        hidden = layer(8, return_sequences=True) if layer is keras.layers.LSTM else layer(8)
        model = keras.Sequential([keras.Input((7, 12)), hidden, keras.layers.Dense(12, "softmax")])
        model.compile(tfjac.LevenbergMarquardt(), loss)
        model.fit(x, labels, batch_size=32, shuffle=False, epochs=2, verbose=0)
        return flat_values(model.trainable_variables)

    one_hot = weights("categorical_crossentropy", np.eye(12, dtype="float32")[indices])
    np.testing.assert_allclose(one_hot, weights("sparse_categorical_crossentropy", indices), rtol=1e-3, atol=1e-4)
