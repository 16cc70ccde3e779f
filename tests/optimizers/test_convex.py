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
from tests.optimizers.gauss_newton import first_step, flat_values, rows_of_jacobian
from tfjac.optimizers.problem.residuals import problem_of_loss

RNG = np.random.default_rng(5)
N, M = 7, 3
X = RNG.normal(size=(N, 4))
LABELS = RNG.integers(0, M, N)
ONE_HOT = np.eye(M)[LABELS]
SOFT = RNG.dirichlet(np.ones(M), N)
BINARY = RNG.integers(0, 2, (N, M)).astype(float)
COUNTS = RNG.poisson(2.0, (N, M)).astype(float)
REAL = 2 * RNG.normal(size=(N, M))
WEIGHTS = RNG.uniform(0, 2, N)
EPSILON = 1e-7


class Network:
    """4-5-3, tanh, in float64, with the same weights every time."""

    def __init__(self):
        rng = np.random.default_rng(1)
        self.variables = [tf.Variable(rng.normal(size=size)) for size in ((4, 5), (5,), (5, M))]

    def __call__(self):
        kernel, bias, head = self.variables
        return tf.tanh(X @ kernel + bias) @ head


def softmax(z):
    p = np.exp(z - z.max(-1, keepdims=True))
    return p / p.sum(-1, keepdims=True)


def sigmoid(z):
    return 1 / (1 + np.exp(-z))


def of_logits(z, weights=1.0, total=1.0):
    """s(diag p − ppᵀ) for each example."""
    p = softmax(z)
    h = np.einsum("ni,ij->nij", p, np.eye(M)) - p[:, :, None] * p[:, None]
    return h * np.broadcast_to(weights * total, N)[:, None, None]


def diagonal(h):
    return h[:, :, None] * np.eye(M)


def hidden(probabilities):
    """Probabilities that Keras does not see to come from logits."""
    return tf.reshape(probabilities, tf.shape(probabilities))


def second_derivative(function, z, step=1e-4):
    """Elementwise, by central differences."""
    return (function(z + step) - 2 * function(z) + function(z - step)) / step**2


def huber_weight(u, delta=1.0):
    return np.minimum(1, delta / np.abs(u))


def focal_labels(q, y, alpha=0.25, gamma=2.0):
    """−q·∂/∂q of −α·y·(1−q)^γ·log q."""
    return alpha * y * ((1 - q) ** gamma - gamma * q * (1 - q) ** (gamma - 1) * np.log(q))


def binary_focal(a, gamma=2.0):
    """The second derivative of −(1−p)^γ·log p of the right answer, p = σ(±a), where it is positive."""
    f = lambda z: -(sigmoid(-z) ** gamma) * np.log(sigmoid(z))  # noqa: E731
    return np.maximum(second_derivative(f, np.where(BINARY == 1, a, -a)), 0)


def keras_loss(name, **options):
    """One of Keras' losses, in double precision."""
    return getattr(keras.losses, name)(dtype="float64", **options)


def hessian_of_log_sum(y, z):
    p = tf.nn.softmax(z - y)
    return tf.linalg.diag(p) - p[:, :, None] * p[:, None]


def root_of_log_sum(y, z):
    p = tf.nn.softmax(z - y)
    return tf.linalg.diag(tf.sqrt(p)) - p[:, :, None] * tf.sqrt(p)[:, None]


def log_sum(y, z):
    return tf.reduce_logsumexp(z - y, axis=-1) - z[:, 0]


log_sum_with_hessian = tfjac.register_curvature(log_sum, hessian=hessian_of_log_sum)
log_sum_with_root = tfjac.register_curvature(log_sum, hessian_root=root_of_log_sum)
log_sum = tfjac.register_curvature(log_sum)
quartic = tfjac.register_curvature(lambda z: z**4)

