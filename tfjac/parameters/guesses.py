"""Values to start from, read off data: functions of x and y, NumPy, to a dict of numbers by the names of a shape."""

import numpy as np


def peak(area, width):
    """Return a guess of a peak.

    Args:
        area: amplitude over height times half the width at half maximum.
        width: sigma over half the width at half maximum.
    """

    def guess(x, y):
        x, y = _smoothed(x, y)
        sign = -1.0 if _is_dip(y) else 1.0
        y = sign * y
        top, floor = int(np.argmax(y)), np.quantile(y, 0.1)
        below = np.flatnonzero(y <= (y[top] + floor) / 2)
        reach = np.abs(x[below] - x[top])
        half = reach.min() if reach.size else np.ptp(x) / 2  # to the nearer side: another peak may be on the other
        height = y[top] - floor
        return {"amplitude": sign * area * height * half, "center": x[top], "sigma": width * half}

    return guess


def _is_dip(y):
    """Return whether y reaches clearly farther below what it is at both ends than above it."""
    margin = max(1, y.size // 10)
    level = np.median(np.r_[y[:margin], y[-margin:]])
    return level - y.min() > 1.5 * (y.max() - level)


def _smoothed(x, y):
    """Return the data in the order of x, y a running mean over about a fiftieth of them."""
    order = np.argsort(x)
    x, y = x[order], y[order]
    size = max(1, x.size // 50) | 1
    padded = np.pad(y, size // 2, mode="edge")
    return x, np.convolve(padded, np.ones(size) / size, mode="valid")


def constant(x, y):
    return {"c": y.mean()}


def linear(x, y):
    slope, intercept = np.polyfit(x, y, 1) if x.size > 1 else (0.0, y.mean())
    return {"slope": slope, "intercept": intercept}


def quadratic(x, y):
    return dict(zip("cba", np.polyfit(x, y, min(2, x.size - 1))[::-1]))


def polynomial(degree):
    def guess(x, y):
        return {f"c{k}": value for k, value in enumerate(np.polyfit(x, y, degree)[::-1])}

    return guess


def exponential(x, y):
    """By a line through log|y|."""
    slope, intercept = np.polyfit(x, np.log(np.abs(y) + 1e-15 + 1e-9 * np.abs(y).max()), 1)
    sign = 1.0 if np.median(y) >= 0 else -1.0
    return {"amplitude": sign * np.exp(intercept), "decay": -1 / slope if slope else np.ptp(x)}


def powerlaw(x, y):
    """By a line through log|y| over log x."""
    kept = (x > 0) & (y != 0)
    if kept.sum() < 2:
        return {"amplitude": y.mean(), "exponent": 1.0}
    slope, intercept = np.polyfit(np.log(x[kept]), np.log(np.abs(y[kept])), 1)
    return {"amplitude": np.sign(np.median(y[kept])) * np.exp(intercept), "exponent": slope}


def step(x, y):
    order = np.argsort(x)
    x, y = x[order], y[order]
    part = max(1, x.size // 5)
    rises = y[:part].mean() <= y[-part:].mean()
    width = (0.1 if rises else -0.1) * np.ptp(x)
    return {"amplitude": np.ptp(y), "center": (x[0] + x[-1]) / 2, "sigma": width}


def sine(x, y):
    """By the largest part of the Fourier transform, for x at equal distances; the best of some phases."""
    order = np.argsort(x)
    x, y = x[order], y[order] - y.mean()
    spectrum = np.abs(np.fft.rfft(y))
    top = 1 + int(np.argmax(spectrum[1:])) if spectrum.size > 1 else 0
    frequency = 2 * np.pi * np.fft.rfftfreq(x.size, np.ptp(x) / max(x.size - 1, 1))[top]
    waves = np.stack([np.sin(frequency * x), np.cos(frequency * x)], axis=1)
    along, across = np.linalg.lstsq(waves, y, rcond=None)[0]
    return {"amplitude": np.hypot(along, across), "frequency": frequency, "shift": np.arctan2(across, along)}
