"""Every Keras layer that owns weights, on an unmodified model, against one tape.gradient per row.

Recurrent layers have a file of their own. The weights are moved off their initial values first: zeros and ones hide
mistakes.
"""

import inspect
import warnings

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers

import tfjac
from tests.jacobians.oracles import rows_one_at_a_time
from tests.precision import floating

N = 3


def sequential(*stack, shape):
    return keras.Sequential([keras.Input(shape), *stack])


def functional(shape, build):
    inputs = keras.Input(shape)
    return keras.Model(inputs, build(inputs))


def flat(*stack, shape, outputs=2):
    """The layers, made nonlinear and flattened to two outputs."""
    return sequential(*stack, layers.Activation("tanh"), layers.Flatten(), layers.Dense(outputs), shape=shape)


def attention(layer, masked=False):
    def build(x):
        hidden = layers.Dense(4)(x)
        return layers.GlobalAveragePooling1D()(layer(hidden, hidden, use_causal_mask=masked))

    return functional((5, 4), build)


def cross_attention():
    query, value = keras.Input((3, 4)), keras.Input((5, 4))
    attended = layers.MultiHeadAttention(2, 3, dropout=0.5)(layers.Dense(4)(query), layers.Dense(4)(value))
    return keras.Model([query, value], layers.Flatten()(attended))


class TiedEmbedding(keras.Model):
    """A language model in little: the table of the embedding is the output layer too."""

    def __init__(self):
        super().__init__()
        self.embedding, self.dense = layers.Embedding(7, 3), layers.Dense(3, "tanh")

    def call(self, ids):
        hidden = self.dense(self.embedding(ids))
        return tf.reduce_mean(tf.matmul(hidden, self.embedding.embeddings, transpose_b=True), axis=1)


class ReversibleLanguageModel(keras.Model):
    """Keras' own layer for the same, with its table used both ways."""

    def __init__(self):
        super().__init__()
        self.embedding, self.dense = layers.ReversibleEmbedding(7, 3), layers.Dense(3, "tanh")

    def call(self, ids):
        return tf.reduce_mean(self.embedding(self.dense(self.embedding(ids)), reverse=True), axis=1)


class WeightNormalised(layers.Layer):
    """z = x · (g v/‖v‖ ∘ mask): weights reached through arithmetic."""

    def build(self, shape):
        self.v = self.add_weight(shape=(shape[-1], 3), initializer="normal")
        self.g = self.add_weight(shape=(3,), initializer="ones")

    def call(self, x):
        mask = tf.constant(np.tri(self.v.shape[0], 3), x.dtype)
        return tf.matmul(x, self.g * self.v / tf.norm(self.v, axis=0) * mask)


class InnerFunction(layers.Layer):
    """A user's own tf.function, nested twice, inside the layer."""

    def build(self, shape):
        self.w = self.add_weight(shape=(shape[-1], 3), initializer="normal")

    def call(self, x):
        @tf.function
        def inner(x):
            return tf.tanh(tf.matmul(x, self.w))

        return tf.function(lambda x: inner(x) * 2.0)(x)


class PositionEmbedding(layers.Layer):
    """A table added to every example."""

    def build(self, shape):
        self.table = self.add_weight(shape=(1, shape[1], shape[2]), initializer="normal")

    def call(self, x):
        return x * self.table[0] + self.table


def tied_dense():
    dense = layers.Dense(4, "tanh")
    return functional((5, 4), lambda x: layers.GlobalMaxPooling1D()(dense(dense(x))))


def nested():
    inner = sequential(layers.Dense(4, "tanh"), layers.Dense(3, "tanh"), shape=(4,))
    return functional((4,), lambda x: layers.Dense(2)(layers.Concatenate()([inner(x), x])))


def residual_network():
    def build(x):
        for _ in range(2):
            y = layers.BatchNormalization()(layers.Conv2D(2, 3, padding="same", use_bias=False)(x))
            x = layers.Add()([x, layers.ReLU()(y)])
        return layers.Dense(2)(layers.GlobalAveragePooling2D()(x))

    return functional((6, 6, 2), build)


