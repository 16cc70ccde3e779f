"""Examples that depend on one another through few values, such as the mean and variance of a batch.

The oracle takes the gradient of each result by TensorFlow's tape, in float64.
"""

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers

import tfjac

WARNS = "costs a backward pass"


def oracle(function, x, variables):
    """Return for each variable the Jacobian `[n·m, q]`, row by row."""
    with tf.GradientTape(persistent=True) as tape:
        outputs = tf.unstack(tf.reshape(function(tf.constant(x)), [-1]))
    rows = [[tape.gradient(y, v.value, unconnected_gradients="zero") for v in variables] for y in outputs]
    return [np.stack([tf.reshape(row[k], [-1]) for row in rows]) for k in range(len(variables))]


def check(function, x, variables, open_batch=False, atol=1e-9, **options):
    shape = [None, *x.shape[1:]] if open_batch else x.shape

    @tf.function(input_signature=[tf.TensorSpec(shape, x.dtype)])
    def jacobian(x):
        return tfjac.per_example_jacobian(function(x), variables, examples_mix="full", **options)

    for found, rows in zip(jacobian(x), oracle(function, x, variables)):
        np.testing.assert_allclose(found.numpy().reshape(rows.shape), rows, atol=atol)


def normalised(*hidden, shape):
    """Return a float64 model with a batch normalisation behind each of some layers."""
    keras.utils.set_random_seed(7)
    with_norms = [part for layer in hidden for part in (layer, layers.BatchNormalization(), layers.Activation("tanh"))]
    model = keras.Sequential([keras.Input(shape), *with_norms, layers.Flatten(), layers.Dense(2)])
    for variable in model.variables:
        if "gamma" in variable.path or "beta" in variable.path:
            variable.assign(variable + 0.3 * keras.random.normal(variable.shape))
    return model


@pytest.fixture(autouse=True)
def double_precision():
    keras.config.set_dtype_policy("float64")
    yield
    keras.config.set_dtype_policy("float32")


@pytest.mark.by_day(None)
@pytest.mark.filterwarnings(f"error:.*{WARNS}")
@pytest.mark.parametrize("open_batch", [False, True])
def test_batch_normalisation_twice(rng, open_batch):
    model = normalised(layers.Dense(3), layers.Dense(4), shape=(5,))
    check(lambda x: model(x, training=True), rng.normal(size=(30, 5)), model.trainable_variables, open_batch)


@pytest.mark.by_day(None)
@pytest.mark.filterwarnings(f"error:.*{WARNS}")
@pytest.mark.parametrize("open_batch", [False, True])
def test_batch_normalisation_of_images(rng, open_batch):
    model = normalised(layers.Conv2D(2, 3), layers.DepthwiseConv2D(3), shape=(6, 6, 1))
    check(lambda x: model(x, training=True), rng.normal(size=(20, 6, 6, 1)), model.trainable_variables, open_batch)


@pytest.mark.by_day(None)
@pytest.mark.filterwarnings(f"error:.*{WARNS}")
def test_compiled(rng):
    model = normalised(layers.Dense(3), shape=(4,))
    x, variables = tf.constant(rng.normal(size=(12, 4))), model.trainable_variables

    @tf.function(jit_compile=True)
    def jacobian():
        return tfjac.per_example_jacobian(model(x, training=True), variables, examples_mix="full")

    for found, rows in zip(jacobian(), oracle(lambda x: model(x, training=True), x, variables)):
        np.testing.assert_allclose(found.numpy().reshape(rows.shape), rows, atol=1e-9)


def of_the_batch(name, w, v):
    """Functions of a batch whose examples share few values that are computed from all of them."""
    return {
        "less the mean": lambda x: x @ w - tf.reduce_mean(x @ w, 0),
        "a softmax over the batch": lambda x: tf.exp(x @ w) / tf.reduce_sum(tf.exp(x @ w), 0),
        "a share of the largest": lambda x: tf.exp(x @ w) / tf.reduce_max(tf.exp(x @ w)),
        "whitened": lambda x: (x @ w) @ tf.linalg.inv(tf.linalg.cholesky(tf.matmul(x @ w, x @ w, transpose_a=True))),
        "one behind the other": lambda x: tf.tanh(x @ w - tf.reduce_mean(x @ w, 0)) @ v / tf.reduce_sum((x @ w) ** 2),
        "two scales": lambda x: (x @ w) * tf.reduce_mean(tf.sin(x @ w)) + (x @ w)[:, :1] * tf.math.reduce_std(x @ w),
    }[name]


NAMES = ["less the mean", "a softmax over the batch", "a share of the largest", "whitened", "one behind the other",
         "two scales"]  # fmt: skip


@pytest.mark.by_day(one_in=6)
@pytest.mark.filterwarnings(f"error:.*{WARNS}")
@pytest.mark.parametrize("name", NAMES)
def test_functions_of_a_batch(rng, name):
    w, v = (keras.Variable(rng.normal(size=size), dtype="float64") for size in ((4, 2), (2, 2)))
    variables = [w, v] if name == "one behind the other" else [w]
    check(of_the_batch(name, w, v), rng.normal(size=(25, 4)), variables)


