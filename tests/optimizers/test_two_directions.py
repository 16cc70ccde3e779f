"""Steps in the plane of two directions, next to the matrices."""

import numpy as np
import pytest
import tensorflow as tf

import tfjac
from tfjac.drive.streamed.two_directions import TwoDirections
from tfjac.linear.columns import Columns
from tfjac.linear.factors.forms import DenseFactor
from tfjac.linear.model import Linearisation
from tfjac.linear.model.stacked import StackedJacobian
from tfjac.linear.prior import Prior

RNG = np.random.default_rng(0)
J, R, LAST = RNG.normal(size=(7, 4)), RNG.normal(size=7), RNG.normal(size=4)
WEIGHT = np.array([0.5, 1, 2, 0])


@pytest.mark.parametrize("streams", [None, True, False])
def test_the_model_of_a_step_needs_no_product(streams):
    @tf.function(autograph=False)
    def found():
        factor = DenseFactor(tf.constant(J[:, None]))
        rows = StackedJacobian([tfjac.JacobianOperator([factor], [[4]], 7, 1)], [7], Columns([LAST]), tf.float64)
        prior = Prior(tf.constant(WEIGHT), tf.constant(WEIGHT), None, is_zero=False)
        new = None if streams is None else tf.constant(streams)
        given = lambda g: g / 9, tf.ones(4, tf.float64), tf.constant(LAST), tf.constant(0.1, tf.float64)
        numbers = tf.constant(0.0, tf.float64), tf.constant(1.0, tf.float64)
        system = TwoDirections(*given, *numbers, 1.0, new).prepare(Linearisation(rows, tf.constant(R), prior))
        step, solved = system.solver(tf.ones(4, tf.float64))(tf.constant(0.1, tf.float64))
        elsewhere = tf.constant(RNG.normal(size=4))
        return solved, step, system.quadratic(step), elsewhere, system.quadratic(elsewhere)

    solved, *pairs = found()
    assert solved
    matrix = J.T @ J + np.diag(WEIGHT)
    for step, value in zip(pairs[::2], pairs[1::2]):
        np.testing.assert_allclose(value, step.numpy() @ matrix @ step.numpy(), rtol=1e-9)
