"""Convex losses of the outputs of a small network, each with its Hessian written out by hand, in NumPy."""

import keras
import numpy as np
import tensorflow as tf

import tfjac

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


@tfjac.register_curvature
def mixture(y, z):
    """−log of two normal densities, means and the logit of their shares: not convex."""
    of_first, of_second = (log(z[:, 2]) - (y - z[:, k]) ** 2 / 2 for k, log in enumerate(SHARES))
    return -tf.reduce_logsumexp(tf.stack([of_first, of_second], -1), -1)


SHARES = tf.math.log_sigmoid, lambda logit: tf.math.log_sigmoid(-logit)


def positive_part_of_mixture(y, z, step=1e-5):
    """Of its Hessian, by central differences of its slope: −g₁u₁, −g₂u₂ and p − g₁, g being what each answers for."""

    def slope(z):
        p, (first, second) = sigmoid(z[:, 2]), (y - z[:, 0], y - z[:, 1])
        each = p * np.exp(-(first**2) / 2), (1 - p) * np.exp(-(second**2) / 2)
        g = each[0] / sum(each)
        return np.stack([-g * first, (g - 1) * second, p - g], -1)

    along = step * np.eye(M)
    hessian = np.stack([(slope(z + d) - slope(z - d)) / (2 * step) for d in along], -1)
    values, vectors = np.linalg.eigh((hessian + hessian.transpose(0, 2, 1)) / 2)
    assert (values < -0.01).any(), "the case shows nothing: it is convex here"
    return vectors * np.maximum(values, 0)[:, None] @ vectors.transpose(0, 2, 1)


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
    "declared, not convex": (
        lambda a: tf.reduce_sum(mixture(REAL[:, 0], a)),
        lambda a: positive_part_of_mixture(REAL[:, 0], a),
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
