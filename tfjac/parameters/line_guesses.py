"""Values to start from for lines of spectra: functions of x and y, NumPy, to a dict of numbers by name."""

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
    """From its level far away A, its largest value A(1 + q²) at μ + σ/2q, and its least one at μ − qσ/2."""
    order = np.argsort(x)
    x, y = x[order], y[order]
    margin = max(1, y.size // 20)
    level, high, low = np.median(np.r_[y[:margin], y[-margin:]]), int(np.argmax(y)), int(np.argmin(y))
    amplitude = level if level > 0 else np.ptp(y) / 2
    size = np.clip(np.sqrt(max(y[high] / amplitude - 1, 0)), 0.1, 10)
    q = size if x[high] >= x[low] else -size
    sigma = 2 * abs(x[high] - x[low]) / (size + 1 / size)
    return {"amplitude": amplitude, "center": x[high] - sigma / (2 * q), "sigma": sigma, "q": q}


def lognormal(x, y):
    """As a Gaussian of log x, of xy."""
    kept = x > 0
    found = Peak.of(np.log(x[kept]), x[kept] * y[kept])
    width = found.half / np.sqrt(2 * np.log(2))
    return {"amplitude": np.sqrt(2 * np.pi) * width * found.height, "center": found.center, "sigma": width}


def exponential_gaussian(x, y):
    """As a Gaussian as wide as its steeper side, and an exponential about as wide."""
    found = Peak.of(x, y)
    sigma = found.half / np.sqrt(2 * np.log(2))
    tail = max(found.right - found.left, 0.3 * found.half)
    area = np.sqrt(2 * np.pi) * found.height * (found.left + found.right) / 2 / np.sqrt(2 * np.log(2))
    return {"amplitude": area, "center": found.center - tail / 2, "sigma": sigma, "gamma": min(1 / tail, 19.0)}


def damped_oscillator(x, y):
    """From the height A/2σ, and half of the width, √3 σμ."""
    found = Peak.of(x, y)
    sigma = found.half / max(np.sqrt(3) * abs(found.center), 1e-15)
    return {"amplitude": 2 * sigma * found.top, "center": found.center, "sigma": sigma}


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
