"""Values to start from, read off data: functions of x and y, NumPy, to a dict of numbers by the names of a shape."""

from typing import NamedTuple

import numpy as np


def peak(area, width):
    """Return a guess of a peak whose amplitude is an area.

    Args:
        area: amplitude over height times half the width at half maximum.
        width: sigma over half the width at half maximum.
    """

    def guess(x, y):
        found = Peak.of(x, y)
        return {"amplitude": area * found.height * found.half, "center": found.center, "sigma": width * found.half}

    return guess


class Peak(NamedTuple):
    """What can be read off a peak, or a dip: its height is negative.

    Attributes:
        center: where its top is.
        height: of the top above the floor.
        half: half of its width at half of its height.
        left, right: the same to each side.
        top: y there.
    """

    center: float
    height: float
    half: float
    left: float
    right: float
    top: float

    @classmethod
    def of(cls, x, y, sign=None):
        """Read it off data; `sign` is −1 for a dip, 1 for a peak, and read off where left out."""
        x, y = smoothed(x, y)
        sign = sign or (-1.0 if _is_dip(y) else 1.0)
        y = sign * y
        top, floor = int(np.argmax(y)), np.quantile(y, 0.1)
        below = x[y <= (y[top] + floor) / 2] - x[top]
        left, right = np.min(-below[below < 0], initial=np.inf), np.min(below[below > 0], initial=np.inf)
        half = min(left, right)  # of the nearer side: another peak may be on the other
        half = half if np.isfinite(half) else np.ptp(x) / 2
        left, right = (side if np.isfinite(side) else half for side in (left, right))
        return cls(x[top], sign * (y[top] - floor), half, left, right, sign * y[top])


def _is_dip(y):
    """Return whether y reaches clearly farther below what it is at both ends than above it."""
    margin = max(1, y.size // 10)
    level = np.median(np.r_[y[:margin], y[-margin:]])
    return level - y.min() > 1.5 * (y.max() - level)


def smoothed(x, y):
    """Return the data in the order of x, y a running mean over about a fiftieth of them."""
    order = np.argsort(x)
    x, y = x[order], y[order]
    size = max(1, x.size // 50) | 1
    padded = np.pad(y, size // 2, mode="edge")
    return x, np.convolve(padded, np.ones(size) / size, mode="valid")


def best(line, y, candidates):
    """Return the guess whose curve is nearest to y, its amplitude by linear least squares.

    Args:
        line: function of the other parameters to the curve of amplitude one.
        y: array.
        candidates: dicts of the other parameters.
    """

    def fitted(given):
        with np.errstate(all="ignore"):
            curve = line(**given)
            amplitude = np.nan_to_num(curve @ y / (curve @ curve))
            return np.sum(np.square(y - amplitude * curve)), {"amplitude": amplitude, **given}

    found = [fitted(each) for each in candidates]
    return min(found, key=lambda each: each[0] if np.isfinite(each[0]) else np.inf)[1]


def complex_constant(x, y):
    return {"re": y.real.mean(), "im": y.imag.mean()}


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


def expsine(x, y):
    """As a sine; the decay from the sizes of both halves."""
    order = np.argsort(x)
    first, second = np.array_split(np.abs(y[order] - y.mean()), 2)
    decay = 2 * np.log(max(first.mean(), 1e-300) / max(second.mean(), 1e-300)) / np.ptp(x)
    found = sine(x, y * np.exp(np.clip(decay * (x - x.min()), -50, 50)))
    return {**found, "amplitude": found["amplitude"] * np.exp(np.clip(decay * x.min(), -50, 50)), "decay": decay}


def rectangle(x, y):
    """Where y is above half of its height."""
    found = Peak.of(x, y)
    sign = np.sign(found.height)
    inside = x[sign * y >= sign * (found.top - found.height / 2)]
    width = np.ptp(x) / 20
    ends = {"center1": inside.min(), "sigma1": width, "center2": inside.max(), "sigma2": width}
    return {"amplitude": found.height, **ends}
