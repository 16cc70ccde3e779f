"""Small networks for the tests of functions, in the precision asked for."""

import keras
import numpy as np
from keras import layers


def _sequential(dtype, shape, *stack):
    keras.utils.set_random_seed(1)
    model = keras.Sequential([keras.Input(shape, dtype=dtype), *stack])
    rng = np.random.default_rng(2)
    for variable in model.trainable_variables:  # zeros and ones hide mistakes
        variable.assign(variable + 0.1 * rng.normal(size=variable.shape))
    return model


def mlp(dtype="float64", outputs=2):
    """3 → 4 → outputs."""
    return _sequential(
        dtype, (3,), layers.Dense(4, "tanh", dtype=dtype), layers.Dense(outputs, "softplus", dtype=dtype)
    )


def grouped_cnn(dtype="float64"):
    """A convolution below one of two groups, so that gradients pass through it to data and to weights."""
    return _sequential(
        dtype,
        (4, 4, 3),
        layers.Conv2D(4, 2, activation="tanh", dtype=dtype),
        layers.Conv2D(4, 2, groups=2, activation="tanh", dtype=dtype),
        layers.Flatten(dtype=dtype),
        layers.Dense(2, dtype=dtype),
    )


def normalised(dtype="float64"):
    """Batch normalisation in the middle: examples mix in training mode."""
    norm = layers.BatchNormalization(dtype=dtype, name="norm")
    return _sequential(dtype, (3,), layers.Dense(4, "tanh", dtype=dtype), norm, layers.Dense(2, dtype=dtype))


def embedding(dtype="float64", rows=50):
    """Words, repeated, averaged, and a dense layer."""
    return _sequential(
        "int32",
        (5,),
        layers.Embedding(rows, 3, dtype=dtype),
        layers.GlobalAveragePooling1D(dtype=dtype),
        layers.Dense(2, "tanh", dtype=dtype),
    )
