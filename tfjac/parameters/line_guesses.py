"""Values to start from for lines of spectra: functions of x and y, NumPy, to a dict of numbers by name."""

import itertools

import numpy as np
import scipy.special

from tfjac.parameters import guesses
from tfjac.parameters.guesses import Peak


def moffat(x, y):
    found = Peak.of(x, y)
    return {"amplitude": found.height, "center": found.center, "sigma": found.half, "beta": 1.0}


def split_lorentzian(x, y):
    found = Peak.of(x, y)
    area = np.pi / 2 * found.height * (found.left + found.right)
    return {"amplitude": area, "center": found.center, "sigma": found.left, "sigma_r": found.right}


def students_t(x, y):
    """Sigma is width and exponent at once; half of the width is √(σ(2^(2/(σ+1)) − 1)), between 0 and 1.18."""
    found = Peak.of(x, y)
    sigma = np.geomspace(0.01, 90.0, 400)
    best = sigma[np.argmin(np.abs(np.sqrt(sigma * (2 ** (2 / (sigma + 1)) - 1)) - found.half))]
    factor = scipy.special.gammaln((best + 1) / 2) - scipy.special.gammaln(best / 2)
    height = np.exp(factor) / np.sqrt(np.pi * best)
    return {"amplitude": found.height / height, "center": found.center, "sigma": best}


def breit_wigner(x, y):
    """The best of some widths about the largest and the least value; A, A(q² − 1) and 2Aq by linear least squares."""
    x, y = guesses.smoothed(x, y)

    def line(center, sigma, q):
        away = x - center
        return np.square(q * sigma / 2 + away) / (np.square(sigma / 2) + np.square(away))

    candidates = []
    widths = (np.ptp(x) or 1.0) * np.geomspace(1 / x.size, 1 / 3, 12)
    for center, sigma in itertools.product(_centers(x, y), widths):
        z = 2 * (x - center) / sigma
        resonance = 1 / (1 + z * z)
        level, even, odd = np.linalg.lstsq(np.stack([np.ones_like(z), resonance, z * resonance], axis=1), y)[0]
        root = np.emath.sqrt((even + 1j * odd) / (level or 1.0))  # q + i
        candidates.append({"center": center, "sigma": sigma, "q": root.real / (root.imag or 1.0)})
    return guesses.best(line, y, candidates)


def _centers(x, y):
    """Return the places of the largest and the least value, and some between them."""
    high, low = x[np.argmax(y)], x[np.argmin(y)]
    return high + np.array([0.0, 0.1, 0.25, 0.5, 0.75, 1.0]) * (low - high)


def lognormal(x, y):
    """As a Gaussian of log x, of xy; its width also by a parabola through log |xy|, where y is large."""
    x, y = guesses.smoothed(x[x > 0], y[x > 0])

    def line(center, sigma):
        return np.exp(-np.square((np.log(x) - center) / sigma) / 2) / (sigma * x * np.sqrt(2 * np.pi))

    found = Peak.of(np.log(x), x * y)
    candidates = [{"center": found.center, "sigma": found.half / np.sqrt(2 * np.log(2))}]
    large = np.abs(y) > 0.2 * np.abs(y).max()
    columns = np.vander(np.log(x[large]), 3) * np.abs(y[large, None])
    curvature, slope, _ = np.linalg.lstsq(columns, np.log(np.abs(x * y)[large]) * np.abs(y[large]))[0]
    if curvature < 0:
        candidates.append({"center": -slope / (2 * curvature), "sigma": 1 / np.sqrt(-2 * curvature)})
    return guesses.best(line, y, candidates)


def exponential_gaussian(x, y):
    """As a Gaussian as wide as its steeper side, and an exponential about as wide."""
    found = Peak.of(x, y)
    sigma = found.half / np.sqrt(2 * np.log(2))
    tail = max(found.right - found.left, 0.3 * found.half)
    area = np.sqrt(2 * np.pi) * found.height * (found.left + found.right) / 2 / np.sqrt(2 * np.log(2))
    return {"amplitude": area, "center": found.center - tail / 2, "sigma": sigma, "gamma": min(1 / tail, 19.0)}


