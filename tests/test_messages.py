"""What people meet first when something is not as it should be: the words that tell them what to do."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfjac

X, Y = np.ones((8, 4), "float32"), np.ones((8, 1), "float32")
LONG = np.arange(4000.0).reshape(1000, 4)


def mlp(built=True):
    front = [keras.Input((4,))] if built else []
    return keras.Sequential([*front, keras.layers.Dense(3, activation="relu"), keras.layers.Dense(1)])


OF_VARIABLES = {
    "per_example_jacobian": lambda f, v: tfjac.per_example_jacobian(f, v),
    "per_example_gradients": lambda f, v: tfjac.per_example_gradients(lambda: f()[:, 0], v),
    "per_example_gradient_norms": lambda f, v: tfjac.per_example_gradient_norms(lambda: f()[:, 0], v),
    "clipped_gradients": lambda f, v: tfjac.clipped_gradients(lambda: f()[:, 0], v, 1.0),
    "weighted_gradients": lambda f, v: tfjac.weighted_gradients(lambda: f()[:, 0], v, np.ones(8, "float32")),
    "jacobian_operator": lambda f, v: tfjac.jacobian_operator(f, v),
    "per_segment_jacobian": lambda f, v: tfjac.per_segment_jacobian(f, v),
    "per_segment_gradients": lambda f, v: tfjac.per_segment_gradients(lambda: f()[:, 0], v),
    "segment_operator": lambda f, v: tfjac.segment_operator(f, v),
    "least_squares": lambda f, v: tfjac.least_squares(f, v),
    "normal_equations": lambda f, v: tfjac.normal_equations(f, v),
    "minimize": lambda f, v: tfjac.LevenbergMarquardt().minimize(f, v),
}


@pytest.mark.parametrize("call", OF_VARIABLES.values(), ids=OF_VARIABLES)
def test_a_model_in_the_place_of_variables(call):
    model = mlp()
    with pytest.raises(TypeError, match=r"pass its weights, model.trainable_variables. Received: <Sequential"):
        call(lambda: model(X), model)


@pytest.mark.parametrize("call", [OF_VARIABLES[name] for name in list(OF_VARIABLES)[:9]], ids=list(OF_VARIABLES)[:9])
def test_the_weights_of_a_model_that_is_not_built(call):
    model = mlp(built=False)
    with pytest.raises(ValueError, match=r"has none before it is built: call it on an example.*an empty nest"):
        call(lambda: model(X), model.trainable_variables)


@pytest.mark.parametrize("call", [tfjac.batch_jacobian, tfjac.jacobian])
def test_an_array_in_the_place_of_a_tensor_is_not_printed(call):
    with pytest.raises(TypeError, match=r"x = tf.constant\(array\).*ndarray of shape \(1000, 4\) and dtype float64$"):
        call(lambda: tf.square(LONG), LONG)
    with pytest.raises(TypeError, match=r"a callable.*Received: ndarray of shape \(1000, 4\) and dtype float64$"):
        call(lambda: LONG, tf.constant(LONG))


def test_laplace_of_what_is_no_array_or_not_trained():
    data = tf.data.Dataset.from_tensor_slices((X, Y)).batch(4)
    with pytest.raises(TypeError, match=r"arrays x and y.*as_numpy_iterator.*Received: a data set of batches"):
        tfjac.laplace(mlp(), data)
    with pytest.raises(ValueError, match=r"has no weights yet: call it on an example"):
        tfjac.laplace(mlp(built=False), X, Y)
    with pytest.raises(TypeError, match=r"a trained Keras model. Received: <function"):
        tfjac.laplace(lambda x: x, X, Y)


@pytest.mark.parametrize("selector", ["ReLU", tfjac.op_type("relu")])
def test_a_type_of_ops_in_the_spelling_of_keras(selector):
    model = mlp()
    with pytest.raises(ValueError, match=r"a type of ops here is op_type\('Relu'\)"):
        tfjac.intercept(model, rules={selector: tfjac.rules.guided})(X)


@pytest.mark.by_day(None)
def test_no_private_class_stands_after_received():
    model = mlp()
    model.compile(optimizer=tfjac.LevenbergMarquardt(solver="cg", regularization="bayesian"), loss="mse")
    with pytest.raises(ValueError, match=r"a solver that factors.*Received: a solver that factors none"):
        model.fit(X, Y, verbose=0)


def test_an_operator_prints_its_shape():
    model = mlp()
    operator = tfjac.jacobian_operator(lambda: model(X), model.trainable_variables)
    assert repr(operator).startswith("<JacobianOperator [8, 19]: 8 examples of 1 outputs, 4 variables, float32, as ")
    assert "OuterFactor" in repr(operator)
    said = []

    @tf.function(input_signature=[tf.TensorSpec([None, 4])])
    def in_graph(x):
        said.append(str(tfjac.jacobian_operator(model(x), model.trainable_variables)))

    in_graph.get_concrete_function()
    assert said[0].startswith("<JacobianOperator [?, 19]: ? examples of 1 outputs, 4 variables")
