"""A causal language model: few weights, a hundred thousand residuals."""

import collections
import pydoc_data.topics

import keras
import numpy as np
import tensorflow as tf

from benchmarks.questions import Case, question
from benchmarks.training import Training

VOCABULARY, LENGTH, WIDTH = 50, 32, 16
GRADIENTS = 40
"""A step is to cost no more than so many steps of Adam."""


def passages(count: int) -> np.ndarray:
    """Return passages `[count, LENGTH + 1]` of the reference behind `help`, by the commonest characters."""
    text = " ".join("".join(pydoc_data.topics.topics.values()).lower().split())
    common = [letter for letter, _ in collections.Counter(text).most_common(VOCABULARY - 1)]
    numbers = collections.defaultdict(int, {letter: k for k, letter in enumerate(common, 1)})
    starts = np.random.default_rng(0).integers(0, len(text) - LENGTH - 1, count)
    return np.array([[numbers[letter] for letter in text[start : start + LENGTH + 1]] for start in starts])


def transformer() -> keras.Model:
    """One block of causal attention, from tokens `[LENGTH]` to logits `[LENGTH, VOCABULARY]`."""
    tokens = keras.Input((LENGTH,), dtype="int32")
    places = keras.layers.Embedding(LENGTH, WIDTH)(tf.range(LENGTH))
    hidden = keras.layers.Embedding(VOCABULARY, WIDTH)(tokens) + places
    normal = keras.layers.LayerNormalization()(hidden)
    hidden += keras.layers.MultiHeadAttention(2, WIDTH // 2)(normal, normal, use_causal_mask=True)
    hidden += keras.layers.Dense(WIDTH)(keras.layers.Dense(WIDTH, "gelu")(keras.layers.LayerNormalization()(hidden)))
    return keras.Model(tokens, keras.layers.Dense(VOCABULARY)(hidden))


def training(count: int) -> Training:
    """The mean cross-entropy of the next character, of so many passages."""
    keras.utils.set_random_seed(0)
    model, texts = transformer(), passages(count)
    x, y = tf.constant(texts[:, :-1], tf.int32), tf.constant(texts[:, 1:], tf.int32)

    def loss(chosen):
        given, wanted = (x, y) if chosen is None else (tf.gather(x, chosen), tf.gather(y, chosen))
        return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(wanted, model(given)))

    return Training(model.trainable_variables, loss, count)


@question("language-model")
def language_model(quick: bool):
    """A causal transformer on text, 50 classes at each place: one step, and all of them to one loss, against Adam."""
    count = 4 if quick else 64
    case, adam = training(count), f"Adam, {GRADIENTS} steps"
    title = f"{case.num_weights:,} weights, {count * LENGTH * VOCABULARY:,} residuals"
    candidates = {"tfjac": case.levenberg_marquardt_step(), adam: case.adam_steps(GRADIENTS)}
    yield Case(f"one step, {title}", candidates, targets={adam: 1.0}, tolerance=None)
    target = 3.0 if quick else 1.15
    yield Case(
        f"to a loss of {target}, {title}",
        {"tfjac": case.levenberg_marquardt(target), "Adam": case.adam(target, rate=1e-2)},
        tolerance=None,
    )
