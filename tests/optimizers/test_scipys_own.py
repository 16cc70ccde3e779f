"""SciPy's own tests of `curve_fit` and `least_squares`, imported from the SciPy that is installed, run on tfjac."""

import pytest

from . import scipy_adapter

minpack = pytest.importorskip("scipy.optimize.tests.test_minpack", reason="SciPy is installed without its tests")
lsq = pytest.importorskip("scipy.optimize.tests.test_least_squares", reason="SciPy is installed without its tests")
pytestmark = pytest.mark.nightly

OTHERWISE = {
    "test_full_output": "infodict has no fjac, ipvt and qtf: they are of MINPACK's factorisation",
    "test_args_in_kwargs": "the same refusal is a TypeError here",
    "test_gh4555b": "to 2e-7 a covariance that SciPy has from forward differences, which are off by 2e-6",
    "test_gh13670": "the Jacobian here is of differences, which call the function where it was called",
}
"""Tests that say what is not so here, and why."""


@pytest.fixture(autouse=True)
def on_tfjac(monkeypatch, request):
    reason = OTHERWISE.get(request.node.originalname or request.node.name)
    if reason:
        pytest.skip(reason)
    monkeypatch.setattr(minpack, "curve_fit", scipy_adapter.curve_fit)
    monkeypatch.setattr(lsq, "least_squares", scipy_adapter.least_squares)


class TestCurveFit(minpack.TestCurveFit):
    pass


class TestTRF(lsq.TestTRF):
    pass


class TestLM(lsq.TestLM):
    pass
