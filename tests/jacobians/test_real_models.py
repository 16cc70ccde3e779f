"""What real models are made of, together: unmodified, with the batch left open, without a fallback."""

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


class Tokens(layers.Layer):
    """Patches of an image behind a class token, as in a vision transformer."""

    def __init__(self, spell_out):
        super().__init__()
        self.spell_out = spell_out

    def build(self, shape):
        self.token = self.add_weight(shape=(1, 1, 4), initializer="normal")
        self.position = self.add_weight(shape=(1, 5, 4), initializer="normal")

    def call(self, patches):
        token = self.spell_out(self.token, keras.ops.shape(patches)[0])
        return keras.ops.concatenate([token, patches], 1) + self.position


def vision_transformer(spell_out):
    images = keras.Input((4, 4, 1))
    patches = layers.Reshape((4, 4))(layers.Lambda(lambda x: keras.ops.image.extract_patches(x, 2))(images))
    tokens = Tokens(spell_out)(layers.Dense(4)(patches))
    normal = layers.LayerNormalization()(tokens)
    attended = tokens + layers.MultiHeadAttention(2, 2)(normal, normal)
    return keras.Model(images, layers.Dense(2)(attended[:, 0])), (4, 4, 1)


def decoder():
    """The upper half of a U-Net: transposed convolutions of single images and of the frames of a film."""
    film = keras.Input((2, 3, 3, 1))
    frames = layers.TimeDistributed(layers.Conv2DTranspose(2, 2, strides=2, activation="tanh"))(film)
    image = layers.Conv2DTranspose(2, 3, activation="tanh")(frames[:, 0])
    parts = [layers.Flatten()(layers.TimeDistributed(layers.GlobalMaxPooling2D())(frames)), layers.Flatten()(image)]
    return keras.Model(film, layers.Dense(2)(layers.Concatenate()(parts))), (2, 3, 3, 1)


class Physics(keras.Model):
    """u_t + u u_z - 0.1 u_zz for a network u(t, z)."""

    def __init__(self):
        super().__init__()
        self.u = keras.Sequential([keras.Input((2,)), layers.Dense(5, "tanh"), layers.Dense(2)])

    def call(self, x):
        t, z = x[:, :1], x[:, 1:]
        u = self.u(tf.concat([t, z], 1))[:, :1]  # of two fields
        u_t, u_z = tf.gradients(u, [t, z])
        return u_t + u * u_z - 0.1 * tf.gradients(u_z, z)[0]


class Classified(keras.Model):
    """The losses of a classifier, one per example."""

    def __init__(self, loss):
        super().__init__()
        self.logits, self.loss_of = layers.Dense(4), loss

    def call(self, x):
        return self.loss_of(tf.cast(tf.abs(x[:, 0]), tf.int32) % 4, self.logits(x))[:, None]


def cross_entropy(labels, logits):
    return keras.losses.categorical_crossentropy(tf.one_hot(labels, 4, dtype=logits.dtype), logits, from_logits=True)


def rotated(x):
    """Rotary position embedding: pairs of features turned by angles that grow with the position."""
    angles = tf.range(4, dtype=x.dtype)[:, None] * tf.constant([1.0, 0.1], x.dtype)
    left, right = tf.split(x, 2, axis=-1)
    return tf.concat(
        [left * tf.cos(angles) - right * tf.sin(angles), right * tf.cos(angles) + left * tf.sin(angles)], -1
    )


class Rotary(keras.Model):
    """A block of a decoder: root mean square norms, causal attention with rotary embeddings, a gated layer."""

    def __init__(self):
        super().__init__()
        self.norms = [layers.RMSNormalization() for _ in range(2)]
        self.q, self.k, self.v, self.up, self.down = (layers.Dense(4, use_bias=False) for _ in range(5))
        self.gate = layers.Dense(4, "silu")

    def call(self, x):
        h = self.norms[0](x)
        scores = tf.matmul(rotated(self.q(h)), rotated(self.k(h)), transpose_b=True) / 2.0
        causal = tf.linalg.band_part(tf.ones([4, 4], tf.bool), -1, 0)
        x += tf.matmul(tf.nn.softmax(tf.where(causal, scores, -1e9)), self.v(h))
        h = self.norms[1](x)
        return (x + self.down(self.gate(h) * self.up(h)))[:, -1, :2]


