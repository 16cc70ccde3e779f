"""J of few residuals of an example by its factors, and those of a random combination in their place."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.precision import floating
from tfjac.jacobians.rows.product_rows import DrawnRows, ProductRows, drawn_rows
from tfjac.linear.operator import JacobianOperator

RNG = np.random.default_rng(0)
X = RNG.normal(size=(5, 4, 3))


def network(outputs, recurrent):
    keras.utils.set_random_seed(1)
    with floating("float64"):
        middle = [keras.layers.LSTM(4)] if recurrent else [keras.layers.Flatten(), keras.layers.Dense(4, "tanh")]
        return keras.Sequential([keras.Input(X.shape[1:]), *middle, keras.layers.Dense(outputs)])


@pytest.mark.parametrize(
    ("outputs", "recurrent", "kind"),
    [(3, True, DrawnRows), (1, True, JacobianOperator), (1, False, JacobianOperator), (3, False, ProductRows)],
)
def test_products_are_exact_and_factors_are_of_a_combination(outputs, recurrent, kind):
    model = network(outputs, recurrent)
    variables = [each.value for each in model.trainable_variables]
    size = model.count_params()
    kinds, v, u = [], RNG.normal(size=size), tf.constant(RNG.normal(size=len(X) * outputs))

    @tf.function(input_signature=[tf.TensorSpec([None, *X.shape[1:]], tf.float64)], autograph=False)
    def found(x):
        rows = drawn_rows([model(x)], variables, tf.constant(5, tf.int64))
        kinds.append(type(rows))
        combined = tf.concat([factor.dense() for factor in rows.factors], 2)
        return rows.matvec(tf.constant(v)), rows.matvec(u[: tf.shape(x)[0] * outputs], adjoint=True), combined

    product, adjoint, combined = (each.numpy() for each in found(X))
    with tf.GradientTape() as tape:
        output = model(X)
    jacobian = tf.concat([tf.reshape(j, [len(X), outputs, -1]) for j in tape.jacobian(output, variables)], 2).numpy()
    flat = jacobian.reshape(-1, size)
    assert kinds[-1] is kind
    np.testing.assert_allclose(product, flat @ v, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(adjoint, flat.T @ u.numpy(), rtol=1e-9, atol=1e-12)
    assert combined.shape[1] == 1
    for rows, row in zip(jacobian, combined):
        signs, *_ = np.linalg.lstsq(rows.T, row[0], rcond=None)
        np.testing.assert_allclose(abs(signs), 1, rtol=1e-7)
        np.testing.assert_allclose(signs @ rows, row[0], atol=1e-9)
    assert found(X[:0])[0].shape == (0,)


def test_alone_they_are_the_rows_of_which_factors_are():
    model = network(3, recurrent=False)
    variables, v = [each.value for each in model.trainable_variables], RNG.normal(size=model.count_params())

    @tf.function(autograph=False)
    def found(x):
        rows = drawn_rows([model(x)], variables, tf.constant(5, tf.int64), alone=True)
        beside = drawn_rows([model(x)], variables, tf.constant(5, tf.int64))
        return rows.matvec(tf.constant(v)), tf.concat([factor.dense() for factor in beside.factors], 2)[:, 0]

    product, combined = (each.numpy() for each in found(X))
    np.testing.assert_allclose(product, combined @ v, rtol=1e-9, atol=1e-12)


def test_factors_of_long_sequences_are_not_kept(monkeypatch):
    monkeypatch.setattr("tfjac.jacobians.rows.product_rows.FEW_NUMBERS", 3 * 4 * 16 - 1)  # m·t·o of the LSTM
    model = network(3, True)
    variables, kinds = [each.value for each in model.trainable_variables], []
    seed = tf.constant(5, tf.int64)
    traced = tf.function(lambda x: kinds.append(type(drawn_rows([model(x)], variables, seed))), autograph=False)
    traced.get_concrete_function(tf.TensorSpec([None, *X.shape[1:]], tf.float64))
    assert kinds == [ProductRows]
