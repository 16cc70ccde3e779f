"""Gradients lost where a function asks tensors for their values, which cannot be traced, or by an edit of tfjac."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfjac

V, W = tf.Variable([1.2, 2.0], name="v"), tf.Variable([3.0, 4.0], name="w")
X = np.ones((3, 2), "float32")


def by_tape(function, x):
    with tf.GradientTape() as tape:
        y = function()
    return tape.gradient(y, x)


def by_numpy():
    values = tf.square(V).numpy()  # the line
    return tf.reduce_sum(values * W)


def by_array():
    if tf.reduce_sum(V) > 0:  # AutoGraph converts this function
        values = np.square(V * 1.0)  # the line
    return tf.reduce_sum(values * W)


def partly():
    return V[0] * W + (V * 2.0).numpy()  # the line


@pytest.mark.parametrize(("function", "expected"), [(by_numpy, "lost"), (by_array, "lost"), (partly, "connected")])
def test_values_that_leave_tensorflow_are_told_by_their_line(function, expected):
    report = tfjac.explain_gradient(function, {"v": V, "w": W})
    for path, x in zip(report, (V, W)):
        assert path.connected == (by_tape(function, x) is not None)
        (stop,) = path.stops
        assert stop.source.file == __file__ and "# the line" in stop.source.text and stop.op == ""
        assert stop.source.function == function.__name__ and stop.kind == "python"
    assert report["v"].verdict == expected and report["w"].verdict == "connected"
    assert "where values leave TensorFlow" in str(report) and stop.source.text in str(report)
    assert (".numpy()" in report["v"].remedy) == (expected == "lost")


def test_what_fails_anyhow_raises_what_it_raises():
    with pytest.raises(ZeroDivisionError):
        tfjac.explain_gradient(lambda: V / (1 // 0), V)
    with pytest.raises(TypeError, match=r"called eagerly, names the line. Received: .*numpy"):
        tf.function(lambda: tfjac.explain_gradient(lambda: V * V.numpy(), V), autograph=False)()


def model_of():
    dense = keras.layers.Dense(2, activation="relu", kernel_initializer="ones", name="first")
    return keras.Sequential([keras.Input((2,)), dense, keras.layers.Dense(1)])


@pytest.mark.by_day(None)
def test_a_hook_is_named_as_the_reason():
    model = model_of()
    kernel = model.layers[0].kernel
    with tfjac.hook(model.layers[0], backward=tfjac.handlers.stop()):
        (path,) = tfjac.explain_gradient(lambda: model(X), kernel)
    assert path.verdict == "zero" and "as a tfjac.hook on layer 'first' has it so" in path.reason
    assert "remove()" in path.remedy
    (path,) = tfjac.explain_gradient(lambda: model(X), kernel)
    assert path.verdict == "connected" and not any(node.edit for node in path.nodes)


def test_edits_and_rules_are_named_as_the_reason():
    model = model_of()
    kernel = model.layers[0].kernel
    stopped = tfjac.intercept(lambda: model(X), {"first": tfjac.Edit(forward=tf.stop_gradient)})
    (path,) = tfjac.explain_gradient(stopped, kernel)
    assert path.verdict == "lost" and "an edit of tfjac.intercept at 'sequential" in path.stops[0].reason
    assert path.stops[0].reason.endswith("/first'") and "take off an edit" in path.remedy
    ruled = tfjac.intercept(lambda: model(X), rules={"Relu": lambda op, gradient: 0 * gradient})
    (path,) = tfjac.explain_gradient(ruled, kernel)
    assert path.verdict == "zero" and "as a rule of tfjac.intercept for " in path.reason
