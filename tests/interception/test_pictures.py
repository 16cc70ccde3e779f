"""Pictures, and the summaries of a training."""

import keras
import matplotlib
import numpy as np
import pytest
import tensorflow as tf

import tfjac
from tests.interception.networks import X, network
from tfjac.interception.handlers import Record

matplotlib.use("Agg")


def test_norms_over_steps():
    records = [Record("a", step, np.full([2, 2], 10.0**-step)) for step in (2, 0, 1)]
    records += [Record("b", 0, np.float32(3.0)), Record("b", 1, np.float32("nan")), Record("b", 2, np.zeros(3))]
    axes = tfjac.plot_gradients(records)
    lines = {line.get_label(): line.get_xydata() for line in axes.get_lines()}
    np.testing.assert_allclose(lines["a"], [[0, 2.0], [1, 0.2], [2, 0.02]])
    np.testing.assert_allclose(lines["b"], [[0, 3.0]])
    assert lines["zero, NaN or infinite"][:, 0].tolist() == [1, 2] and axes.get_yscale() == "log"
    assert tfjac.plot_gradients(records, axes) is axes
    with pytest.raises(ValueError, match=r"nothing to draw.*Received: an empty list"):
        tfjac.plot_gradients([])


def test_summaries_of_a_fit(tmp_path):
    model = network()
    model.compile(keras.optimizers.SGD(0.1), "mse")
    y = np.zeros((6, 3), "float32")
    watched = tfjac.GradientSummaries(tmp_path, ["head", model.get_layer("first")], every=2)
    model.fit(X, y, batch_size=6, epochs=3, verbose=0, callbacks=[watched])
    assert not any("call" in vars(layer) for layer in model.layers), "the hooks are off again"
    (file,) = tmp_path.iterdir()
    events = [tf.compat.v1.Event.FromString(record.numpy()) for record in tf.data.TFRecordDataset(str(file))]
    found = {(value.tag, event.step) for event in events for value in event.summary.value}
    assert found == {
        (f"{kind}/{layer}", step)
        for kind in ("gradients", "gradient_norms") for layer in ("head", "first") for step in (0, 2)
    }  # fmt: skip
    everything = tfjac.GradientSummaries(tmp_path / "all")
    everything.set_model(model)
    assert [layer.name for layer in everything._chosen()] == ["first", "second", "norm", "gate", "head"]


def test_summaries_of_a_model_that_was_not_built_are_refused(tmp_path):
    """There would be none, and no word about it."""
    model = keras.Sequential([keras.layers.Dense(3)])
    model.compile("sgd", "mse")
    with pytest.raises(ValueError, match=r"hooks layers that were built.*Received: model 'sequential"):
        model.fit(X, X[:, :1], verbose=0, callbacks=[tfjac.GradientSummaries(tmp_path)])
