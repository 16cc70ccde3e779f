"""AutoGraph translates the functions of users, whoever calls them, and none of this package's."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.autograph.impl import api  # says what it translates here alone

import tfjac
from tfjac.optimizers import LeastSquaresProblem, LevenbergMarquardt, least_squares

X = np.linspace(-1.0, 1.0, 6)


def bent(x, slope):
    """2 · slope · x, by a branch and a loop that TensorFlow has to run."""
    if tf.reduce_sum(x) > 1e9:
        return x * 0.0
    y = tf.zeros_like(x)
    for _ in tf.range(2):
        y += slope * x
    return y


def fitted(forms):
    """The slope found by `forms(b)`: residuals, and what to fit with."""
    b = tf.Variable(1.0, dtype=tf.float64)
    residuals, solve = forms(b)
    solve(residuals, b)
    return float(b)


def by_least_squares(*args):
    return lambda residuals, b: least_squares(residuals, b, args=args)


def batched(residuals, b):
    b.assign(least_squares(residuals, tf.Variable([float(b)], dtype=tf.float64), args=(X[None],), batch_dims=1).x[0])


def stepped(residuals, b):
    optimizer = LevenbergMarquardt(damping="nielsen")
    for _ in range(4):
        optimizer.minimize(residuals, [b])


def in_parts(residuals, b):
    b.assign_add(tfjac.normal_equations(residuals, [b]).step()[0][0])


FITS = {
    "of the variable itself": lambda b: (lambda: bent(X, b) - 3 * X, by_least_squares()),
    "of its value": lambda b: (lambda value: bent(X, value) - 3 * X, by_least_squares()),
    "of value and data": lambda b: (lambda value, x: bent(x, value) - 3 * x, by_least_squares(X)),
    "of data": lambda b: (lambda x: bent(x, b) - 3 * x, by_least_squares(X)),
    "several": lambda b: ([lambda x: bent(x, b) - 3 * x, lambda value, x: bent(x, value) - 3 * x], by_least_squares(X)),
    "a problem": lambda b: (
        lambda x: bent(x, b) - 3 * x, lambda residuals, b: LeastSquaresProblem(residuals, b).solve(X)
    ),
    "many": lambda b: (lambda value, x: bent(x, value[:, None]) - 3 * x, batched),
    "the optimizer": lambda b: (lambda: bent(X, b) - 3 * X, stepped),
    "parts": lambda b: (lambda: bent(X, b) - 3 * X, in_parts),
}  # fmt: skip


@pytest.mark.by_day(None)
@pytest.mark.parametrize("name", FITS)
def test_residuals(name):
    np.testing.assert_allclose(fitted(FITS[name]), 1.5, rtol=1e-4)


def test_curves_and_their_bands():
    found = tfjac.curve_fit(bent, X, 3 * X + 0.1 * np.cos(9 * X))
    slope = np.sum(X * (3 * X + 0.1 * np.cos(9 * X))) / np.sum(2 * X * X)
    np.testing.assert_allclose(found.x, [slope], rtol=1e-6)
    np.testing.assert_allclose(np.mean(found.confidence_band(X), axis=0), 2 * slope * X, rtol=1e-6)


@pytest.mark.by_day(None)
def test_derivatives_and_nodes():
    x, slope = tf.constant(X), tf.Variable(0.5, dtype=tf.float64)
    np.testing.assert_allclose(tfjac.jacobian(lambda: bent(x, slope), x), np.eye(6))
    np.testing.assert_allclose(tfjac.per_example_jacobian(lambda: bent(x, slope), [slope])[0], 2 * X)
    np.testing.assert_allclose(tfjac.jvp(lambda: bent(x, slope), [slope], [tf.ones([], tf.float64)]), 2 * X)
    doubled = tfjac.intercept(lambda x: bent(tfjac.tap(x, "in"), slope), {"in": tfjac.Edit(forward=lambda v: 2.0 * v)})
    np.testing.assert_allclose(doubled(x), 2 * X)
    assert "(Case)" in str(tfjac.explain_gradient(lambda: bent(x, slope), slope))
    read = tfjac.values_at(lambda x: bent(tfjac.tap(x + 1.0, "in"), slope), "in")
    np.testing.assert_allclose(read(x), X + 1)


def test_nothing_of_the_package_is_translated(monkeypatch):
    """Neither methods, nor what comes as the default of an argument, which loses every mark of its own."""
    translated, convert = [], api._convert_actual

    def noting(function, context):
        translated.append(function.__module__)
        return convert(function, context)

    monkeypatch.setattr(api, "_convert_actual", noting)
    x, w = tf.constant(X[:, None]), tf.Variable([[0.5]], dtype=tf.float64)

    @tf.function
    def compute(x, derivative=tfjac.batch_jacobian):
        one, operator = tf.ones([1], tf.float64), tfjac.jacobian_operator(tf.tanh(x @ w), [w])
        solved, _ = tfjac.ops.damped_solve(operator.gram(), one, one, one[0])
        return derivative(tf.sin(x), x), solved, operator.matvec(solved)

    np.testing.assert_allclose(tf.squeeze(compute(x)[0]), np.cos(X))
    assert translated and not [module for module in translated if module.startswith("tfjac")]


def halved(tensor):
    """Half of a tensor, by a branch that TensorFlow has to run."""
    return halved_by_rule(None, tensor)


def halved_by_rule(op, gradient):
    if tf.reduce_sum(tf.abs(gradient)) > 1e9:
        return gradient
    return gradient / 2


def product(operation, at):
    """The gradient of Σ operation(at)."""
    with tf.GradientTape() as tape:
        tape.watch(at)
        y = operation(at)
    return tape.gradient(y, at)


@pytest.mark.by_day(None)
@pytest.mark.parametrize("called", [lambda compute: compute(), lambda compute: tf.function(compute)()])
def test_edits_rules_and_losses(called):
    x, w = tf.constant([1.0, -2.0, 3.0], tf.float64), tf.Variable([1.0, 2.0, 3.0], dtype=tf.float64)
    triple = lambda x: 3 * tf.nn.relu(tfjac.tap(x, "in"))  # noqa: E731
    edited, ruled = tfjac.intercept(triple, {"in": halved}), tfjac.intercept(triple, rules={"Relu": halved_by_rule})
    np.testing.assert_allclose(called(lambda: product(edited, x)), [1.5, 0.0, 1.5])
    np.testing.assert_allclose(called(lambda: product(ruled, x)), [1.5, 1.5, 1.5])
    patched = tfjac.intercept(triple, {"in": tfjac.Edit(forward=halved)})
    np.testing.assert_allclose(called(lambda: patched(x)), [1.5, 0.0, 4.5])

    layer = keras.layers.Activation("relu", dtype="float64")
    layer.build([3])
    with tfjac.hook(layer, backward=halved):
        np.testing.assert_allclose(called(lambda: product(layer, x)), [0.5, 0.0, 0.5])

    losses = lambda z: halved(z**2)  # noqa: E731
    np.testing.assert_allclose(called(lambda: tfjac.ggnvp(lambda: x * w, losses, w, tf.ones_like(x))), x**2)


def twice(y, z):
    return halved(tf.fill(tf.shape(z), 4.0))


@pytest.mark.by_day(None)
@pytest.mark.parametrize("given", [{}, {"hessian": twice}])
def test_declared_losses(given):
    loss = tfjac.register_curvature(lambda y, z: halved(2 * tf.square(z - y)), **given)
    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
    model.compile(optimizer=LevenbergMarquardt(), loss=loss)
    x = np.linspace(-1, 1, 8, dtype="float32")[:, None]
    model.fit(x, 3 * x + 1, batch_size=8, epochs=8, verbose=0)
    np.testing.assert_allclose(np.ravel(model.get_weights()[0]), [3.0], rtol=1e-3)


@pytest.mark.by_day(None)
def test_manifolds():
    def plus(x, delta):
        return x if tf.reduce_sum(x) > 1e9 else x + tf.concat([delta, -delta], axis=-1)

    x = tf.Variable([1.0, 1.0], dtype=tf.float64)
    least_squares(lambda: x - tf.constant([3.0, 1.0], tf.float64), x, manifolds=tfjac.Manifold(plus, 2, 1))
    np.testing.assert_allclose(x, [2.0, 0.0], atol=1e-6)  # the nearest with a sum of two
