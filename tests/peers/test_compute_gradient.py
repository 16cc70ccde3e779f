"""TensorFlow's gradient checker, `tf.test.compute_gradient`, as the oracle of Jacobians at samples of the sweep.

By night these are one of twenty, with --all-peers all of them.
"""

import json

import numpy as np
import pytest
import tensorflow as tf

import tfjac
from tests.peers import hold_comparisons
from tests.sweep import report
from tests.sweep.samples import SAMPLES

pytestmark = pytest.mark.by_day(None)

SHARE = 20


def test_samples_of_the_sweep(request, record_property):
    step = 1 if request.config.getoption("--all-peers") else SHARE
    beyond, outcomes, wrong = _where_tensorflow_raises(), [], []
    for sample in [each for name, each in SAMPLES.items() if name not in beyond and not each.random][::step]:
        if sample.name.startswith("fake_quant"):
            outcomes.append("a gradient that is straight through, and no derivative")
            continue
        f, xs = _one_result(sample), [tf.constant(x) for x in sample.inputs()]
        try:
            expected = tf.test.compute_gradient(f, xs, delta=3e-3 if sample.single else 1e-5)[1]
        except tf.errors.OpError:  # TensorFlow's own gradient, as that of the loops of ctc_loss in a function
            outcomes.append("the checker fails")
            continue
        try:
            outcomes.append(_compare(f, xs, expected, 3e-2 if sample.single else 1e-5))
        except LookupError:  # by name, where TensorFlow's gradient is wrong
            outcomes.append("refused")
        except AssertionError as error:
            wrong.append(f"{sample.name}: {error}")
    assert not wrong, "\n".join(wrong)
    hold_comparisons(outcomes, record_property)


def _where_tensorflow_raises():
    """Return the samples for which there is no gradient, or none of the package, as the sweep found."""
    found = json.loads(report.PATH.read_text())["deviations"]
    return {name for name, ways in found.items() if {"gradient", "package"} & set(ways.get("raises", "").split("; "))}


def _one_result(sample):
    """Return the function of a sample with all its floating results as one vector."""

    @tf.function(autograph=False)
    def compute(*xs):
        ys = [tf.convert_to_tensor(y) for y in tf.nest.flatten(sample.function(*xs))]
        return tf.concat([tf.cast(tf.reshape(y, [-1]), tf.float64) for y in ys if y.dtype.is_floating], 0)

    return compute


def _compare(f, xs, expected, tolerance):
    """Hold the Jacobians of f(*xs) against those of the checker, one matrix for each of the xs."""

    @tf.function(autograph=False)
    def jacobians(*xs):
        return tfjac.jacobian(f(*xs), list(xs), unconnected_gradients="zero")

    for found, one, x in zip(jacobians(*xs), expected, xs):
        found = np.reshape(found, one.shape)
        scale = 1e-3 + np.max(np.abs(one), initial=0)
        np.testing.assert_allclose(found / scale, one / scale, rtol=0, atol=tolerance, err_msg=f"shape {x.shape}")
    return "compared"
