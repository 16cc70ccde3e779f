"""NIST's certified problems in float64, from both starts: six digits of every parameter, five of its error."""

import numpy as np
import pytest
import tensorflow as tf

import tfjac
from tfjac.optimizers import LeastSquaresProblem, Status

from . import nist


@pytest.mark.by_day(one_in=5)
@pytest.mark.parametrize("name", nist.MODELS)
def test_certified_parameters(name):
    """No exceptions are needed: double precision allows six digits on all ten, where J is factored rather than
    squared.

    MGH17 from its first start crosses a long flat valley: some 560 steps, as many as MINPACK takes.
    """
    problem = nist.load(name)
    parameters = tf.Variable(problem.starts[0])
    residuals = lambda: problem.residuals(parameters)  # noqa: E731
    fit = LeastSquaresProblem(residuals, parameters, 1000, ftol=1e-15, xtol=1e-15, gtol=1e-15)
    for start in problem.starts:
        parameters.assign(start)
        check(fit.solve(), parameters, problem)


def check(result, parameters, problem):
    np.testing.assert_allclose(parameters.numpy(), problem.certified, rtol=0.5e-6)
    np.testing.assert_allclose(2 * result.cost, problem.sum_of_squares, rtol=1e-9)
    np.testing.assert_array_equal(result.x, parameters.numpy())
    np.testing.assert_allclose(result.standard_errors(), problem.deviations, rtol=1e-5)
    assert result.success or result.status is Status.STALLED, "STALLED is the end of double precision here"


@pytest.mark.core
def test_float32_converges_at_the_minimum():
    """MGH10. Columns of J are alike in four digits: squared in float32 they promise nothing, at 10⁷ times the least."""
    x = np.arange(50, 126, 5.0)
    y = [34780, 28610, 23650, 19630, 16370, 13720, 11540, 9744, 8261, 7030, 6005, 5147, 4427, 3820, 3307, 2872]
    parameters = tf.Variable([2.0, 400_000.0, 25_000.0])
    model = lambda b: b[0] * tf.exp(b[1] / (x.astype(b.dtype.name) + b[2]))  # noqa: E731
    fit = tfjac.least_squares(lambda: model(parameters) - y, parameters, max_steps=1000)
    sum_of_squares = np.sum(np.square(model(tf.constant(fit.x, tf.float64)) - y))
    assert fit.success and sum_of_squares < 1.01 * 87.945855171
