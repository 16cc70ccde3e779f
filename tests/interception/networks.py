"""Models whose gradients at inner nodes are known from their parts."""

import keras
import numpy as np
import tensorflow as tf

X = np.random.default_rng(0).normal(size=(6, 5)).astype("float32")


def network():
    """A model with a ReLU layer that is called twice, a nested model with silu, and batch normalisation."""
    keras.utils.set_random_seed(3)
    dense = keras.layers.Dense
    inner = keras.Sequential(
        [keras.Input((8,)), dense(6, activation="silu", name="gate"), keras.layers.ReLU(name="last")], name="inner"
    )
    relu, x = keras.layers.ReLU(name="relu"), keras.Input((5,))
    hidden = relu(dense(8, name="first")(x))
    hidden = keras.layers.BatchNormalization(name="norm")(relu(dense(8, name="second")(hidden)))
    return keras.Model(x, dense(3, name="head")(inner(hidden)), name="net")


def below(model, x):
    """The first call of the shared layer, and what is computed before it, by the layers themselves."""
    layer = model.get_layer
    return layer("relu")(layer("first")(x))


def above(model, hidden):
    """What is computed of the first call of the shared layer."""
    layer = model.get_layer
    return layer("head")(layer("inner")(layer("norm")(layer("relu")(layer("second")(hidden)))))


def gradients(compute, sources):
    """Value and gradients by TensorFlow's tape, where sources may be eager tensors."""
    with tf.GradientTape() as tape:
        tape.watch([source for source in sources if not isinstance(source, keras.Variable)])
        value = compute()
    flat = [source.value if isinstance(source, keras.Variable) else source for source in sources]
    return value, tape.gradient(value, flat)
