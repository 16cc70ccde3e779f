"""What `plot` draws of images, words, columns and series."""

import keras
import matplotlib
import numpy as np
import pytest

from tests.explanations.test_mistakes import of_rows, rows
from tests.explanations.test_models import images, nested
from tfjac import explanations

matplotlib.use("Agg")
LAYERS = keras.layers


@pytest.mark.by_day(None)
def test_images_are_drawn_under_their_attributions():
    model = nested()
    for method in ("grad_cam", "integrated_gradients"):
        found = getattr(explanations, method)(model, images(), class_index=2)
        axis = found.plot(1)
        below, above = axis.get_images()
        np.testing.assert_allclose(below.get_array(), images()[1].mean(-1), rtol=1e-5)
        shown = found.attributions[1] if method == "grad_cam" else found.attributions[1].sum(-1)
        np.testing.assert_allclose(above.get_array(), shown)
        assert "class 2" in axis.get_title() and len(axis.figure.axes) == 2


def test_a_map_of_zeros_is_said():
    """All channels speak against the class in the first image, and for it in the second."""
    conv = LAYERS.Conv2D(2, 1, kernel_initializer="ones", name="conv")
    dense = LAYERS.Dense(1, kernel_initializer="ones", bias_initializer="ones")
    model = keras.Sequential([keras.Input((4, 4, 1)), conv, LAYERS.GlobalAveragePooling2D(), dense])
    x = np.ones((3, 4, 4, 1), "float32") * np.reshape([-1.0, 1.0, -2.0], [3, 1, 1, 1])
    found = explanations.grad_cam(model, x, layer="conv")
    assert "zero everywhere: examples 0, 2" in repr(found)
    assert "zero everywhere" in found.plot(0).get_title() and "zero everywhere" not in found.plot(1).get_title()
    assert "zero everywhere" not in repr(explanations.grad_cam(model, x[1:2], layer="conv"))


@pytest.mark.by_day(None)
def test_words_and_columns():
    tokens = np.array([[3, 1, 4, 1, 5, 9]])
    head = [LAYERS.Embedding(10, 4), LAYERS.GlobalAveragePooling1D(), LAYERS.Dense(2)]
    found = explanations.integrated_gradients(keras.Sequential([keras.Input((6,), dtype="int32"), *head]), tokens)
    axis = found.plot(tokens=["a", "cat", "sat", "on", "the", "mat"])
    assert [each.get_text() for each in axis.get_xticklabels()] == ["a", "cat", "sat", "on", "the", "mat"]
    np.testing.assert_allclose([bar.get_height() for bar in axis.patches], found.attributions[0], rtol=1e-5)
    found = explanations.integrated_gradients(of_rows(LAYERS.Dense(2)), rows(), 1)
    axis = found.plot(2, names=["age", "height", "weight", "fare"])
    order = np.argsort(np.abs(found.attributions[2]))
    np.testing.assert_allclose([bar.get_width() for bar in axis.patches], found.attributions[2][order], rtol=1e-5)
    assert [each.get_text() for each in axis.get_yticklabels()][-1] == ["age", "height", "weight", "fare"][order[-1]]


def test_series_and_several_inputs():
    x = [keras.Input((5, 3)), keras.Input((4,))]
    joined = LAYERS.Concatenate()([LAYERS.Flatten()(x[0]), x[1]])
    model = keras.Model(x, LAYERS.Dense(2)(joined))
    found = explanations.integrated_gradients(model, [np.ones((2, 5, 3), "float32"), np.ones((2, 4), "float32")])
    first, second = found.plot()
    assert first.get_images()[0].get_array().shape == (3, 5) and len(second.patches) == 4
    with pytest.raises(ValueError, match=r"axes must be one for each of the 2 inputs\. Received: 1"):
        found.plot(axes=first)


def test_what_cannot_be_drawn():
    found = explanations.integrated_gradients(of_rows(LAYERS.Dense(2)), rows(), 1)
    with pytest.raises(ValueError, match=r"one of the 3 rows\. Received: example=3"):
        found.plot(3)
    with pytest.raises(ValueError, match=r"one for each of the 4 columns\. Received: 1"):
        found.plot(names=["age"])