@pytest.mark.by_day(None)
def test_chunks_are_the_same(rng):
    model = normalised(layers.Dense(3), shape=(4,))
    check(lambda x: model(x, training=True), rng.normal(size=(12, 4)), model.trainable_variables, chunk_size=1)


@pytest.mark.by_day(None)
def test_dropout_is_drawn_once(rng):
    """The values are computed again with other weights, not with other random numbers."""
    model = normalised(layers.Dense(3), layers.Dropout(0.5), shape=(4,))
    x, variables = tf.constant(rng.normal(size=(30, 4))), model.trainable_variables

    @tf.function
    def both():
        y = model(x, training=True)
        u = tf.cos(tf.range(60.0, dtype=tf.float64))
        gradients = tf.gradients(y, [v.value for v in variables], grad_ys=tf.reshape(u, [30, 2]))
        return tfjac.per_example_jacobian(y, variables, examples_mix="full"), gradients, u

    jacobian, gradients, u = both()
    for found, gradient in zip(jacobian, gradients):
        pulled = np.tensordot(u, found.numpy().reshape(60, *gradient.shape), 1)
        np.testing.assert_allclose(pulled, gradient, atol=1e-9)


def test_a_value_that_only_shared_values_depend_on(rng):
    """A weight with no other path: all of its Jacobian passes through them."""
    w, scale = keras.Variable(rng.normal(size=(3, 1)), dtype="float64"), keras.Variable([0.3], dtype="float64")
    check(lambda x: x @ w * tf.reduce_mean(tf.exp(scale * x)), rng.normal(size=(20, 3)), [w, scale])


def test_values_of_several_dtypes(rng):
    w = keras.Variable(rng.normal(size=(3, 2)), dtype="float64")

    def function(x):
        half = tf.cast(x @ w, tf.float32)
        apart = tf.cast(half - tf.reduce_mean(half, 0), tf.float64)
        return apart * tf.reduce_mean(tf.square(x @ w))

    check(function, rng.normal(size=(20, 3)), [w], atol=1e-5)


@pytest.mark.parametrize(
    "function",
    [lambda z: tf.matmul(z, z, transpose_b=True), lambda z: z - tf.reverse(z, [0]), lambda z: tf.cumsum(z, 0)],
    ids=["products of all pairs", "reversed", "cumulative"],
)
def test_more_values_than_results_are_taken_row_by_row(rng, function):
    w = keras.Variable(rng.normal(size=(9, 2)), dtype="float64")
    with pytest.warns(UserWarning, match=WARNS):
        check(lambda x: function(x @ w), rng.normal(size=(6, 9)), [w])


@pytest.mark.filterwarnings(f"error:.*{WARNS}")
def test_operator(rng):
    """Its products and norms are those of the same Jacobian, without forming it."""
    model = normalised(layers.Dense(3), layers.Conv1D(2, 2), shape=(3, 4))
    x, variables = rng.normal(size=(12, 3, 4)), model.trainable_variables
    dense = np.concatenate(oracle(lambda x: model(x, training=True), x, variables), 1)
    operator = tfjac.jacobian_operator(
        lambda: model(tf.constant(x), training=True), variables, examples_mix="full", verify=True
    )
    v, u = rng.normal(size=(dense.shape[1], 2)), rng.normal(size=(dense.shape[0], 2))
    np.testing.assert_allclose(operator.to_dense(), dense, atol=1e-9)
    np.testing.assert_allclose(operator.matmul(v), dense @ v, atol=1e-9)
    np.testing.assert_allclose(operator.matmul(u, adjoint=True), dense.T @ u, atol=1e-9)
    np.testing.assert_allclose(operator.gram(), dense.T @ dense, atol=1e-8)
    np.testing.assert_allclose(operator.kernel(), dense @ dense.T, atol=1e-8)
    np.testing.assert_allclose(operator.row_norms(), np.linalg.norm(dense, axis=1), atol=1e-8)
    np.testing.assert_allclose(operator.column_norms(), np.linalg.norm(dense, axis=0), atol=1e-6)  # roots of rounding
    scales = np.arange(1.0, len(variables) + 1)
    weights = np.repeat(scales, [np.prod(v.shape, dtype=int) for v in variables])
    np.testing.assert_allclose(operator.kernel(scales), dense * weights @ dense.T, atol=1e-8)


@pytest.mark.by_day(None)
def test_a_wide_model_is_never_formed(rng):
    """J of 2,400 residuals and 1,000,000 weights would take 20 GB."""
    keras.utils.set_random_seed(0)
    first = layers.Dense(1000, use_bias=False)
    model = keras.Sequential(
        [keras.Input((1000,)), first, layers.Dense(4), layers.BatchNormalization(), layers.Dense(8)]
    )
    x, u = tf.constant(rng.normal(size=(300, 1000))), tf.constant(rng.normal(size=(2400, 1)))

    @tf.function
    def products():
        y = model(x, training=True)
        operator = tfjac.jacobian_operator(y, [first.kernel], examples_mix="full")
        pulled = tf.gradients(y, first.kernel.value, grad_ys=tf.reshape(u, [300, 8]))[0]
        return operator.matmul(u, adjoint=True)[:, 0], tf.reshape(pulled, [-1])

    found, gradient = products()
    np.testing.assert_allclose(found, gradient, atol=1e-9 * np.abs(gradient).max())
