"""NIST's certified problems in float64, from both starts: six digits of every parameter, five of its error."""

import numpy as np
import pytest
import tensorflow as tf

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