class Experts(keras.Model):
    """Each token goes to the best two of three experts, weighed by their gates; all experts in one weight."""

    def __init__(self, gathered):
        super().__init__()
        self.router, self.gathered = layers.Dense(3), gathered

    def build(self, shape):
        self.kernel = self.add_weight(shape=(3, shape[-1], 2), initializer="normal")
        self.router.build(shape)

    def call(self, x):
        gates, chosen = tf.math.top_k(tf.nn.softmax(self.router(x)), 2)
        if self.gathered:
            parts = tf.einsum("ntd,ntkdo->ntko", x, tf.gather(self.kernel, chosen))
        else:
            parts = tf.einsum("ntd,ntke,edo->ntko", x, tf.one_hot(chosen, 3, dtype=x.dtype), self.kernel)
        return tf.reduce_sum(gates[..., None] * tf.tanh(parts), [1, 2])


def u_net():
    image = keras.Input((4, 4, 1))
    fine = layers.Conv2D(2, 3, padding="same", activation="tanh")(image)
    coarse = layers.Conv2D(3, 3, padding="same", activation="silu")(layers.MaxPooling2D()(fine))
    back = layers.Concatenate()([fine, layers.UpSampling2D(interpolation="bilinear")(coarse)])
    both = layers.Concatenate()([back, layers.UpSampling2D()(coarse)])
    return keras.Model(image, layers.GlobalAveragePooling2D()(layers.Conv2D(2, 1)(both))), (4, 4, 1)


class Perceiver(keras.Model):
    """Learned queries, of one row for all examples, attend to the inputs."""

    def __init__(self):
        super().__init__()
        self.attend, self.head = layers.MultiHeadAttention(2, 2), layers.Dense(2)

    def build(self, shape):
        self.queries = self.add_weight(shape=(1, 3, 4), initializer="normal")

    def call(self, x):
        queries = tf.tile(self.queries, [tf.shape(x)[0], 1, 1])
        return self.head(tf.reshape(queries + self.attend(queries, x), [-1, 12]))


class GraphNetwork(keras.Model):
    """Two rounds of messages along the edges of one graph, whose nodes have other features in each example."""

    def __init__(self):
        super().__init__()
        self.message, self.update, self.read = layers.Dense(3, "tanh"), layers.Dense(2, "tanh"), layers.Dense(2)

    def call(self, nodes):
        senders, receivers = [0, 1, 2, 2, 3], [1, 2, 0, 3, 1]
        for _ in range(2):
            ends = [tf.gather(nodes, index, axis=1) for index in (senders, receivers)]
            messages = tf.transpose(self.message(tf.concat(ends, -1)), [1, 0, 2])
            received = tf.transpose(tf.math.unsorted_segment_sum(messages, receivers, 4), [1, 0, 2])
            nodes = self.update(tf.concat([nodes, received], -1))
        return self.read(tf.reduce_mean(nodes, 1))


MODELS = {
    "rotary transformer": lambda: (Rotary(), (4, 4)),
    "mixture of experts, weights gathered": lambda: (Experts(True), (3, 4)),
    "mixture of experts, by one-hot": lambda: (Experts(False), (3, 4)),
    "U-Net": u_net,
    "learned queries": lambda: (Perceiver(), (3, 4)),
    "graph network": lambda: (GraphNetwork(), (4, 2)),
    "class token by broadcast": lambda: vision_transformer(lambda w, n: keras.ops.broadcast_to(w, (n, 1, 4))),
    "class token by tile": lambda: vision_transformer(lambda w, n: keras.ops.tile(w, (n, 1, 1))),
    "transposed convolutions": decoder,
    "differential equation": lambda: (Physics(), (2,)),
    "classes": lambda: (
        Classified(lambda y, z: keras.losses.sparse_categorical_crossentropy(y, z, from_logits=True)),
        (3,),
    ),
    "distributions": lambda: (Classified(cross_entropy), (3,)),
}


@pytest.mark.by_day(one_in=12)
@pytest.mark.parametrize("name", MODELS)
def test_rows_by_rules_alone(name):
    with floating("float64"):
        keras.utils.set_random_seed(1)
        model, shape = MODELS[name]()
        rng = np.random.default_rng(2)
        x = tf.constant(2.0 * rng.normal(size=(N, *shape)))
        tf.function(model)(x)
        for variable in model.trainable_variables:
            variable.assign(variable + 0.1 * rng.normal(size=variable.shape))
        variables = [variable.value for variable in model.trainable_variables]

        @tf.function(input_signature=[tf.TensorSpec([None, *shape], x.dtype)], autograph=False)
        def jacobians(x):
            return tfjac.per_example_jacobian(model(x), variables)

        with warnings.catch_warnings():
            warnings.filterwarnings("error", message="tfjac")
            actual = jacobians(x)
        for ours, rows in zip(actual, rows_one_at_a_time(model, [x], variables)):
            np.testing.assert_allclose(ours, rows, rtol=1e-9, atol=1e-12)