MODELS = {
    "Dense rank 2": lambda: sequential(layers.Dense(4, "tanh"), layers.Dense(2), shape=(5,)),
    "Dense rank 3": lambda: sequential(layers.Dense(4, "tanh"), layers.Dense(2), shape=(3, 5)),
    "Dense rank 4": lambda: sequential(layers.Dense(4, "tanh"), layers.Dense(2), shape=(2, 3, 5)),
    "Dense LoRA": lambda: sequential(layers.Dense(4, "tanh", lora_rank=2), layers.Dense(2), shape=(5,)),
    "ReversibleEmbedding": ReversibleLanguageModel,
    "EinsumDense": lambda: flat(layers.EinsumDense("abc,cde->abde", (3, 2, 4), bias_axes="de"), shape=(3, 5)),
    "EinsumDense per position": lambda: flat(layers.EinsumDense("abc,bcd->abd", (3, 4), bias_axes="d"), shape=(3, 5)),
    "EinsumDense moved": lambda: flat(layers.EinsumDense("abcd,dbe->aec", (4, 3), bias_axes="e"), shape=(2, 3, 5)),
    "Embedding": lambda: sequential(
        layers.Embedding(9, 4, mask_zero=True), layers.GlobalAveragePooling1D(), layers.Dense(2), shape=(6,)
    ),
    "Conv1D": lambda: flat(layers.Conv1D(4, 3, strides=2, padding="same"), shape=(7, 2)),
    "Conv1D causal, dilated": lambda: flat(layers.Conv1D(4, 3, padding="causal", dilation_rate=2), shape=(7, 2)),
    "Conv1D grouped": lambda: flat(layers.Conv1D(4, 3, groups=2), shape=(7, 2)),
    "Conv2D": lambda: flat(layers.Conv2D(4, 3), layers.MaxPooling2D(), shape=(6, 7, 2)),
    "Conv2D same, strided": lambda: flat(layers.Conv2D(4, 3, strides=2, padding="same"), shape=(6, 7, 2)),
    "Conv2D dilated": lambda: flat(layers.Conv2D(4, (3, 2), dilation_rate=(2, 1)), shape=(6, 7, 2)),
    "Conv2D grouped": lambda: flat(layers.Conv2D(6, 3, groups=2, padding="same"), shape=(5, 5, 4)),
    "Conv2D grouped, dilated": lambda: flat(layers.Conv2D(6, 3, groups=2, dilation_rate=2), shape=(6, 6, 4)),
    "Conv3D": lambda: flat(layers.Conv3D(3, 2, strides=2, padding="same"), shape=(3, 4, 5, 2)),
    "Conv1DTranspose": lambda: flat(layers.Conv1DTranspose(3, 3, strides=2), shape=(4, 2)),
    "Conv2DTranspose": lambda: flat(layers.Conv2DTranspose(3, 3, strides=2, padding="same"), shape=(3, 4, 2)),
    "Conv3DTranspose": lambda: flat(layers.Conv3DTranspose(2, 2, strides=2), shape=(2, 3, 2, 2)),
    "DepthwiseConv1D": lambda: flat(layers.DepthwiseConv1D(3, depth_multiplier=2), shape=(6, 3)),
    "DepthwiseConv2D": lambda: flat(layers.DepthwiseConv2D(3, strides=2, depth_multiplier=2), shape=(6, 7, 3)),
    "DepthwiseConv2D dilated": lambda: flat(layers.DepthwiseConv2D(2, dilation_rate=2), shape=(5, 5, 3)),
    "SeparableConv1D": lambda: flat(layers.SeparableConv1D(4, 3, padding="same"), shape=(6, 3)),
    "SeparableConv2D": lambda: flat(layers.SeparableConv2D(4, 3), shape=(5, 6, 3)),
    "BatchNormalization inference": lambda: flat(layers.Dense(4), layers.BatchNormalization(), shape=(5,)),
    "BatchNormalization images": lambda: flat(layers.Conv2D(3, 3), layers.BatchNormalization(), shape=(5, 5, 2)),
    "LayerNormalization": lambda: flat(layers.Dense(4), layers.LayerNormalization(), shape=(3, 5)),
    "GroupNormalization": lambda: flat(layers.Dense(4), layers.GroupNormalization(2), shape=(3, 5)),
    "RMSNormalization": lambda: flat(layers.Dense(4), layers.RMSNormalization(), shape=(3, 5)),
    "UnitNormalization": lambda: flat(layers.Dense(4), layers.UnitNormalization(), layers.Dense(3), shape=(3, 5)),
    "SpectralNormalization": lambda: flat(layers.SpectralNormalization(layers.Dense(4)), shape=(5,)),
    "PReLU": lambda: flat(
        layers.Dense(4), layers.PReLU(), layers.Dense(3), layers.PReLU(shared_axes=[1]), shape=(3, 5)
    ),
    "MultiHeadAttention": lambda: attention(layers.MultiHeadAttention(2, 3)),
    "MultiHeadAttention causal": lambda: attention(layers.MultiHeadAttention(2, 3), masked=True),
    "MultiHeadAttention cross": cross_attention,
    "GroupQueryAttention": lambda: attention(layers.GroupQueryAttention(3, 4, 2)),
    "Attention scaled": lambda: functional(
        (4, 3), lambda x: layers.Attention(use_scale=True)([layers.Dense(3)(x)] * 2)
    ),
    "AdditiveAttention": lambda: functional((4, 3), lambda x: layers.AdditiveAttention()([layers.Dense(3)(x)] * 2)),
    "tied: Dense used twice": tied_dense,
    "tied: Embedding as output layer": TiedEmbedding,
    "arithmetic: weight norm, mask": lambda: flat(WeightNormalised(), shape=(5,)),
    "sequences of open length": lambda: sequential(
        layers.Embedding(7, 4),
        layers.Dense(4, "tanh"),
        layers.LayerNormalization(),
        layers.Dense(3),
        layers.GlobalAveragePooling1D(),
        shape=(None,),
    ),
    "attention over open length": lambda: functional(
        (None, 4),
        lambda x: layers.GlobalAveragePooling1D()(
            layers.Add()([x, layers.MultiHeadAttention(2, 3)(layers.Dense(4)(x), layers.Dense(4)(x))])
        ),
    ),
    "added table": lambda: flat(PositionEmbedding(), shape=(3, 5)),
    "nested models": nested,
    "inner tf.function": lambda: flat(InnerFunction(), shape=(5,)),
    "residual network": residual_network,
}


