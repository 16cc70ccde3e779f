"""What no rule covers, and what its op reads at two inputs at once."""

import numpy as np
import pytest
import tensorflow as tf

import tfjac
from tests.jacobians.oracles_full import assert_all_close, full_jacobian


def clipped(x, w):
    bound = tf.reduce_max(w)
    return tf.raw_ops.ClipByValue(t=x, clip_value_min=bound, clip_value_max=bound)


def normalised(x, w):
    arguments = {"scale": w, "offset": w, "mean": w, "variance": tf.ones(4)}
    return tf.raw_ops.FusedBatchNormV3(x=x[:, None, None], is_training=False, **arguments).y[:, 0, 0]


def added(x, w):
    rows = tf.tile(w[None], [3, 1])
    return tf.raw_ops.AddN(inputs=[rows, x * w, rows])


TWICE = {"bounds of a clip": clipped, "scale, offset and mean": normalised, "a sum": added}


@pytest.mark.by_day(one_in=2)
@pytest.mark.filterwarnings("ignore:tfjac. no factor")
@pytest.mark.parametrize("name", TWICE)
def test_one_tensor_at_two_inputs(name, rng):
    """The gradient of each input by itself: that of the tensor is both together, and counts each once."""
    variable = tf.Variable(rng.normal(size=4).astype("float32"))
    x = tf.constant(rng.normal(size=(3, 4)).astype("float32"))

    def y():
        return TWICE[name](x, tf.convert_to_tensor(variable))

    (expected,) = full_jacobian(y, [variable])
    assert np.abs(expected).max() > 0.1
    assert_all_close(tfjac.per_example_jacobian(y, variable), expected, 1e-5)


READ = {
    "rows": lambda v: tf.gather(v, [1, 0, 4]),
    "entries": lambda v: tf.gather_nd(v, [[1, 2], [0, 0], [4, 1]])[:, None],
}


@pytest.mark.filterwarnings("ignore:tfjac. no factor")
@pytest.mark.parametrize("name", READ)
def test_a_variable_whose_number_of_rows_may_change(name, rng):
    x, values = tf.constant(rng.normal(size=(3, 1))), rng.normal(size=(5, 4))
    fixed, changing = tf.Variable(values), tf.Variable(values, shape=[None, 4])
    (expected,) = full_jacobian(lambda: tf.sin(READ[name](fixed) * x), [fixed])
    assert_all_close(tfjac.per_example_jacobian(lambda: tf.sin(READ[name](changing) * x), changing), expected, 1e-12)


@pytest.mark.filterwarnings("ignore:tfjac. no factor")
def test_channels_of_an_open_number(rng):
    x, kernel = tf.constant(rng.normal(size=(3, 4, 2))), tf.Variable(rng.normal(size=(2, 2, 3)))
    (expected,) = full_jacobian(lambda: tf.nn.conv1d(x, kernel, 1, "SAME"), [kernel])

    @tf.function(input_signature=[tf.TensorSpec([None, None, None], x.dtype)])
    def compute(x):
        return tfjac.per_example_jacobian(tf.nn.conv1d(x, kernel, 1, "SAME"), kernel)

    assert_all_close(compute(x), expected, 1e-12)
