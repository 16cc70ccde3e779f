"""A warning is shown at the line of the program that it is about, whatever libraries lie between."""

import inspect
import warnings

import keras
import numpy as np
import pytest
import tensorflow as tf

import tfjac
from tfjac._warn import warn


def line():
    """Give the number of the line that calls this."""
    return inspect.currentframe().f_back.f_lineno


@pytest.mark.by_day(None)
def test_at_the_line_that_calls_fit():
    """The batches are too small, which is seen in a callback of Keras."""
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(8, "tanh"), keras.layers.Dense(1)])
    model.compile(tfjac.LevenbergMarquardt(memory=None), "mse")
    x = np.random.default_rng(0).normal(size=(16, 2))
    with pytest.warns(UserWarning, match="batches have fewer residuals") as seen:
        model.fit(x, x[:, :1], batch_size=4, verbose=0); here = line()  # fmt: skip  # noqa: E702
    (found,) = [each for each in seen if "batches have fewer residuals" in str(each.message)]
    assert (found.filename, found.lineno) == (__file__, here)


def test_at_the_line_that_calls_a_traced_function():
    """AutoGraph writes the function to a file again, and that file is not the program."""
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(2)])
    x = tf.random.stateless_normal([4, 2], seed=[0, 1])

    @tf.function
    def jacobian():
        y = model(x)
        y = tf.matmul(y, y, transpose_b=True)[:, :2]
        return tfjac.per_example_jacobian(y, model.trainable_variables, examples_mix="full")

    with pytest.warns(UserWarning, match="each of the 8 rows") as seen:
        jacobian(); here = line()  # fmt: skip  # noqa: E702
    (found,) = [each for each in seen if "each of the 8 rows" in str(each.message)]
    assert (found.filename, found.lineno) == (__file__, here)


def test_once_for_a_line_as_any_warning():
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("default")
        for _ in range(3):
            warn("a word", RuntimeWarning)
    assert [(each.category, each.filename) for each in seen] == [(RuntimeWarning, __file__)]
