"""The squares found in a loss, against Keras' own gradient: Jᵀr plus the prior's part is the gradient of the loss."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from tfjac.objective.residuals import objective_of_loss
from tfjac.optimizers import LevenbergMarquardt, NotASumOfSquares

layers = keras.layers
RNG = np.random.default_rng(3)
X, Y, Y2 = (RNG.normal(size=size).astype("float32") for size in ((12, 4), (12, 3), (12, 2)))
TOKENS, SEQUENCES = RNG.integers(0, 9, (12, 6)), RNG.normal(size=(12, 6, 2)).astype("float32")


class Spy(LevenbergMarquardt):
    """Keeps, per batch, Keras' gradient and the decomposition's, the loss and ½‖r‖²; takes no step."""

    def build(self, variables):
        super().build(variables)
        size = sum(int(np.prod(v.shape)) for v in variables)
        self.seen = [self.add_variable((size,), name=name) for name in ("keras", "ours")]
        self.values = [self.add_variable((), name=name) for name in ("loss", "half_square", "rows")]

    def apply(self, grads, trainable_variables=None):
        loss = self._seen_loss.take()
        problem = objective_of_loss(loss, self._variables_of_step(trainable_variables))
        linearisation = problem.linearise()
        self.prior = problem.prior
        self.seen[0].assign(problem.columns.flatten([tf.convert_to_tensor(g) for g in grads]))
        self.seen[1].assign(linearisation.gradient())
        self.values[0].assign(loss)
        self.values[1].assign(tf.reduce_sum(tf.square(linearisation.residual)) / 2)
        self.values[2].assign(tf.cast(linearisation.num_rows, tf.float32))


def observe(model, x, y, fit=None, **compile_options):
    """Run one epoch of the spy and return it."""
    keras.utils.set_random_seed(0)
    spy = Spy()
    model.compile(optimizer=spy, **compile_options)
    model.fit(x, y, verbose=0, shuffle=False, **{"batch_size": 12, **(fit or {})})
    return spy


def check_gradient(spy):
    expected, ours = (variable.numpy() for variable in spy.seen)
    assert np.abs(expected).max() > 1e-3
    np.testing.assert_allclose(ours, expected, rtol=2e-4, atol=2e-6 * np.abs(expected).max() + 1e-7)


def mlp(**options):
    keras.utils.set_random_seed(1)
    return keras.Sequential(
        [layers.Input((4,)), layers.Dense(5, activation="tanh", **options), layers.Dense(3, **options)]
    )


def two_outputs(activity=None):
    keras.utils.set_random_seed(1)
    inputs = keras.Input((4,))
    hidden = layers.Dense(5, activation="tanh", activity_regularizer=activity)(inputs)
    return keras.Model(inputs, [layers.Dense(3, name="a")(hidden), layers.Dense(2, name="b")(hidden)])


def masked_sequence(mask=True):
    keras.utils.set_random_seed(1)
    tokens = keras.Input((6,))
    hidden = layers.Embedding(9, 4, mask_zero=mask)(tokens)
    hidden = layers.Dense(3, activation="tanh")(hidden)
    return keras.Model(tokens, layers.Dense(2)(hidden))


def weighted_sum(y, prediction):
    return tf.reduce_sum(tf.constant([1.0, 2.0, 0.5]) * (prediction - y) ** 2, axis=-1)


def half_sum(y, prediction):
    return tf.nn.l2_loss(prediction - y) / 7


def difference(y, prediction):
    return tf.reduce_mean(tf.math.squared_difference(y, prediction))


def per_timestep(y, prediction):
    return tf.square(tf.reshape(prediction, [-1, 2]) - tf.reshape(y, [-1, 2]))


def product_with_itself(y, prediction):
    error = prediction - y
    return tf.einsum("ni,i->n", error * error, tf.constant([1.0, 2.0, 3.0]))


def written_twice(y, prediction):
    return tf.reduce_mean((prediction - y) * (prediction - y), axis=-1)


def differently_random(y, prediction):
    noisy = [prediction + tf.random.stateless_normal(tf.shape(prediction), seed) for seed in ([1, 2], [3, 4])]
    return tf.reduce_mean((noisy[0] - y) * (noisy[1] - y), axis=-1)


def randomly_random(y, prediction):
    return tf.reduce_mean((prediction + tf.random.normal([])) * (prediction + tf.random.normal([])), axis=-1)


def scalar_residual(y, prediction):
    return tf.square(tf.reduce_mean(prediction - y)) + 0.1 * tf.reduce_mean(tf.square(prediction - y))


@keras.saving.register_keras_serializable("tests")
def towards_one(weight):
    return 0.3 * tf.reduce_sum(tf.square(weight - 1.0))


def times_itself(weight):
    return 0.1 * tf.reduce_sum(weight * weight)


def masked_weights(weight):
    mask = tf.cast(tf.range(weight.shape[-1]) % 2, weight.dtype)
    return 0.3 * tf.reduce_sum(tf.square(tf.broadcast_to(mask, weight.shape) * weight))


def orthogonal(weight):
    return 0.1 * tf.reduce_sum(tf.square(tf.matmul(weight, weight, transpose_b=True)))


L2 = keras.regularizers.L2(0.05)
SINGLE = {
    "mean over a batch that is not full": ({"loss": "mse"}, {"batch_size": 5}, {}),
    "sample_weight with zeros": ({"loss": "mse"}, {"sample_weight": np.arange(12) % 3 * 1.0}, {}),
    "reduction sum": ({"loss": keras.losses.MeanSquaredError(reduction="sum")}, {}, {}),
    "mean with sample weight": (
        {"loss": keras.losses.MeanSquaredError(reduction="mean_with_sample_weight")},
        {"sample_weight": RNG.uniform(0, 2, 12).astype("float32")},
        {},
    ),
    "loss_weights": ({"loss": "mse", "loss_weights": 0.3}, {}, {}),
    "squared logarithms": ({"loss": "msle"}, {}, {}),
    "squared hinge": ({"loss": "squared_hinge"}, {}, {}),
    "L2 of all": ({"loss": "mse"}, {}, {"kernel_regularizer": L2, "bias_regularizer": keras.regularizers.L2(0.2)}),
    "L1L2 without L1": ({"loss": "mse"}, {}, {"kernel_regularizer": keras.regularizers.L1L2(0.0, 0.1)}),
    "activity": ({"loss": "mse"}, {}, {"activity_regularizer": L2}),
    "prior around one": ({"loss": "mse"}, {}, {"kernel_regularizer": towards_one}),
    "a variable times itself": ({"loss": "mse"}, {}, {"kernel_regularizer": times_itself}),
    "weighted outputs": ({"loss": weighted_sum}, {}, {}),
    "l2_loss": ({"loss": half_sum}, {}, {}),
    "squared_difference": ({"loss": difference}, {}, {}),
    "u * u and einsum": ({"loss": product_with_itself}, {}, {}),
    "(y - p) * (y - p)": ({"loss": written_twice}, {}, {}),
    "two noises, a product that is convex": ({"loss": differently_random}, {}, {}),
    "two draws of one noise": ({"loss": randomly_random}, {}, {}),
    "a residual of the whole batch": ({"loss": scalar_residual}, {}, {}),
}  # fmt: skip


@pytest.mark.by_day(None)
@pytest.mark.parametrize("name", SINGLE)
def test_gradient_of_one_output(name):
    compile_options, fit, layer_options = SINGLE[name]
    y = np.abs(Y) if "logarithm" in name else np.sign(Y) if "hinge" in name else Y
    check_gradient(observe(mlp(**layer_options), X, y, fit, **compile_options))


@pytest.mark.by_day(None)
@pytest.mark.parametrize(
    "activity, loss_weights, batch_size",
    [(None, None, 5), (None, [1.0, 0.3], 12), ("l2", None, 12), ("l2", [1.0, 0.3], 5)],
)
def test_gradient_of_two_outputs(activity, loss_weights, batch_size):
    weights = [RNG.uniform(0, 2, 12).astype("float32"), np.ones(12, "float32")]
    fit = {"sample_weight": weights, "batch_size": batch_size}
    spy = observe(two_outputs(activity), X, [Y, Y2], fit, loss=["mse", "mse"], loss_weights=loss_weights)
    check_gradient(spy)
    rows = 12 % batch_size or batch_size
    assert spy.values[2].numpy() == rows * (5 + (5 if activity else 0))


def test_gradient_with_class_weight():
    keras.utils.set_random_seed(1)
    model = keras.Sequential([layers.Input((4,)), layers.Dense(1, activation="sigmoid")])
    labels = (Y[:, :1] > 0).astype("float32")
    check_gradient(observe(model, X, labels, {"class_weight": {0: 1.0, 1: 3.0}}, loss="mse"))


@pytest.mark.by_day(None)
def test_gradient_with_masks_and_weights_per_step():
    weights = RNG.uniform(0, 2, (12, 6)).astype("float32")
    fit = {"sample_weight": weights, "batch_size": 5}
    check_gradient(observe(masked_sequence(), TOKENS, SEQUENCES, fit, loss="mse"))


@pytest.mark.by_day(None)
def test_gradient_of_a_loss_whose_leading_axis_is_not_the_example():
    model = masked_sequence(mask=False)
    check_gradient(observe(model, TOKENS, SEQUENCES, {"batch_size": 5}, loss=per_timestep))


def test_value_and_gradient_of_the_loss():
    spy = observe(mlp(), X, Y, loss="mse")
    check_gradient(spy)
    loss, half_square, rows = (value.numpy() for value in spy.values)
    np.testing.assert_allclose(half_square, loss, rtol=1e-6)
    assert rows == 36


def test_l2_is_a_diagonal_with_one_number_for_each_variable():
    spy = observe(mlp(kernel_regularizer=L2), X, Y, loss="mse")
    check_gradient(spy)
    assert spy.prior.has_one_number_per_variable and not spy.prior.is_zero
    assert spy.values[2].numpy() == 36, "the regulariser must add no rows"


@pytest.mark.by_day(None)
def test_elementwise_prior_is_a_diagonal_and_dense_one_adds_rows():
    spy = observe(mlp(kernel_regularizer=masked_weights), X, Y, loss="mse")
    check_gradient(spy)
    assert not spy.prior.has_one_number_per_variable
    spy = observe(mlp(kernel_regularizer=orthogonal), X, Y, loss="mse")
    check_gradient(spy)
    assert spy.prior.is_zero and spy.values[2].numpy() == 36 + 4 * 4 + 5 * 5


# ------------------------------------------------------------------ refusals


def root_mean_square(y, prediction):
    return tf.sqrt(tf.reduce_mean(tf.square(prediction - y)))


def subtracted(y, prediction):
    return tf.reduce_mean(tf.square(prediction - y)) - 0.1 * tf.reduce_mean(tf.square(prediction))


def normalised(y, prediction):
    return tf.reduce_mean(tf.square(prediction - y)) / tf.reduce_mean(tf.square(prediction))


def quartic(y, prediction):
    square = tf.square(prediction - y)
    return tf.reduce_mean(square) + tf.reduce_mean(tf.square(square))


REFUSED = {
    "mae": ("mae", "an absolute value, as in 'mae'.*type Abs"),
    "hinge": ("hinge", "a maximum, as in hinge losses, which has no curvature"),
    "categorical hinge": ("categorical_hinge", "a maximum, as in hinge losses"),
    "sine": (lambda y, prediction: tf.sin(prediction - y), "nor convex.*type Sin"),
    "cross-entropy, but subtracted": (
        lambda y, prediction: -tf.nn.softmax_cross_entropy_with_logits(tf.nn.softmax(y), prediction),
        "type SoftmaxCross",
    ),
    "labels that depend on the variables": (
        lambda y, prediction: tf.nn.softmax_cross_entropy_with_logits(tf.nn.softmax(prediction), prediction),
        "type SoftmaxCross",
    ),
    "a cross-entropy and an absolute value": (
        lambda y, p: tf.nn.softmax_cross_entropy_with_logits(tf.nn.softmax(y), p) + tf.reduce_sum(tf.abs(p), -1),
        "type Abs",
    ),
    "cosine": ("cosine_similarity", "two tensors that both depend"),
    "root": (root_mean_square, "type Sqrt"),
    "subtracted": (subtracted, "a square, or what is convex, is subtracted"),
    "normalised": (normalised, "a divisor, an index or a shape depends on the variables"),
    "quartic": (quartic, "itself squared"),
    "product": (lambda y, prediction: prediction[:, 0] * prediction[:, 1], "two tensors that both depend"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name):
    loss, words = REFUSED[name]
    with pytest.raises(NotASumOfSquares, match=words):
        observe(mlp(), X, Y, loss=loss)


@pytest.mark.by_day(one_in=3)
@pytest.mark.parametrize("regularizer", ["l1", keras.regularizers.L1L2(0.1, 0.1), "orthogonal_regularizer"])
def test_l1_is_refused_by_name(regularizer):
    with pytest.raises(NotASumOfSquares, match=r"L1, L1L2 and orthogonal regularisers.*Abs"):
        observe(mlp(kernel_regularizer=regularizer), X, Y, loss="mse")


# ------------------------------------------------------------------ an error that is written twice


ALIKE = {
    "Huber": lambda y, p: 2 * keras.losses.Huber(1e4)(y, p),
    "an absolute value": lambda y, prediction: tf.square(y - prediction) + 1e-6 * tf.abs(y - prediction),
    "products": lambda y, prediction: (y - prediction) * (y - prediction),
    "of twice the error": lambda y, p: tf.square(2.0 * (y - p)) / 4 + 1e-6 * tf.abs(2.0 * (y - p)),
}


@pytest.mark.by_day("values")
@pytest.mark.parametrize("regularizer", [None, "l2"])
@pytest.mark.parametrize("name", ALIKE)
def test_what_equals_squares_is_trained_as_squares(name, regularizer):
    def trained(loss):
        model = mlp(kernel_regularizer=regularizer)
        model.compile(LevenbergMarquardt(), loss)
        model.fit(np.tile(X, [5, 1]), 30 + np.tile(Y, [5, 1]), batch_size=8, epochs=3, shuffle=False, verbose=0)
        return np.concatenate([np.ravel(weight) for weight in model.get_weights()])

    expected = trained("mse")
    np.testing.assert_allclose(trained(ALIKE[name]), expected, rtol=1e-3, atol=1e-3 * np.abs(expected).max())
