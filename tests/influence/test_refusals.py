"""What `influence` refuses, by name."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfjac

X, Y = np.random.default_rng(0).normal(size=(6, 3)), np.array([0, 1, 2, 0, 1, 2])


class Squeezed(keras.layers.Layer):
    """Takes the last axis off, and keeps the mask."""

    def __init__(self):
        super().__init__()
        self.supports_masking = True

    def call(self, x):
        return x[..., 0]


@pytest.fixture
def model():
    found = keras.Sequential([keras.Input((3,)), keras.layers.Dense(3)])
    found.compile(loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    return found


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "lissa"}, r"method must be.*'lissa'"),
        ({"removal": "all"}, r"removal must be.*'all'"),
        ({"damping": -1.0}, r"damping must be zero or.*-1"),
        ({"damping": 0.0}, r"The curvature is singular.*give a damping above zero"),
        ({"damping": 0.0, "method": "examples"}, r"The curvature is singular"),
        ({"damping": 0.0, "method": "cg"}, r"need a damping above zero"),
        ({"method": "tracin"}, r"TracIn needs checkpoints"),
        ({"method": "tracin", "checkpoints": [[]], "learning_rates": [1, 2]}, r"one for each of the 1 checkpoints"),
        ({"checkpoints": [[]]}, r"Checkpoints are for method='tracin'"),
        ({"likelihood": "poisson"}, r"likelihood must be"),
    ],
)
def test_options_that_do_not_fit(model, options, message):
    with pytest.raises(ValueError, match=message):
        tfjac.influence(model, X, Y, **options)


@pytest.mark.parametrize(
    ("y", "message"),
    [(Y[:5], "a target for each output of each example"), (Y + 1, "classes from 0 to 2"), (Y + 0.5, "classes from 0")],
)
def test_targets_that_do_not_fit(model, y, message):
    with pytest.raises(ValueError, match=message):
        tfjac.influence(model, X, y)


def test_a_loss_that_is_another_than_it_seems(model):
    smoothed = keras.losses.CategoricalCrossentropy(from_logits=True, label_smoothing=0.1)
    model.compile(loss=smoothed)
    with pytest.raises(ValueError, match=r"smooth the labels in y.*label_smoothing=0.1"):
        tfjac.influence(model, X, np.eye(3)[Y])
    model.compile(loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True, ignore_class=0))
    with pytest.raises(ValueError, match=r"leave out what is ignored.*ignore_class=0"):
        tfjac.influence(model, X, Y)
    with pytest.raises(ValueError, match=r"ignores have no likelihood.*ignore_class=0"):
        tfjac.laplace(model, X, Y)
    model.compile(loss="mae")
    with pytest.raises(ValueError, match=r"likelihood=.*Received: loss='mae'"):
        tfjac.influence(model, X, X)


def test_losses_that_layers_add():
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2, activity_regularizer="l2", name="first")])
    model.compile(loss="mse")
    with pytest.raises(ValueError, match=r"Leave out add_loss and activity regularisers.*'first'"):
        tfjac.influence(model, X, X[:, :2])


def test_a_mask_that_is_not_one_of_positions(model):
    flat = keras.Sequential([keras.Input((3, 1)), keras.layers.Masking(), keras.layers.Dense(1)])
    masked = keras.Model(flat.inputs[0], Squeezed()(flat.outputs[0]))
    masked.compile(loss="mse")
    with pytest.raises(ValueError, match=r"axes of that output but the last.*a mask of shape \(None, 3\)"):
        tfjac.influence(masked, X[..., None], X)


def test_data_in_batches(model):
    with pytest.raises(TypeError, match=r"influence takes arrays x and y"):
        tfjac.influence(model, tf.data.Dataset.from_tensor_slices((X, Y)).batch(2), Y)


def test_a_model_that_was_trained_further(model):
    found = tfjac.influence(model, X, Y)
    model.layers[0].bias.assign([1.0, 2.0, 3.0])
    for call in (lambda: found.on_losses(X, Y), lambda: found.on_outputs(X), found.self_influence, found.leverages):
        with pytest.raises(ValueError, match=r"call influence again"):
            call()


def test_an_example_that_alone_determines_a_weight():
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1, use_bias=False)])
    model.compile(loss="mse")
    x = np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 2.0]])
    found = tfjac.influence(model, x, np.ones(3), damping=0.0)
    with pytest.raises(ValueError, match=r"a leverage of one"):
        found.on_losses(x, np.ones(3))
    np.testing.assert_allclose(found.leverages(), [1.0, 0.2, 0.8], rtol=1e-5)
