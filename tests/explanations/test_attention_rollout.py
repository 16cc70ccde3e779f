"""Attention rollout of blocks as people write them; the oracle is NumPy's product of the weights, layer by layer."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from tfjac import explanations

L, ops = keras.layers, keras.ops
T, D, HEADS = 6, 8, 2
DROPOUT = L.Dropout(0.1)
CAUSAL = np.tril(np.ones((T, T), bool))


def split(x):
    return ops.transpose(ops.reshape(x, (-1, T, HEADS, D // HEADS)), (0, 2, 1, 3))


def merged(x):
    return ops.reshape(ops.transpose(x, (0, 2, 1, 3)), (-1, T, D))


def masked_softmax_layer(scores):
    """As in Keras' own layers, GPT-2 and Llama of KerasHub: a Softmax layer with a mask, which ends in a `where`."""
    return L.Softmax()(scores, mask=CAUSAL[None, None])


def additive_mask(scores):
    """As in BERT: a large negative number is added."""
    return ops.softmax(scores + np.where(CAUSAL, 0.0, -1e9).astype("float32"))


def by_exponentials(scores):
    grown = ops.exp(scores - ops.max(scores, axis=-1, keepdims=True)) * CAUSAL.astype("float32")
    return grown / ops.sum(grown, axis=-1, keepdims=True)


def masked_after(scores):
    """Masked after the softmax, and made to sum to one again."""
    left = ops.where(CAUSAL, ops.softmax(scores), 0.0)
    return left / ops.sum(left, axis=-1, keepdims=True)


def dropped_and_cast(scores):
    return ops.cast(DROPOUT(ops.cast(ops.softmax(scores), "float32")), "float32")


def by_matmul(weights, value):
    return ops.matmul(weights, value)


def by_einsum(weights, value):
    return ops.einsum("bhqk,bhkd->bhqd", weights, value)


def transposed(weights, value):
    """(Vᵀ Aᵀ)ᵀ, which sums over the same axis."""
    product = tf.linalg.matmul(value, weights, transpose_a=True, transpose_b=True)
    return ops.transpose(product, (0, 1, 3, 2))