def build(name, dtype, rng):
    """Make the model and an input for it, with weights moved off their initial values."""
    keras.utils.set_random_seed(7)
    with floating(dtype):
        model = MODELS[name]()
        if "Embedding" in name or name == "sequences of open length":
            inputs = rng.integers(0, 7, (N, 6)).astype("int32")
            model(inputs)
        else:
            inputs = [rng.normal(size=(N, *(size or 5 for size in x.shape[1:]))).astype(dtype) for x in model.inputs]
            inputs = inputs if len(inputs) > 1 else inputs[0]
    for v in model.trainable_variables:
        v.assign(v + 0.3 * rng.normal(size=v.shape).astype(dtype))
    return model, inputs


def jacobian_and_way(model, inputs, variables, batch, jit_compile=False, **options):
    """Return the Jacobian, and "rule" or the warning of the fallback that was taken."""
    open_length = batch is None and any(None in x.shape[1:] for x in getattr(model, "inputs", None) or [])
    specs = tf.nest.map_structure(
        lambda x: tf.TensorSpec([batch, None if open_length else x.shape[1], *x.shape[2:]], x.dtype), inputs
    )

    @tf.function(input_signature=[specs], jit_compile=jit_compile, autograph=False)
    def jacobian(x):
        return tfjac.per_example_jacobian(model(x), variables, **options)

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = jacobian(inputs)
    messages = [str(w.message) for w in caught if issubclass(w.category, UserWarning) and "tfjac:" in str(w.message)]
    return result, "rule" if not messages else "fallback: " + messages[0]


def assert_equals_oracle(jacobian, oracle, variables, tolerance):
    for block, rows, v in zip(jacobian, oracle, variables):
        assert block.shape[1:] == (*block.shape[1 : block.shape.rank - len(v.shape)], *v.shape)
        scale = max(1.0, np.abs(rows).max())
        single = rows.dtype == np.float32  # LoRA kernels are so in a float64 model
        np.testing.assert_allclose(
            block.numpy().reshape(rows.shape) / scale,
            rows / scale,
            atol=max(tolerance, 1e-5 if single else 0),
            rtol=0,
            err_msg=v.path,
        )


@pytest.mark.by_day(one_in=25)
@pytest.mark.parametrize("name", MODELS)
def test_every_layer(name, rng, record_coverage):
    model, inputs = build(name, "float64", rng)
    variables = model.trainable_variables
    oracle = rows_one_at_a_time(model, inputs, [v.value for v in variables])
    assert any(np.abs(rows).max() > 1e-3 for rows in oracle)
    known_size = [*MODELS].index(name) % 2 == 0  # less of a riddle than an open one, so every second layer will do
    for batch in (None, N) if known_size else (None,):
        jacobian, way = jacobian_and_way(model, inputs, variables, batch)
        assert_equals_oracle(jacobian, oracle, variables, tolerance=1e-10)
        assert way == "rule"
    record_coverage(name, "rule")


