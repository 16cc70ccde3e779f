"""`verify=True` and `TFJAC_VERIFY=1`: silent where all is well, and an error with a name where anything is broken."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.precision import floating
from tfjac.graph import verification_wanted, verified
from tfjac.linear.model import StackedJacobian
from tfjac.optimizers import LevenbergMarquardt, Status, least_squares

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(12, 3)).astype("float32"), RNG.normal(size=(12, 2)).astype("float32")


@pytest.fixture
def broken(monkeypatch):
    """A Jacobian that is one per cent off in its second variable."""
    right = StackedJacobian.gram_and_gradient

    def wrong(self, vector):
        gram, gradient = right(self, vector)
        parts = self.columns.split(gradient)
        return gram, self.columns.flatten([parts[0], 1.01 * parts[1], *parts[2:]])

    monkeypatch.setattr(StackedJacobian, "gram_and_gradient", wrong)


def fit(*stack, x=X, y=Y, verify=True, epochs=3, **options):
    keras.utils.set_random_seed(0)
    model = keras.Sequential(
        [keras.Input(x.shape[1:]), *(stack or (keras.layers.Dense(4, "tanh"), keras.layers.Dense(2)))]
    )
    model.compile(optimizer=LevenbergMarquardt(solver="cholesky", verify=verify), loss="mse", **options)
    model.fit(x, y, batch_size=len(x), epochs=epochs, verbose=0)
    return model.optimizer


class InnerNoise(keras.layers.Layer):
    @tf.function
    def call(self, x):
        return x + tf.random.normal(tf.shape(x))


REGULARISED_WITH_DROPOUT = (
    keras.layers.Dense(8, activation="tanh", kernel_regularizer="l2"),
    keras.layers.Dropout(0.3),
    keras.layers.Dense(2),
)
NOISE_IN_AN_INNER_FUNCTION = (keras.layers.Dense(2), InnerNoise())


@pytest.mark.parametrize("stack", [REGULARISED_WITH_DROPOUT, NOISE_IN_AN_INNER_FUNCTION], ids=["dropout", "noise"])
def test_silent_where_all_is_well(stack):
    assert fit(*stack).num_accepted > 0


@pytest.mark.by_day(None)
def test_silent_on_sparse_gradients_and_at_a_perfect_fit():
    tokens = RNG.integers(0, 5, (12, 2))
    layers = keras.layers.Embedding(5, 2), keras.layers.Flatten(), keras.layers.Dense(2)
    assert fit(*layers, x=tokens, y=np.zeros_like(Y), epochs=15).num_accepted > 2


class ShiftedTwice(keras.layers.Layer):
    """Softmax of x and x + 1: the same whatever x is."""

    def call(self, x):
        return tf.nn.softmax(tf.concat([x, x + 1.0], axis=-1))


@pytest.mark.by_day(None)
@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize(
    "stack",
    [
        lambda: [keras.layers.Reshape((3, 1)), SelfAttention(), keras.layers.Flatten()],
        lambda: [keras.layers.Dense(5), keras.layers.BatchNormalization(momentum=0.0), keras.layers.Activation("tanh")],
        lambda: [keras.layers.Dense(1), ShiftedTwice()],
        lambda: [keras.layers.Reshape((3, 1)), keras.layers.Conv1D(4, 2), keras.layers.GroupNormalization(4),
                 keras.layers.Flatten()],
    ],
    ids=["a bias of keys", "before batch normalisation", "before softmax", "before group normalisation"],
)  # fmt: skip
def test_silent_where_a_gradient_is_zero_but_for_rounding(stack, seed):
    x = np.random.default_rng(seed).normal(size=(40, 3)).astype("float32")
    assert fit(*stack(), keras.layers.Dense(2), x=x, y=np.sin(x[:, :2] * 3), epochs=4).num_accepted > 0


class SelfAttention(keras.layers.Layer):
    def build(self, shape):
        self.attention = keras.layers.MultiHeadAttention(2, 4)
        self.attention.build(shape, shape)

    def call(self, x):
        return self.attention(x, x)


@pytest.mark.by_day(None)
def test_error_in_fit_names_the_variable(broken):
    fit(verify=False)
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"for variable sequential\S*/dense\S*/bias, the gradient"):
        fit()


@pytest.mark.by_day(None)
@pytest.mark.unverified("first it solves what is broken")
def test_error_in_least_squares_under_the_switch(broken, monkeypatch):
    variables = [tf.Variable(RNG.normal(size=(3, 2))), tf.Variable(np.zeros(2), name="offset")]
    residuals = lambda: tf.tanh(X.astype(float) @ variables[0] + variables[1]) - Y  # noqa: E731
    least_squares(residuals, variables, max_steps=2, solver="cholesky")
    monkeypatch.setenv("TFJAC_VERIFY", "1")
    with pytest.raises(tf.errors.InvalidArgumentError, match="for variable offset:0, the gradient from residuals"):
        least_squares(lambda: residuals(), variables, max_steps=2, solver="cholesky")


@pytest.mark.by_day(None)
@pytest.mark.parametrize("solver", ["auto", "kernel"])
def test_minimize_with_every_solver(solver):
    variables = [tf.Variable(RNG.normal(size=(3, 2))), tf.Variable(np.zeros(2))]
    optimizer = LevenbergMarquardt(solver=solver, verify=True)
    residuals = lambda: tf.tanh(X.astype(float) @ variables[0] + variables[1]) - Y  # noqa: E731
    assert all(optimizer.minimize(residuals, variables).accepted for _ in range(3))


@pytest.mark.by_day(None)
def test_a_cost_that_is_not_the_same_again():
    """A Python function is taken for one that computes; here it counts."""
    weight, calls = tf.Variable([1.0, 2.0], dtype=tf.float64), iter(range(10))

    @tf.custom_gradient
    def counted(w):
        return tf.ensure_shape(tf.py_function(lambda x: x + next(calls), [w], tf.float64), [2]), lambda d: d

    with pytest.raises(tf.errors.InvalidArgumentError, match="evaluated again where it was, the cost"):
        LevenbergMarquardt(verify=True).minimize(lambda: counted(weight), [weight])


@pytest.mark.by_day(None)
def test_under_xla_it_says_that_it_checks_nothing():
    with pytest.warns(UserWarning, match="nothing is verified in functions compiled by XLA"):
        fit(jit_compile=True, epochs=1)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32", "float64", "complex128"])
def test_what_counts_as_rounding(dtype):
    ours = tf.constant([1.0, 100.0], dtype)
    compare = tf.function(lambda theirs, scale: verified(ours, theirs, scale, "it differs"), autograph=False)
    np.testing.assert_array_equal(compare(ours, tf.constant(0.0)), ours)
    compare(ours * [1, np.nan], tf.constant(1.0))
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"it differs by \d"):
        compare(ours + [0, 20], tf.constant(100.0))


@pytest.mark.unverified("first it is off")
def test_the_switch(monkeypatch):
    assert not verification_wanted() and verification_wanted(True)
    monkeypatch.setenv("TFJAC_VERIFY", "1")
    assert verification_wanted() and not verification_wanted(False)
    monkeypatch.setenv("TFJAC_VERIFY", "yes")
    with pytest.raises(ValueError, match=r"must be 0 or 1. Received: TFJAC_VERIFY='yes'"):
        verification_wanted()
    with pytest.raises(TypeError, match="Received: verify='yes'"):
        LevenbergMarquardt(verify="yes")


@pytest.mark.by_day(one_in=2)
@pytest.mark.parametrize("size", [5.0, 25.0])
def test_a_classifier_that_is_sure_of_itself(size):
    """Where labels are met, what is left of them is rounding, beside which the gradient is small."""
    labels = np.argmax(Y, axis=1)
    x = np.eye(2)[labels] + 1e-3 * RNG.normal(size=Y.shape)
    with floating("float64"):
        model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(2)])
        model.layers[0].kernel.assign(size * np.eye(2))
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile(optimizer=LevenbergMarquardt(verify=True), loss=loss)
        model.fit(x, labels, batch_size=len(x), verbose=0)
    assert model.optimizer.status == Status.RUNNING