def flattened(weights, value):
    """Heads and batch in one axis, as older code has it."""
    product = ops.matmul(ops.reshape(weights, (-1, T, T)), ops.reshape(value, (-1, T, D // HEADS)))
    return ops.reshape(product, (-1, HEADS, T, D // HEADS))


class Block(L.Layer):
    """Attention and a residual; keeps what it computes, for the oracle."""

    def __init__(self, probabilities, product):
        super().__init__()
        self.made = probabilities, product
        self.query, self.key, self.value, self.out = (L.Dense(D) for _ in range(4))
        self.norm = L.LayerNormalization()

    def call(self, x):
        probabilities, product = self.made
        query, key, value = (split(each(x)) for each in (self.query, self.key, self.value))
        self.weights_now = probabilities(ops.matmul(query, ops.transpose(key, (0, 1, 3, 2))))
        return self.norm(x + self.out(merged(product(self.weights_now, value))))


def rollout_of(layers, heads=lambda each: each.mean(1)):
    found = np.eye(T)
    for each in layers:
        mixed = 0.5 * heads(np.asarray(each, np.float64)) + 0.5 * np.eye(T)
        found = mixed / mixed.sum(-1, keepdims=True) @ found
    return found


def model_of(*blocks, pool=None):
    keras.utils.set_random_seed(3)
    x = keras.Input((T, D))
    hidden = x
    for block in blocks:
        hidden = block(hidden)
    pooled = (pool or L.GlobalAveragePooling1D())(hidden)
    return keras.Model(x, L.Dense(3)(pooled))


def data():
    return np.random.default_rng(0).normal(size=(4, T, D)).astype("float32")


def by_hand(blocks, x):
    layers = []
    for block in blocks:
        x = block(x)
        layers.append(block.weights_now.numpy())
    return layers


WAYS = [(each, by_matmul) for each in (masked_softmax_layer, additive_mask, by_exponentials, masked_after)]
WAYS += [(masked_softmax_layer, each) for each in (by_einsum, transposed, flattened)]
WAYS += [(dropped_and_cast, by_einsum)]


@pytest.mark.by_day(one_in=2)
@pytest.mark.parametrize(("probabilities", "product"), WAYS, ids=[f"{a.__name__}-{b.__name__}" for a, b in WAYS])
def test_blocks_by_hand(probabilities, product):
    """The second block has no mask, so that a first that is left out would not be missed by an error."""
    blocks = [Block(probabilities, product), Block(ops.softmax, by_matmul)]
    model, x = model_of(*blocks), data()
    found = explanations.attention_rollout(model, x)
    assert found.details["layers"] == 2
    np.testing.assert_allclose(found.details["rollout"], rollout_of(by_hand(blocks, x)), rtol=1e-4, atol=1e-6)


@pytest.mark.by_day(one_in=3)
@pytest.mark.parametrize("layer", ["MultiHeadAttention", "GroupQueryAttention", "Attention"])
@pytest.mark.parametrize("masked", [False, True])
def test_layers_of_keras(layer, masked):
    made = {
        "MultiHeadAttention": lambda: L.MultiHeadAttention(2, 4),
        "GroupQueryAttention": lambda: L.GroupQueryAttention(4, 4, 2),
        "Attention": lambda: L.Attention(),
    }[layer]()
    x, values = keras.Input((T, D)), data()
    options = {"use_causal_mask": True} if masked else {}
    given = ([x, x],) if layer == "Attention" else (x, x)
    model = keras.Model(x, L.Dense(3)(L.GlobalAveragePooling1D()(x + made(*given, **options))))
    _, scores = made(
        *(([values, values],) if layer == "Attention" else (values, values)), return_attention_scores=True, **options
    )
    heads = (lambda each: each.mean(1)) if scores.shape.rank == 4 else (lambda each: each)
    found = explanations.attention_rollout(model, values)
    np.testing.assert_allclose(found.details["rollout"], rollout_of([scores], heads), rtol=1e-4, atol=1e-6)


def test_heads_that_are_mixed_after_the_softmax():
    mix = np.array([[0.7, 0.2], [0.3, 0.8]], "float32")
    block = Block(lambda scores: ops.einsum("bhqk,hg->bgqk", ops.softmax(scores), mix), by_matmul)
    model, x = model_of(block), data()
    found = explanations.attention_rollout(model, x)
    np.testing.assert_allclose(found.details["rollout"], rollout_of(by_hand([block], x)), rtol=1e-4, atol=1e-6)


def test_grouped_queries_in_five_axes():
    """[n, groups, heads of a group, steps, steps]."""
    block = Block(ops.softmax, by_matmul)

    def grouped(scores):
        weights = ops.softmax(ops.reshape(scores, (-1, 1, HEADS, T, T)))
        block.seen = weights
        return weights

    block.made = grouped, lambda weights, value: ops.matmul(weights, value[:, None])[:, 0]
    model, x = model_of(block), data()
    block(x)
    expected = rollout_of([block.seen.numpy()[:, 0]])
    found = explanations.attention_rollout(model, x)
    np.testing.assert_allclose(found.details["rollout"], expected, rtol=1e-4, atol=1e-6)


def test_a_softmax_over_steps_that_is_not_recognised_is_said():
    def by_sum(weights, value):
        return ops.sum(weights[..., None] * value[:, :, None], axis=3)

    with pytest.raises(ValueError, match=r"not known to be attention.*Received: '.*Softmax"):
        explanations.attention_rollout(model_of(Block(ops.softmax, by_matmul), Block(ops.softmax, by_sum)), data())
    with pytest.raises(ValueError, match=r"There is no attention.*not known to be attention: '.*Softmax"):
        explanations.attention_rollout(model_of(Block(ops.softmax, by_sum)), data())


def test_a_pooling_by_softmax_is_warned_of_and_a_gate_is_not():
    def pooling(hidden):
        score = L.Dense(1, name="scores_of_steps")
        return L.Lambda(lambda h: ops.sum(ops.softmax(ops.transpose(score(h), (0, 2, 1)))[:, 0, :, None] * h, axis=1))(
            hidden
        )

    with pytest.warns(UserWarning, match=r"no part of the product.*softmax over the steps"):
        explanations.attention_rollout(model_of(Block(ops.softmax, by_matmul), pool=pooling), data())
    gate = L.Dense(D, "softmax")
    model = model_of(Block(masked_softmax_layer, by_matmul), pool=lambda h: L.GlobalAveragePooling1D()(h * gate(h)))
    assert explanations.attention_rollout(model, data()).details["layers"] == 1


@pytest.mark.by_day(None)
def test_a_loop_with_a_softmax_inside_is_warned_of_and_a_recurrent_layer_is_not():
    def in_a_loop(hidden):
        body = lambda k, h: (k + 1, h + ops.softmax(h))  # noqa: E731
        return L.Lambda(lambda h: tf.while_loop(lambda k, h: k < 2, body, (0, h))[1], output_shape=(T, D))(hidden)

    with pytest.warns(UserWarning, match=r"loop or branch with a softmax inside"):
        explanations.attention_rollout(model_of(in_a_loop, Block(ops.softmax, by_matmul)), data())
    model = model_of(L.GRU(D, return_sequences=True), Block(ops.softmax, by_matmul))
    assert explanations.attention_rollout(model, data()).details["layers"] == 1
