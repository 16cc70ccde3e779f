"""The launcher of ExampleGrams against NumPy."""

import numpy as np
import pytest


@pytest.mark.parametrize("n, m, p", [(0, 3, 2), (3, 0, 2), (1, 1, 1), (300, 25, 5), (2, 70, 33)])
def test_values(n, m, p, launchers, dtype, rng):
    jacobian, residual = rng.standard_normal((n, m, p)), rng.standard_normal((n, m))
    gram, gradient = launchers.example_grams(jacobian, residual, dtype)
    tolerance = {"rtol": 1e-4, "atol": 1e-4} if dtype == np.float32 else {"rtol": 1e-11, "atol": 1e-12}
    np.testing.assert_allclose(gram, jacobian.swapaxes(1, 2) @ jacobian, **tolerance)
    np.testing.assert_allclose(gradient, (jacobian.swapaxes(1, 2) @ residual[..., None])[..., 0], **tolerance)