def skewed_gaussian(x, y):
    """The best of some skews, with the top and the width of the line where the data have theirs."""

    def line(center, sigma, gamma, x=x):
        z = (x - center) / sigma
        return np.exp(-z * z / 2) * (1 + scipy.special.erf(gamma * z / np.sqrt(2))) / (sigma * np.sqrt(2 * np.pi))

    found, unit, candidates = Peak.of(x, y), np.linspace(-4, 4, 401), []
    for skew in (-3.0, -1.0, -0.3, 0.3, 1.0, 3.0):
        own = Peak.of(unit, line(0.0, 1.0, skew, unit))
        sigma = (found.left + found.right) / (own.left + own.right)
        candidates.append({"center": found.center - sigma * own.center, "sigma": sigma, "gamma": skew})
    return guesses.best(line, y, candidates)


def doniach(x, y):
    """The best of some widths and tails, each with its top, at z = −tan(πγ/(4 − 2γ)), where the data have theirs."""

    def line(center, sigma, gamma):
        z, rest = (x - center) / sigma, 1 - gamma
        return np.cos(np.pi / 2 * gamma + rest * np.arctan(z)) * np.power(sigma**2 * (1 + z * z), -rest / 2)

    candidates = []
    tails, factors = (0.0, 0.2, 0.4, 0.6, 0.8, 0.9), (0.25, 0.5, 1.0)
    for top, factor, gamma in itertools.product([Peak.of(x, y, 1.0), Peak.of(x, y, -1.0)], factors, tails):
        sigma = factor * top.half
        shift = sigma * np.tan(np.pi * gamma / (4 - 2 * gamma))
        candidates.append({"center": top.center + shift, "sigma": sigma, "gamma": gamma})
    return guesses.best(line, y, candidates)


def damped_oscillator(x, y):
    """By a parabola in x² through A²/y² = 1 + (4σ² − 2)z² + z⁴, or from half of the width, √3 σμ."""

    def line(center, sigma):
        z = x / center
        return 1 / np.hypot(1 - z * z, 2 * sigma * z)

    found = Peak.of(x, y)
    place = max(abs(found.center), 1e-3 * np.ptp(x))
    candidates = [{"center": place, "sigma": found.half / (np.sqrt(3) * place)}]
    unit, sizes = np.abs(x).max(), np.abs(y) / (np.abs(y).max() or 1.0)
    powers = np.power.outer(np.square(x / unit), [0, 1, 2])
    one, square, fourth = np.linalg.lstsq(sizes[:, None] ** 3 * powers, sizes)[0]
    if one > 0 and fourth > 0:
        sigma = np.sqrt(max((square / np.sqrt(one * fourth) + 2) / 4, 1e-6))
        candidates.append({"center": unit * (one / fourth) ** 0.25, "sigma": sigma})
    return guesses.best(line, y, candidates)


def damped_harmonic_oscillator(x, y):
    found = Peak.of(x, y)
    center, gamma = abs(found.center), 1.0
    share = max(-np.expm1(-center / gamma), 1e-3)
    return {
        "amplitude": np.pi * found.half * found.height * share,
        "center": center,
        "sigma": found.half,
        "gamma": gamma,
    }


def thermal(offset):
    """Return a guess by a line through log(1/y − offset), with the center at the mean of x."""

    def guess(x, y):
        kept = y != 0
        x, y = x[kept], 1 / y[kept] - offset
        kept = y > 0
        if np.unique(x[kept]).size < 2:
            return {"amplitude": 1.0, "center": x.mean(), "kt": np.ptp(x) / 10}
        weights = 1 / (np.abs(y[kept]) + 1)  # 1/y is rough where y is nearly zero
        slope, intercept = np.polyfit(x[kept], np.log(y[kept]), 1, w=weights)
        center = x[kept].mean()
        return {"amplitude": np.exp(intercept + slope * center), "center": center, "kt": 1 / slope}

    return guess


def gaussian_2d(x, z):
    """From the largest value, and a sixth of the range of each array."""
    first, second = x
    sign = -1.0 if np.median(z) - z.min() > z.max() - np.median(z) else 1.0
    top, height = int(np.argmax(sign * z)), sign * (np.max(sign * z) - np.quantile(sign * z, 0.1))
    widths = np.ptp(first) / 6, np.ptp(second) / 6
    amplitude = 2 * np.pi * height * widths[0] * widths[1]
    places = {"centerx": first[top], "centery": second[top], "sigmax": widths[0], "sigmay": widths[1]}
    return {"amplitude": amplitude, **places}


def spline(places):
    """Return a guess by the data near each place."""

    def guess(x, y):
        values = np.interp(places, *guesses.smoothed(x, y))
        return {f"s{k}": value for k, value in enumerate(values)}

    return guess
