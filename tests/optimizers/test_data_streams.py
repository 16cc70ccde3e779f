"""Whether a fit's data are new with each step, as Keras' call of `fit` tells."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from tfjac.keras.fit_under_way import data_stream

N = 12
X = np.ones([N, 2], "float32")
DATASET = tf.data.Dataset.from_tensor_slices((X, X[:, :1]))
WHOLE = tf.data.Dataset.from_tensors((X, X[:, :1]))


class Pairs(keras.utils.PyDataset):
    def __init__(self, batches):
        super().__init__()
        self.batches = batches

    def __len__(self):
        return self.batches

    def __getitem__(self, index):
        return X[:4], X[:4, :1]


@pytest.mark.parametrize(
    ("data", "options", "expected"),
    [
        ((X, X[:, :1]), {"batch_size": 4}, True),
        ((X, X[:, :1]), {"batch_size": 8, "validation_split": 0.2}, True),
        ((X, X[:, :1]), {"batch_size": N}, False),
        ((DATASET.shuffle(N).batch(4).prefetch(1),), {}, True),
        ((DATASET.repeat().batch(4),), {"steps_per_epoch": 3}, True),
        ((DATASET.batch(N),), {}, False),
        ((DATASET.batch(N).repeat(5),), {}, False),
        ((WHOLE.repeat(),), {"steps_per_epoch": 3}, False),
        ((tf.data.Dataset.zip(WHOLE.repeat(), DATASET.batch(4)).map(lambda one, two: one),), {}, False),
        ((Pairs(1),), {}, False),
        ((Pairs(3),), {}, True),
    ],
)
def test_batches_that_are_one_again_and_again_are_told(data, options, expected):
    found = []

    class Asking(keras.optimizers.SGD):
        def apply(self, grads, trainable_variables=None):
            found.append(data_stream())
            return super().apply(grads, trainable_variables)

    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    model.compile(Asking(), "mse")
    model.fit(*data, **options, verbose=0)
    assert found and all(each is expected for each in found)


def test_outside_of_fit_they_may_come_again():
    assert data_stream() is False
