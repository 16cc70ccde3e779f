"""Random starts on hard problems, free, within bounds, and with robust losses; `benchmarks.random_starts` has more."""

import numpy as np
import pytest

from . import more_garbow_hillstrom as mgh
from .random_starts import RandomStarts

KINDS = {
    "Brown badly scaled": "free", "Meyer": "free", "Osborne 1": "free", "Wood": "free",
    "Powell badly scaled": "bounds", "helical valley": "bounds", "Osborne 2": "bounds", "Box 3D": "robust",
}  # fmt: skip


@pytest.mark.by_day(one_in=8)
@pytest.mark.parametrize("name", KINDS)
def test_random_starts(name):
    starts, rng = RandomStarts(*mgh.PROBLEMS[name], KINDS[name]), np.random.default_rng(len(name))
    for spread in (1.0, 10.0, 100.0):
        starts.run(spread, rng)
