"""SciPy's own tests of `curve_fit` and `least_squares`, imported from the SciPy that is installed, run on tfjac."""

import pytest

from . import scipy_adapter

minpack = pytest.importorskip("scipy.optimize.tests.test_minpack", reason="SciPy is installed without its tests")
lsq = pytest.importorskip("scipy.optimize.tests.test_least_squares", reason="SciPy is installed without its tests")
pytestmark = pytest.mark.nightly

OTHERWISE = {}


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