CASES = {
    "sparse, of logits": (
        lambda a: keras_loss("SparseCategoricalCrossentropy", from_logits=True)(LABELS, a),
        lambda a: of_logits(a) / N,
    ),
    "one-hot, of logits, smoothed": (
        lambda a: keras_loss("CategoricalCrossentropy", from_logits=True, label_smoothing=0.2)(ONE_HOT, a),
        lambda a: of_logits(a) / N,
    ),
    "soft labels, weights": (
        lambda a: keras_loss("CategoricalCrossentropy", from_logits=True)(SOFT, a, sample_weight=WEIGHTS),
        lambda a: of_logits(a, WEIGHTS) / N,
    ),
    "of softmax": (
        lambda a: keras_loss("CategoricalCrossentropy", reduction="sum")(ONE_HOT, keras.ops.softmax(a)),
        lambda a: of_logits(a),
    ),
    "of hidden probabilities": (
        lambda a: keras_loss("CategoricalCrossentropy")(SOFT, hidden(tf.nn.softmax(a))),
        lambda a: of_logits(a) / N,
    ),
    "sparse, of hidden probabilities": (
        lambda a: keras_loss("SparseCategoricalCrossentropy")(LABELS, hidden(tf.nn.softmax(a))),
        lambda a: of_logits(a) / N,
    ),
    "log_softmax": (
        lambda a: -tf.reduce_mean(tf.gather(tf.nn.log_softmax(a), LABELS, batch_dims=1)),
        lambda a: of_logits(a) / N,
    ),
    "labels that do not add up to one": (
        lambda a: tf.reduce_sum(tf.nn.softmax_cross_entropy_with_logits(COUNTS, a)),
        lambda a: of_logits(a, total=COUNTS.sum(-1)),
    ),
    "divergence": (
        lambda a: keras_loss("KLDivergence")(SOFT, tf.nn.softmax(a)),
        lambda a: of_logits(a) / N,
    ),
    "focal": (
        lambda a: keras_loss("CategoricalFocalCrossentropy")(ONE_HOT, tf.nn.softmax(a)),
        lambda a: of_logits(a, focal_labels(softmax(a), ONE_HOT).sum(-1)) / N,
    ),
    "binary, of logits": (
        lambda a: keras_loss("BinaryCrossentropy", from_logits=True, label_smoothing=0.1)(BINARY, a),
        lambda a: diagonal(sigmoid(a) * sigmoid(-a)) / (N * M),
    ),
    "binary, of sigmoid, weights": (
        lambda a: keras_loss("BinaryCrossentropy")(BINARY, keras.ops.sigmoid(a), sample_weight=WEIGHTS),
        lambda a: diagonal(sigmoid(a) * sigmoid(-a) * WEIGHTS[:, None]) / (N * M),
    ),
    "binary, of hidden probabilities": (
        lambda a: keras_loss("BinaryCrossentropy")(BINARY, hidden(tf.sigmoid(a))),
        lambda a: diagonal(np.where(BINARY == 1, sigmoid(-a), sigmoid(a)) ** 2) / (N * M),
    ),
    "binary, of probabilities": (
        lambda a: keras_loss("BinaryCrossentropy")(BINARY, tf.sigmoid(a) * 1.0),
        lambda a: diagonal(sigmoid(a) * sigmoid(-a)) / (N * M),
    ),
    "binary focal": (
        lambda a: keras_loss("BinaryFocalCrossentropy")(BINARY, tf.sigmoid(a)),
        lambda a: diagonal(binary_focal(a)) / (N * M),
    ),
    "Poisson of an exponential": (
        lambda a: keras_loss("Poisson")(COUNTS, tf.exp(a)),
        lambda a: diagonal(np.exp(a) - EPSILON * COUNTS * np.exp(a) / (np.exp(a) + EPSILON) ** 2) / (N * M),
    ),
    "Poisson of a rate": (
        lambda a: keras_loss("Poisson")(COUNTS + 1, a + 5.0),
        lambda a: diagonal((COUNTS + 1) / (a + 5 + EPSILON) ** 2) / (N * M),
    ),
    "log_poisson_loss": (
        lambda a: tf.reduce_sum(tf.nn.log_poisson_loss(COUNTS, a)),
        lambda a: diagonal(np.exp(a)),
    ),
    "Huber": (
        lambda a: keras_loss("Huber")(REAL, a),
        lambda a: diagonal(huber_weight(a - REAL)) / (N * M),
    ),
    "Huber, wide": (
        lambda a: keras_loss("Huber", delta=2.5, reduction="sum")(REAL, a, sample_weight=WEIGHTS),
        lambda a: diagonal(2.5 * np.minimum(1 / 2.5, 1 / np.abs(a - REAL)) * WEIGHTS[:, None]) / M,
    ),
    "log-cosh": (
        lambda a: keras_loss("LogCosh")(REAL, a),
        lambda a: diagonal(np.tanh(a - REAL) / (a - REAL)) / (N * M),
    ),
    "log-cosh, written out": (
        lambda a: tf.reduce_mean(tf.math.log(tf.cosh(a - REAL))),
        lambda a: diagonal(np.tanh(a - REAL) / (a - REAL)) / (N * M),
    ),
    "Charbonnier": (
        lambda a: tf.reduce_sum(tf.sqrt(tf.square(a - REAL) + 0.1)),
        lambda a: diagonal(1 / np.sqrt((a - REAL) ** 2 + 0.1)),
    ),
    "Cauchy": (
        lambda a: tf.reduce_sum(tf.math.log1p(tf.square(a - REAL))),
        lambda a: diagonal(2 / (1 + (a - REAL) ** 2)),
    ),
    "exponential": (
        lambda a: tf.reduce_mean(tf.exp(-a * (2 * BINARY - 1))),
        lambda a: diagonal(np.exp(-a * (2 * BINARY - 1))) / (N * M),
    ),
    "gamma": (
        lambda a: tf.reduce_mean(a + (COUNTS + 1) / tf.exp(a)),
        lambda a: diagonal((COUNTS + 1) * np.exp(-a)) / (N * M),
    ),
    "declared": (
        lambda a: tf.reduce_mean(log_sum(REAL, a)),
        lambda a: of_logits(a - REAL) / N,
    ),
    "declared, with its Hessian, weights": (
        lambda a: tf.reduce_sum(log_sum_with_hessian(REAL, a) * WEIGHTS),
        lambda a: of_logits(a - REAL, WEIGHTS),
    ),
    "declared, with a root": (
        lambda a: tf.reduce_sum(log_sum_with_root(REAL, a)),
        lambda a: of_logits(a - REAL),
    ),
    "declared, element by element": (
        lambda a: tf.reduce_sum(quartic(a)),
        lambda a: diagonal(12 * a**2),
    ),
    "a square and a cross-entropy": (
        lambda a: tf.reduce_mean(tf.square(a - REAL)) - tf.reduce_mean(tf.reduce_sum(SOFT * tf.nn.log_softmax(a), -1)),
        lambda a: of_logits(a) / N + 2 * np.eye(M) / (N * M),
    ),
}  # fmt: skip


