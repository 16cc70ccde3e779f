"""SciPy's own tests of `curve_fit` and `least_squares`, imported from the SciPy that is installed, run on tfjac."""

import numpy as np
import pytest
import tensorflow as tf

import tfjac

from . import scipy_adapter

minpack = pytest.importorskip("scipy.optimize.tests.test_minpack", reason="SciPy is installed without its tests")
lsq = pytest.importorskip("scipy.optimize.tests.test_least_squares", reason="SciPy is installed without its tests")
pytestmark = pytest.mark.by_day(None)

OTHERWISE = {
    "TestTRF.test_options": "x to 1e-15, where the adapter's differences leave 1e-12",
    "test_grad": "max_nfev counts steps here, and one is taken",
    "test_robustness": "of the adapter's differences; by TensorFlow's derivatives below",
    "test_regression_2639": "the adapter's differences take longer steps than this curve bears; below by TensorFlow's",
    "test_full_output": "infodict has no fjac, ipvt and qtf: they are of MINPACK's factorisation",
    "test_args_in_kwargs": "the same refusal is a TypeError here",
    "test_gh4555b": "to 2e-7 a covariance that SciPy has from forward differences, which are off by 2e-6",
    "test_full_result_single_fev": "max_nfev counts steps here, and one is taken",
    "test_fun_wrong_dimensions": "residuals may have any shape",
    "test_jac_wrong_dimensions": "a formula for the Jacobian is left out by the adapter",
    "test_fun_and_jac_inconsistent_dimensions": "a formula for the Jacobian is left out by the adapter",
    "test_jac_options": "a formula for the Jacobian is left out by the adapter",
    "test_error_raised_when_all_tolerances_below_eps": "zero switches a tolerance off; max_steps ends it then",
    "TestTRF.test_jac": "with a robust loss jac is J, and SciPy's is scaled",
    "test_x_scale_options": "scales are found",
    "test_incorrect_options_usage": "the adapter leaves out what chooses among SciPy's methods",
    "test_nfev": "evaluations are counted in another way",
    "test_workers": "TensorFlow uses all cores",
    "test_diff_step": "derivatives are not by SciPy's differences",
    "test_lsmr_regularization": "about SciPy's solver",
    "test_exact_tr_solver": "about SciPy's solver",
    "test_equivalence": "about SciPy's solver",
    "test_tr_options": "about SciPy's solver",
    "test_wrong_parameters": "about SciPy's solver",
    "test_solver_selection": "about SciPy's solver",
    "test_wrong_jac_sparsity": "the sparsity is found",
    "test_linear_operator": "the Jacobian is found",
    "test_x_scale_jac_scale": "scales are found",
    "test_gh13670": "the Jacobian here is of differences, which call the function where it was called",
}
"""Tests that say what is not so here, and why."""


@pytest.fixture(autouse=True)
def on_tfjac(monkeypatch, request):
    name = request.node.originalname or request.node.name
    around = getattr(request.node.cls, "__name__", "")
    reason = OTHERWISE.get(name) or OTHERWISE.get(f"{around}.{name}")
    if reason:
        pytest.skip(reason)
    monkeypatch.setattr(minpack, "curve_fit", scipy_adapter.curve_fit)
    monkeypatch.setattr(lsq, "least_squares", scipy_adapter.least_squares)


class TestCurveFit(minpack.TestCurveFit):
    """Of SciPy's three methods, all of which are one here."""


class TestTRF(lsq.TestTRF):
    """Those of the method for bounds; those of the others are the same, and there is one method here."""


@pytest.mark.parametrize("noise", [0.1, 1.0])
def test_robustness_by_derivatives(noise):
    """What `test_robustness` says: a small gradient, and nearer to the truth than least squares."""
    problem = lsq.ExponentialFittingProblem(1, 0.1, noise, 1, (-1, 1), 11, 12220903)

    def fitted(loss):
        w = tf.Variable(problem.p0, dtype=tf.float64)
        options = {} if loss == "linear" else {"loss": loss, "loss_scale": noise}
        result = tfjac.least_squares(lambda: w[0] + tf.exp(w[1] * problem.x) - problem.y, w, **options)
        assert result.success and result.optimality < 1e-2
        return np.linalg.norm(result.x - problem.p_opt)

    assert all(fitted(loss) < fitted("linear") for loss in ("huber", "soft_l1", "cauchy", "arctan"))


def test_regression_2639_by_derivatives(monkeypatch):
    """SciPy's test itself, its curve written in TensorFlow."""

    def fit(f, x, y, guess, maxfev):
        def curve(x, x0, x1, a, b, sigma, c):
            return a * tf.exp(-((x - x0) ** 2) / (2 * sigma**2)) + b * tf.exp(-((x - x1) ** 2) / (2 * sigma**2)) + c

        at = np.asarray(x)
        np.testing.assert_allclose(f(at, *guess), curve(tf.constant(at), *guess), rtol=1e-12)
        return tfjac.curve_fit(curve, x, y, guess, maxfev=maxfev)

    monkeypatch.setattr(minpack, "curve_fit", fit)
    minpack.TestCurveFit().test_regression_2639()
