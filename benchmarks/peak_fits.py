"""Gaussian peaks on a sloping background, and SciPy's fits of them; without TensorFlow, for processes of their own."""

import concurrent.futures
import functools
import multiprocessing
import os

import numpy as np
import scipy.optimize

POSITIONS = np.linspace(-3, 3, 25)
START = np.array([1.5, 0.0, 0.7, 0.0, 0.0])
"""Height, centre, width, offset and slope."""


def peaks(count: int) -> np.ndarray:
    """Measured peaks `[count, 25]`, float32."""
    random = np.random.default_rng(0)
    low, high = [1, -1, 0.4, -0.2, -0.1], [3, 1, 1, 0.2, 0.1]
    truth = random.uniform(low, high, size=(count, 5))
    values = np.stack([_model(parameters) for parameters in truth])
    return (values + 0.05 * random.normal(size=values.shape)).astype(np.float32)


def _model(p):
    return p[0] * np.exp(-np.square((POSITIONS - p[1]) / p[2]) / 2) + p[3] + p[4] * POSITIONS


def _jacobian(p, measured):
    distance = (POSITIONS - p[1]) / p[2]
    bell = np.exp(-np.square(distance) / 2)
    slope = p[0] * bell * distance / p[2]
    return np.stack([bell, slope, slope * distance, np.ones_like(bell), POSITIONS], axis=1)


def _residuals(p, measured):
    return _model(p) - measured


def minpack(measured: np.ndarray, exact: bool = True) -> np.ndarray:
    """Costs `[n]` of fits by MINPACK's `lmder`, with the exact Jacobian, or differences, one after the other."""
    options = {"ftol": 3e-4, "xtol": 3e-4, **({"Dfun": _jacobian} if exact else {})}
    found = [scipy.optimize.leastsq(_residuals, START, args=(one,), **options) for one in measured]
    return np.array([np.sum(np.square(_residuals(x, one))) / 2 for (x, _), one in zip(found, measured)])


def trust_region(measured: np.ndarray) -> np.ndarray:
    """Costs `[n]` of fits by `scipy.optimize.least_squares` as it is."""
    return np.array([scipy.optimize.least_squares(_residuals, START, args=(one,)).cost for one in measured])


class Workers:
    """Processes, one for each core, that fit by MINPACK; started when first asked."""

    @functools.cached_property
    def _pool(self):
        return concurrent.futures.ProcessPoolExecutor(os.cpu_count(), multiprocessing.get_context("spawn"))

    def __call__(self, measured: np.ndarray) -> np.ndarray:
        """Costs `[n]`."""
        return np.concatenate(list(self._pool.map(minpack, np.array_split(measured, 8 * os.cpu_count()))))
