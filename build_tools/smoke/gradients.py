"""Gradients inside of a model, and what is made of them."""

import keras
import numpy as np
import tensorflow as tf
from common import RNG, X, feature, network, same

import tfjac


@feature
def nodes_and_their_gradients():
    model = network(1)
    assert len(tfjac.nodes(model, X).where(kind="layer"))
    found = tfjac.node_gradients(lambda: model(X)[:, 0], "hidden")
    same(found, np.broadcast_to(model.get_layer("out").kernel.numpy()[:, 0], [12, 5]))


@feature
def interception():
    model = network(1)
    guided = tfjac.intercept(model, edits={"hidden": tfjac.Edit(backward=lambda d: 2.0 * d)})
    gradients = []
    for function in (model, guided):
        with tf.GradientTape() as tape:
            tape.watch(X)
            y = function(X)
        gradients.append(tape.gradient(y, X))
    same(gradients[1], 2.0 * gradients[0].numpy())


@feature
def hook_in_fit():
    model = network(1)
    model.compile(optimizer=keras.optimizers.SGD(0.1), loss="mse")
    before = model.get_layer("hidden").kernel.numpy()
    with tfjac.hook(model.get_layer("hidden"), backward=lambda d: tf.zeros_like(d)):
        model.fit(X, np.ones([12, 1]), verbose=0)
    same(model.get_layer("hidden").kernel.numpy(), before)


@feature
def explain_gradient():
    w = tf.Variable(2.0)
    report = tfjac.explain_gradient(tf.function(lambda: tf.cast(tf.cast(w, tf.int32), tf.float32)), w)
    assert "Cast" in str(report), report


@feature
def count_flops():
    w = tf.Variable(tf.ones([3, 4], tf.float64))
    count = tfjac.count_flops(lambda: X @ w, w)
    assert "MatMul" in str(count), count


@feature
def grad_cam():
    keras.utils.set_random_seed(1)
    images = RNG.normal(size=(3, 8, 8, 2))
    conv, dense = keras.layers.Conv2D(4, 3, padding="same", activation="relu", name="conv"), keras.layers.Dense(5)
    pool = keras.layers.GlobalAveragePooling2D()
    model = keras.Sequential([keras.Input((8, 8, 2)), conv, pool, dense, keras.layers.Softmax()])
    found = tfjac.explanations.grad_cam(model, images, layer="conv", class_index=2)
    weighted = conv(images).numpy() @ dense.kernel.numpy()[:, 2]  # of the logits: the mean hands on a 64th of it
    same(found.attributions, np.maximum(weighted, 0.0) / 64)


@feature
def integrated_gradients():
    model = network()
    found = tfjac.explanations.integrated_gradients(model, X, class_index=1, steps=50)
    change = model(X).numpy()[:, 1] - model(tf.zeros_like(X)).numpy()[:, 1]
    same(found.attributions.sum(axis=1), change, rtol=1e-3, atol=1e-4)


@feature
def black_box():
    square = tfjac.external(lambda x: np.asarray(x) ** 2, gradient=lambda x, y, d: 2 * x * d)
    with tf.GradientTape() as tape:
        tape.watch(X)
        y = tf.reduce_sum(square(X))
    same(tape.gradient(y, X), 2 * X.numpy())