@pytest.mark.by_day(one_in=3)
@pytest.mark.parametrize("name", ["Dense rank 3", "Conv2D", "Embedding", "MultiHeadAttention", "LayerNormalization"])
def test_under_xla_in_single_precision(name, rng):
    model, inputs = build(name, "float32", rng)
    variables = model.trainable_variables
    oracle = rows_one_at_a_time(model, inputs, [v.value for v in variables])
    jacobian, _ = jacobian_and_way(model, inputs, variables, N, jit_compile=True)
    assert_equals_oracle(jacobian, oracle, variables, tolerance=1e-5)


@pytest.mark.by_day(one_in=3)
@pytest.mark.parametrize("name", ["Dense rank 3", "Conv2D", "LayerNormalization"])
def test_mixed_precision(name, rng):
    """Computed in half precision: close to what the same network gives in single."""
    single, inputs = build(name, "float32", rng)
    oracle = rows_one_at_a_time(single, inputs, [v.value for v in single.trainable_variables])
    keras.config.set_dtype_policy("mixed_float16")
    try:
        mixed = MODELS[name]()
    finally:
        keras.config.set_dtype_policy("float32")
    mixed.set_weights(single.get_weights())
    jacobian, way = jacobian_and_way(mixed, inputs, mixed.trainable_variables, None)
    assert way == "rule"
    assert all(block.dtype == tf.float32 for block in jacobian)
    assert_equals_oracle(jacobian, oracle, mixed.trainable_variables, tolerance=2e-2)


def test_reloaded_saved_model(rng, tmp_path):
    model, inputs = build("nested models", "float64", rng)
    model.export(str(tmp_path / "model"), verbose=False)
    reloaded = tf.saved_model.load(str(tmp_path / "model"))
    variables = list(reloaded.trainable_variables)
    oracle = rows_one_at_a_time(reloaded.serve, inputs, variables)
    jacobian = tf.function(lambda x: tfjac.per_example_jacobian(reloaded.serve(x), variables))(inputs)
    for block, rows in zip(jacobian, oracle):
        np.testing.assert_allclose(block.numpy().reshape(rows.shape), rows, atol=1e-6)  # exported in single precision


def test_tensor_variable_of_plain_tensorflow(rng):
    """tf.nn.embedding_lookup on a tf.Variable gathers from the handle itself."""
    table = tf.Variable(rng.normal(size=(8, 3)))
    weight = tf.Variable(rng.normal(size=(3, 2)))
    ids = rng.integers(0, 8, (4, 5)).astype("int32")

    def model(ids):
        return tf.reduce_sum(tf.tanh(tf.matmul(tf.nn.embedding_lookup(table, ids), weight)), axis=1)

    oracle = rows_one_at_a_time(model, ids, [table, weight])
    jacobian = tf.function(lambda x: tfjac.per_example_jacobian(model(x), [table, weight]))(ids)
    for block, rows in zip(jacobian, oracle):
        np.testing.assert_allclose(block.numpy().reshape(rows.shape), rows, atol=1e-10)


@pytest.mark.by_day(None)
def test_no_layer_is_missing():
    """Every class of keras.layers whose source adds weights is in the table above, or among the recurrent ones."""
    in_table = {type(layer).__name__ for name in MODELS for layer in _layers_of(MODELS[name]())}
    elsewhere = {"RNN", "SimpleRNNCell", "LSTMCell", "GRUCell"}  # test_recurrent.py
    owners = {
        name
        for name, cls in vars(layers).items()
        if inspect.isclass(cls) and issubclass(cls, layers.Layer) and "self.add_weight(" in inspect.getsource(cls)
    }
    no_weights_of_its_own_to_train = {"Layer", "JaxLayer", "Normalization", "STFTSpectrogram"}
    assert owners - in_table - elsewhere - no_weights_of_its_own_to_train == set()


def _layers_of(model):
    for layer in getattr(model, "layers", []) or vars(model).values():
        if isinstance(layer, layers.Layer):
            yield layer
            yield from _layers_of(layer)