def found(names, jit_compile=False):
    """Return for each name, from one trace, H `[N, M, M]` and ∇ `[N, M]` of the rows, and TensorFlow's gradient."""
    network = Network()

    def derivatives(loss, outputs):
        problem = problem_of_loss(loss, network.variables)
        pairs = [(rows[:, k], residual[:, k]) for rows, residual in problem.rows for k in range(M)]
        root = tf.stack([tf.gradients(row, outputs)[0] for row, _ in pairs], axis=-1)
        residual = tf.stack([part for _, part in pairs], axis=-1)
        return root @ tf.transpose(root, [0, 2, 1]), tf.linalg.matvec(root, residual), tf.gradients(loss, outputs)[0]

    @tf.function(jit_compile=jit_compile, autograph=False)
    def trace():
        outputs = network()
        return outputs, {name: derivatives(CASES[name][0](outputs), outputs) for name in names}

    return tf.nest.map_structure(lambda tensor: tensor.numpy(), trace())


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


@pytest.mark.parametrize("name", CASES)
def test_curvature_and_gradient(name, all_found):
    outputs, pairs = all_found
    check(outputs, name, *pairs[name])


def test_compiled_by_xla():
    outputs, pairs = found(["sparse, of logits", "focal", "binary focal", "log-cosh", "declared"], jit_compile=True)
    for name, derivatives in pairs.items():
        check(outputs, name, *derivatives)


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


def test_a_square_written_as_a_likelihood():
    network, plain = Network(), Network()
    expected, _ = first_step(lambda: tf.reduce_mean(tf.square(plain() - REAL)), plain.variables)
    step, _ = first_step(lambda: log_likelihood_of_noise(network()), network.variables)
    np.testing.assert_allclose(step, expected, rtol=1e-9, atol=1e-12)


def test_a_weight_is_a_repetition():
    counts, (weighted, repeated) = RNG.integers(0, 3, N), (Network(), Network())
    which = np.repeat(np.arange(N), counts)
    loss = keras_loss("SparseCategoricalCrossentropy", from_logits=True, reduction="sum")
    step, _ = first_step(lambda: loss(LABELS, weighted(), sample_weight=counts), weighted.variables, 1.0)
    expected, _ = first_step(lambda: loss(LABELS[which], tf.gather(repeated(), which)), repeated.variables, 1.0)
    np.testing.assert_allclose(step, expected, rtol=1e-9, atol=1e-12)


# ------------------------------------------------------------------ at the edges


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


def test_two_heads_in_fit():
    """A cross-entropy, a squared error and an L2, with weights; what Keras says of the gradient is compared."""
    heads = lambda x: [keras.layers.Dense(M, "softmax")(x), keras.layers.Dense(M)(x)]  # noqa: E731
    losses = ["sparse_categorical_crossentropy", "mse"]
    fit(heads, losses, [LABELS, REAL], loss_weights=[1.0, 0.3])


class Steps(keras.layers.Layer):
    """[n, 4·3] to [n, 4 steps, 3 classes]."""

    def call(self, x):
        return tf.reshape(x, [-1, 4, M])


@pytest.mark.parametrize("activation", [None, "softmax"])
def test_sequences_keep_their_examples(activation):
    """TensorFlow's op wants rows; taken from there, examples would mix, at a backward pass for each row."""
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=activation is None)
    head = lambda x: keras.layers.Activation(activation)(Steps()(keras.layers.Dense(4 * M)(x)))  # noqa: E731
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        fit(head, loss, RNG.integers(0, M, (N, 4)))
