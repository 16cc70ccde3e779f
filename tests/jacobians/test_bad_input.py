"""What bad input gets: what is wrong, what was received, what to do."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfjac
from tests.jacobians import networks

W = tf.Variable([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
X = tf.constant(np.ones((4, 3)), tf.float32)


def product():
    return tf.matmul(X, W)


def losses():
    return tf.reduce_sum(product(), axis=1)


# Every public function that takes ys, with good arguments but for the ys.
OF_YS = {
    "jacobian": lambda ys: tfjac.jacobian(ys, W),
    "batch_jacobian": lambda ys: tfjac.batch_jacobian(ys, X),
    "per_example_jacobian": lambda ys: tfjac.per_example_jacobian(ys, W),
    "per_example_gradients": lambda ys: tfjac.per_example_gradients(ys, W),
    "per_example_gradient_norms": lambda ys: tfjac.per_example_gradient_norms(ys, W),
    "clipped_gradients": lambda ys: tfjac.clipped_gradients(ys, W, 1.0),
    "weighted_gradients": lambda ys: tfjac.weighted_gradients(ys, W, tf.ones([4])),
    "jacobian_operator": lambda ys: tfjac.jacobian_operator(ys, W),
    "jvp": lambda ys: tfjac.jvp(ys, W, tf.ones_like(W)),
    "vjp": lambda ys: tfjac.vjp(ys, W, tf.ones([4, 2])),
    "hvp": lambda ys: tfjac.hvp(ys, W, tf.ones_like(W)),
    "ggnvp": lambda ys: tfjac.ggnvp(ys, tf.square, W, tf.ones_like(W)),
}
OF_VARIABLES = {
    "per_example_jacobian": lambda variables: tfjac.per_example_jacobian(product, variables),
    "per_example_gradients": lambda variables: tfjac.per_example_gradients(losses, variables),
    "per_example_gradient_norms": lambda variables: tfjac.per_example_gradient_norms(losses, variables),
    "clipped_gradients": lambda variables: tfjac.clipped_gradients(losses, variables, 1.0),
    "weighted_gradients": lambda variables: tfjac.weighted_gradients(losses, variables, tf.ones([4])),
}


@pytest.mark.parametrize("name", OF_VARIABLES)
def test_inputs_in_the_place_of_variables(name):
    with pytest.raises(TypeError, match=r"inputs, call tfjac.batch_jacobian.*Received: EagerTensor of shape \(4, 3\)"):
        OF_VARIABLES[name]([W, X])


OF_ONE = ["per_example_jacobian", "per_example_gradients", "per_example_gradient_norms", "clipped_gradients"]
OF_LOSSES = ["per_example_gradients", "per_example_gradient_norms", "clipped_gradients", "weighted_gradients"]


def dense():
    return keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])


@pytest.mark.parametrize("name", OF_ONE)
def test_several_ys_where_there_must_be_one(name):
    with pytest.raises(TypeError, match=r"one tensor here: .*tf.concat.*Received: a list of 2"):
        OF_YS[name](lambda: [losses(), losses()])


def test_none_in_the_place_of_variables():
    with pytest.raises(TypeError, match="Received: None of type NoneType"):
        tfjac.per_example_jacobian(product, None)
    with pytest.raises(TypeError, match="Received: None of type NoneType"):
        tfjac.explain_gradient(product, None)


def test_tangents_of_the_wrong_nest_are_not_printed():
    with pytest.raises(ValueError, match=r"Received: \[.\(2,\).\] for \(3, 2\)"):
        tfjac.jvp(product, W, [tf.ones([2])])


def test_what_to_do_where_the_examples_of_a_batch_jacobian_mix():
    with pytest.raises(tfjac.ExamplesMix, match=r"training=False\), or tfjac.jacobian"):
        tfjac.batch_jacobian(lambda: tf.nn.softmax(X, axis=0), X)


@pytest.mark.parametrize("name", OF_YS)
class TestYs:
    def test_eager_tensor(self, name):
        with pytest.raises(ValueError, match=r"ys is an eager tensor.*pass a callable.*Received: an eager tensor"):
            OF_YS[name](tf.ones([4, 2]))

    def test_ragged_tensors(self, name):
        with pytest.raises(TypeError, match=r"RaggedTensor is made of several.*return its \.flat_values.*Received"):
            OF_YS[name](lambda: tf.RaggedTensor.from_row_lengths(product(), [1, 3]))

    def test_tensor_of_another_graph(self, name):
        kept = []
        tf.function(lambda: kept.append(product()))()
        with pytest.raises(ValueError, match=r"ys must belong to the tf.function being traced.*Received"):
            tf.function(lambda: OF_YS[name](kept[0]))()

    def test_integers(self, name):
        with pytest.raises(TypeError, match=r"floating-point dtype.*Received: .*int32"):
            OF_YS[name](lambda: tf.cast(product(), tf.int32))

    def test_functions_of_something(self, name):
        for function in (dense(), lambda z: tf.matmul(z, W)):
            with pytest.raises(TypeError, match=r"without arguments: pass lambda: model\(x\).*Received: <"):
                OF_YS[name](function)

    def test_values_that_are_asked_for(self, name):
        for function in (lambda: product().numpy(), lambda: np.exp(product())):
            with pytest.raises(TypeError, match=r"ys must compute with TensorFlow throughout.*explain_gradient"):
                OF_YS[name](function)

    def test_variables(self, name):
        with pytest.raises(TypeError, match=r"come before them.*Received: .*in the place of ys"):
            OF_YS[name](W)

    def test_no_tensor(self, name):
        with pytest.raises(TypeError, match=r"ys must be a tensor.*Received: 3.0 of type float"):
            OF_YS[name](3.0)


@pytest.mark.parametrize("name", OF_LOSSES)
def test_losses_of_wrong_rank(name):
    for wrong in (product, lambda: tf.reduce_sum(product())):
        with pytest.raises(ValueError, match=r"losses must have one entry per example.*reduction='none'.*Received"):
            OF_YS[name](wrong)


@pytest.mark.parametrize("name", OF_LOSSES)
def test_a_variable_that_is_not_connected(name):
    with pytest.raises(ValueError, match=r"depend on this variable by any path.*Received"):
        OF_YS[name](lambda: tf.reduce_sum(X, axis=1))


@pytest.mark.parametrize("name", OF_LOSSES[:3])
def test_examples_that_mix(name):
    mixed = lambda: tf.nn.softmax(losses(), axis=0)  # noqa: E731
    with pytest.raises(tfjac.ExamplesMix, match=r"examples mix at .*Softmax"):
        OF_YS[name](mixed)


def test_batch_normalisation_is_named():
    model = networks.normalised()
    x = tf.constant(np.ones((4, 3)))
    with pytest.raises(tfjac.ExamplesMix, match="norm"):
        tfjac.per_example_gradient_norms(lambda: tf.reduce_sum(model(x, training=True), 1), model.trainable_variables)


class TestXs:
    def test_no_tensor(self):
        with pytest.raises(TypeError, match=r"xs must be tensors, tf.Variables or keras.Variables.*Received: 3.0"):
            tfjac.jacobian(product, 3.0)

    def test_empty(self):
        with pytest.raises(ValueError, match=r"xs must hold at least one.*Received: an empty nest"):
            tfjac.jacobian(product, [])

    def test_integers(self):
        with pytest.raises(TypeError, match=r"xs must be of a floating-point dtype.*Received: .*int32"):
            tfjac.vjp(product, tf.Variable(1), tf.ones([4, 2]))

    def test_tensor_of_another_graph(self):
        kept = []
        tf.function(lambda: kept.append(product()))()
        with pytest.raises(ValueError, match=r"xs must belong to the tf.function being traced.*Received"):
            tf.function(lambda: tfjac.jacobian(product(), kept[0]))()


class TestChoices:
    def test_mode(self):
        with pytest.raises(ValueError, match=r"mode must be one of \('auto', 'reverse', 'forward'\). Received: 'both'"):
            tfjac.jacobian(product, W, mode="both")

    @pytest.mark.parametrize(
        "function",
        [
            lambda choice: tfjac.jacobian(product, W, unconnected_gradients=choice),
            lambda choice: tfjac.batch_jacobian(product, X, unconnected_gradients=choice),
            lambda choice: tfjac.jvp(product, W, tf.ones_like(W), choice),
        ],
    )
    def test_unconnected_gradients(self, function):
        with pytest.raises(ValueError, match=r'unconnected_gradients must be "none".*Received: \'maybe\''):
            function("maybe")

    @pytest.mark.parametrize("wrong", [0, -3, 2.5, True])
    def test_chunk_size(self, wrong):
        for function in (tfjac.jacobian, tfjac.per_example_jacobian):
            with pytest.raises(ValueError, match=r"chunk_size must be a positive integer.*Received"):
                function(product, W, chunk_size=wrong)
        with pytest.raises(ValueError, match=r"memory_budget must be a positive integer.*Received"):
            tfjac.batch_jacobian(product, X, memory_budget=wrong)

    def test_both_limits(self):
        with pytest.raises(ValueError, match=r"give one of them.*Received: chunk_size=1, memory_budget=2"):
            tfjac.jacobian(product, W, chunk_size=1, memory_budget=2)

    def test_examples_mix(self):
        with pytest.raises(ValueError, match=r"examples_mix must be one of.*Received: 'maybe'"):
            tfjac.per_example_jacobian(product, W, examples_mix="maybe")


class TestVectors:
    def test_structure(self):
        with pytest.raises(ValueError, match=r"tangents must be a nest like xs.*Received"):
            tfjac.jvp(product, [W], tf.ones_like(W))
        with pytest.raises(ValueError, match=r"cotangents must be a nest like ys.*Received"):
            tfjac.vjp(product, W, [tf.ones([4, 2])])
        with pytest.raises(ValueError, match=r"vectors must be a nest like xs.*Received"):
            tfjac.hvp(product, [W], [tf.ones_like(W), tf.ones_like(W)])

    def test_shape(self):
        with pytest.raises(
            ValueError, match=r"tangents must have the shapes of xs: \(3, 2\).*Received: shape \(2, 3\)"
        ):
            tfjac.jvp(product, W, tf.ones([2, 3]))
        with pytest.raises(
            ValueError, match=r"cotangents must have the shapes of ys: \(4, 2\).*Received: shape \(4,\)"
        ):
            tfjac.vjp(product, W, tf.ones([4]))

    def test_dtype(self):
        with pytest.raises(TypeError, match=r"tangents must be .* dtype of xs, float32 here.*Received: .*float64"):
            tfjac.jvp(product, W, tf.ones([3, 2], tf.float64))
        with pytest.raises(TypeError, match=r"weights must be of the dtype of losses, float32 here.*Received"):
            tfjac.weighted_gradients(losses, W, tf.ones([4], tf.float64))

    def test_weights_and_bounds(self):
        with pytest.raises(ValueError, match=r"weights must have one entry per example.*Received: shape \(3,\)"):
            tfjac.weighted_gradients(losses, W, tf.ones([3]))
        with pytest.raises(ValueError, match=r"weights must have one entry per example.*Received: shape \(\)"):
            tfjac.weighted_gradients(losses, W, 2.0)
        with pytest.raises(ValueError, match=r"clip_norm must have one entry.* scalar.*Received: shape \(2,\)"):
            tfjac.clipped_gradients(losses, W, [1.0, 2.0])
        with pytest.raises(ValueError, match=r"clip_norm must not be negative. Received: clip_norm=-1.0"):
            tfjac.clipped_gradients(losses, W, -1.0)

    def test_losses_of_other_outputs(self):
        with pytest.raises(ValueError, match=r"losses must depend on the outputs.*Received"):
            tfjac.ggnvp(product, lambda outputs: tf.reduce_sum(W), W, tf.ones_like(W))


def test_no_variable_but_a_value():
    layer = keras.layers.Dense(2)
    layer.build((None, 3))
    with pytest.raises(TypeError, match=r"tf.Variable or a keras.Variable.*Received"):
        tfjac.per_example_jacobian(lambda: layer(X), 3.0)
    with pytest.raises(ValueError, match=r"No node is selected by 'kernel'"):
        tfjac.per_example_jacobian(lambda: layer(X), "kernel")
