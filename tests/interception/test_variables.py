"""Variables as selectors, by themselves and by name: what is read from them, against models with the edit in place."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfjac
from tests.interception.networks import X, gradients, network

TOKENS = tf.constant([[1, 2, 3], [2, 2, 0]])


def recurrent():
    keras.utils.set_random_seed(2)
    layers = keras.layers
    return keras.Sequential(
        [keras.Input((3,), dtype="int32"), layers.Embedding(5, 4), layers.LSTM(3), layers.Dense(1)], name="net"
    )


def of_squares(function, x, sources):
    """The gradients of the sum of squares."""
    return gradients(lambda: tf.reduce_sum(function(x) ** 2), list(sources))[1]


@pytest.mark.by_day(one_in=2)
@pytest.mark.parametrize("where", ["eager", "xla"])
def test_minimising_and_maximising_by_variables(where):
    """The gradients of a group reversed, those of all others as they were; also where a loop reads them."""
    model = recurrent() if where == "eager" else network()
    x = TOKENS if where == "eager" else X
    reversed_ones = [v.path for v in model.trainable_variables if "kernel" in v.path or "embeddings" in v.path]
    edited = tfjac.intercept(model, dict.fromkeys(reversed_ones, tfjac.handlers.reverse(2.0)))
    edited = edited if where == "eager" else tf.function(edited, jit_compile=True)
    plain = of_squares(model, x, model.trainable_variables)
    for variable, one, other in zip(model.trainable_variables, of_squares(edited, x, model.trainable_variables), plain):
        sign = -2.0 if variable.path in reversed_ones else 1.0
        np.testing.assert_allclose(one, sign * tf.convert_to_tensor(other), rtol=1e-4, atol=1e-5, err_msg=variable.path)
    assert 2 < len(reversed_ones) < len(plain)


@pytest.mark.by_day(None)
def test_every_read_of_a_variable():
    """In a branch, in a loop, gathered from, and in two calls of a layer."""
    table, v = tf.Variable(np.arange(12.0).reshape(4, 3)), tf.Variable(0.7, dtype=tf.float64)

    def function(x, table, v):
        rows = tf.nn.embedding_lookup(table, [1, 3, 1])
        _, looped = tf.while_loop(lambda k, _: k < 3, lambda k, s: (k + 1, tf.sin(s * v)), (0, rows))
        return tf.cond(tf.reduce_sum(x) > 0, lambda: looped * v, lambda: looped / v) + v

    x = tf.constant(1.0)
    edits = {table.ref(): tfjac.handlers.scale(0.1), v.ref(): tfjac.handlers.scale(-3.0)}
    got = of_squares(tfjac.intercept(lambda x: function(x, table, v), edits), x, [table, v])
    expected = of_squares(lambda x: function(x, table, v), x, [table, v])
    np.testing.assert_allclose(tf.convert_to_tensor(got[0]), 0.1 * tf.convert_to_tensor(expected[0]), rtol=1e-12)
    np.testing.assert_allclose(got[1], -3.0 * expected[1], rtol=1e-12)
    patched = tfjac.intercept(lambda x: function(x, table, v), {v.ref(): tfjac.Edit(forward=lambda value: 2.0 * value)})
    np.testing.assert_allclose(patched(x), function(x, table, tf.constant(1.4, tf.float64)), rtol=1e-12)


@pytest.mark.by_day(None)
def test_variables_of_a_saved_model(tmp_path):
    model = network()
    model.export(tmp_path, verbose=False)
    loaded = tf.saved_model.load(tmp_path)
    edited = tfjac.intercept(loaded.serve, {"head/kernel": tfjac.handlers.reverse()})
    got, plain = (of_squares(f, tf.constant(X), loaded.trainable_variables) for f in (edited, loaded.serve))
    signs = [-1.0 if "head/kernel" in v.name else 1.0 for v in loaded.trainable_variables]
    assert signs.count(-1.0) == 1
    for sign, one, other in zip(signs, got, plain):
        np.testing.assert_allclose(one, sign * other, rtol=1e-5, atol=1e-6)


@pytest.mark.by_day(None)
def test_gradients_and_values_of_variables_among_nodes():
    """As by a tape: one for each variable, however often it is read."""
    model = recurrent()
    variables = [*model.trainable_variables]
    compute = lambda: model(TOKENS) ** 2  # noqa: E731
    (got, node), (values, _) = tfjac.node_gradients(compute, [variables, model.layers[1]], values=True)
    expected = of_squares(model, TOKENS, variables)
    for one, other, value, variable in zip(got, expected, values, variables):
        np.testing.assert_allclose(one, tf.convert_to_tensor(other), rtol=1e-5, atol=1e-7)
        np.testing.assert_array_equal(value, variable)
    assert node.shape == (2, 3)
    np.testing.assert_array_equal(tfjac.values_at(model, variables[-1])(TOKENS), variables[-1])


def test_variables_that_cannot_be():
    model, x = network(), tf.constant(X)
    a, b, count = tf.Variable(1.0, name="twin"), tf.Variable(2.0, name="twin"), tf.Variable(3)
    stop = tfjac.handlers.stop()
    with pytest.raises(ValueError, match=r"by variable 'twin'. A variable is known by where it is read. Received"):
        tfjac.intercept(model, {a.ref(): stop})(x)
    with pytest.raises(ValueError, match=r"by variable 'twin'. A variable is known by where it is read. Received"):
        tfjac.node_gradients(lambda: model(x), a)
    with pytest.raises(ValueError, match=r"Several variables have this name: select one by its ref.*Received: 'twin'"):
        tfjac.intercept(lambda x: x * a + b, {"twin": stop})(x)
    with pytest.raises(TypeError, match=r"no floating-point tensor. Received: .*int32"):
        tfjac.node_gradients(lambda: x * tf.cast(count, tf.float32), count)
    with pytest.raises(ValueError, match=r"'kernel' is the end of several names"):
        tfjac.intercept(model, {"kernel": stop})(x)
    with pytest.raises(ValueError, match=r"A rule is for ops.*Received: 'head/kernel', which selects variable 'he"):
        tfjac.intercept(model, rules={"head/kernel": tfjac.rules.guided})(x)
