"""Models of the families that users bring, each with some thousand weights, in every dtype policy."""

import atexit
import functools
import shutil
import tempfile
from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf
from keras import layers

from tests.precision import floating


class Subject(NamedTuple):
    """What Jacobians are asked of."""

    call: Any  # x[n, *inputs] -> y[n, m]
    variables: list
    x: np.ndarray
    mixes: bool  # whether an example's output depends on other examples


class Tied(layers.Layer):
    """tanh(x W + b) Wᵀ, then tanh(· W + b): one weight at three places, once transposed."""

    def build(self, shape):
        self.w = self.add_weight(shape=(shape[-1], 40), initializer="glorot_normal")
        self.b = self.add_weight(shape=(40,), initializer="normal")

    def call(self, x):
        decoded = keras.ops.matmul(keras.ops.tanh(keras.ops.matmul(x, self.w) + self.b), keras.ops.transpose(self.w))
        return keras.ops.tanh(keras.ops.matmul(decoded, self.w) + self.b)


class Nested(keras.Model):
    """A user's function inside a user's function."""

    def __init__(self):
        super().__init__()
        self.first, self.second, self.last = layers.Dense(32, "tanh"), layers.Dense(32, "softplus"), layers.Dense(3)
        for layer, width in ((self.first, 8), (self.second, 32), (self.last, 32)):
            layer.build((None, width))

    @tf.function
    def inner(self, x):
        return self.second(x)

    @tf.function
    def middle(self, x):
        hidden = self.first(x)
        return hidden + self.inner(hidden)

    def call(self, x, training=None):
        return self.last(self.middle(x))


def _mlp(x):
    return layers.Dense(5)(layers.Dense(32, "softplus")(layers.Dense(32, "tanh")(x)))


def _cnn(x):
    strided = layers.Conv2D(8, 3, strides=2, padding="same", activation="tanh")(x)
    grouped = layers.Conv2D(8, 3, groups=2, activation="softplus")(strided)
    return layers.Dense(4)(layers.Flatten()(grouped))


def _lstm(x):
    return layers.Dense(3)(layers.LSTM(16)(x))


def _attention(x):
    words = layers.Embedding(40, 16)(x)
    attended = words + layers.MultiHeadAttention(2, 8)(words, words)
    return layers.Dense(5)(layers.GlobalAveragePooling1D()(attended))


def _normalised(x):
    hidden = layers.Activation("tanh")(layers.BatchNormalization()(layers.Dense(32)(x)))
    return layers.Dense(4)(layers.LayerNormalization()(layers.Dense(32, "tanh")(hidden)))


def _tied(x):
    return layers.Dense(6)(Tied()(x))


def _signal(x):
    return layers.Dense(4)(layers.Flatten()(layers.Conv1D(16, 3, activation="tanh")(x)))


# Family: shape of an example, number of examples, what is made of it.
FAMILIES = {
    "mlp": ((8,), 32, _mlp),
    "cnn": ((8, 8, 3), 16, _cnn),
    "lstm": ((6, 4), 16, _lstm),
    "attention": ((10,), 16, _attention),
    "normalised": ((8,), 32, _normalised),
    "tied": ((24,), 24, _tied),
    "nested": ((8,), 64, Nested),
    "loaded": ((10, 4), 32, _signal),
    "mixing": ((8,), 16, _normalised),
}
WORDS = "attention"  # the family whose inputs are integers


def _made(family, policy, batch_size):
    shape, _, layers_of = FAMILIES[family]
    with floating(policy):
        dtype = "int32" if family == WORDS else keras.config.floatx()
        inputs = keras.Input(shape, batch_size=batch_size, dtype=dtype)
        if family == "nested":
            model = Nested()
            model(np.zeros((1, *shape), dtype))
            return model
        return keras.Model(inputs, layers_of(inputs))


@functools.cache
def reference(family):
    """The model in float64, and its inputs; weights and inputs are numbers that bfloat16 holds too."""
    shape, examples, _ = FAMILIES[family]
    rng = np.random.default_rng(len(family))
    model = _made(family, "float64", None)
    for variable in model.variables:
        if "seed" in variable.path:
            continue
        value = variable.numpy() + 0.1 * rng.normal(size=variable.shape)  # zeros and ones hide mistakes
        variable.assign(_rounded(np.abs(value) if "variance" in variable.path else value))
    if family == WORDS:
        return model, rng.integers(0, 40, (examples, *shape)).astype(np.int32)
    return model, _rounded(rng.normal(size=(examples, *shape)))


def _rounded(value):
    return tf.cast(tf.cast(value, tf.bfloat16), tf.float64).numpy()


@functools.cache
def subject(family, policy, batch):
    """The family's model in a dtype policy, with the batch "open" or "static"."""
    source, x = reference(family)
    model = _made(family, policy, None if batch == "open" else len(x))
    model.set_weights(source.get_weights())
    x = x if family == WORDS else x.astype("float64" if policy == "float64" else "float32")
    if family == "loaded":
        return _loaded(model, x, batch)
    return Subject(
        functools.partial(model, training=family == "mixing"), model.trainable_variables, x, family == "mixing"
    )


def _loaded(model, x, batch):
    """The model as `model.export` saved it, with an open batch; or as a `tf.Module`, with a static one."""
    path = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, path, ignore_errors=True)
    if batch == "open":
        model.export(path, verbose=False)
        loaded = tf.saved_model.load(path)
        return Subject(loaded.serve, _in_order(model, loaded.trainable_variables), x, False)
    module = tf.Module()
    module.weights = [variable.value for variable in model.trainable_variables]
    module.run = tf.function(model, input_signature=[tf.TensorSpec(x.shape, x.dtype)])
    tf.saved_model.save(module, path)
    loaded = tf.saved_model.load(path)
    return Subject(loaded.run, list(loaded.weights), x, False)


def _in_order(model, variables):
    """The loaded variables, in the order in which the model has them."""
    wanted = [variable.numpy() for variable in model.trainable_variables]
    return [next(v for v in variables if np.array_equal(v.numpy(), value)) for value in wanted]
