"""The launcher of ExampleGrams against NumPy."""

import numpy as np
import pytest

from tests.gpu.launchers import ALWAYS_LIBRARY, NEVER_LIBRARY

USES = {"tiles": NEVER_LIBRARY, "library": ALWAYS_LIBRARY}


SIZES = [
    (0, 3, 2), (3, 0, 2), (3, 2, 0), (3, 0, 70), (1, 1, 1), (300, 25, 5), (700, 3, 1), (40, 31, 3), (2, 70, 33),
    (9, 40, 20), (8, 200, 30), (3, 90, 63), (2, 5, 64), (3, 70, 131), (3, 900, 6),
]  # fmt: skip


@pytest.mark.by_day(one_in=19)
@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("n, m, p", SIZES)
def test_values(n, m, p, use, launchers, dtype, rng):
    jacobian, residual = rng.standard_normal((n, m, p)), rng.standard_normal((n, m))
    launchers.use_library(USES[use])
    gram, gradient = launchers.example_grams(jacobian, residual, dtype)
    tolerance = {"rtol": 1e-4, "atol": 1e-4} if dtype == np.float32 else {"rtol": 1e-11, "atol": 1e-12}
    np.testing.assert_allclose(gram, jacobian.swapaxes(1, 2) @ jacobian, **tolerance)
    np.testing.assert_allclose(gradient, (jacobian.swapaxes(1, 2) @ residual[..., None])[..., 0], **tolerance)
    np.testing.assert_array_equal(gram, gram.swapaxes(1, 2))
