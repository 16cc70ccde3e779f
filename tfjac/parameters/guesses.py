"""Values to start from, read off data: functions of x, in order, and y, NumPy, to a dict of numbers by name."""

import functools
import itertools
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from tfjac.parameters import shapes


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
        y = smoothed(y)
        sign = sign or (-1.0 if _is_dip(y) else 1.0)
        y = sign * y
        top, floor = int(np.argmax(y)), np.quantile(y, 0.1)
        below = x[y <= (y[top] + floor) / 2] - x[top]
        left, right = np.min(-below[below < 0], initial=np.inf), np.min(below[below > 0], initial=np.inf)
        half = min(left, right)  # of the nearer side: another peak may be on the other
        half = half if np.isfinite(half) else extent(x) / 2
        left, right = (side if np.isfinite(side) else half for side in (left, right))
        return cls(x[top], sign * (y[top] - floor), half, left, right, sign * y[top])


def _is_dip(y):
    """Return whether y reaches clearly farther below what it is at both ends than above it."""
    margin = max(1, y.size // 10)
    level = np.median(np.r_[y[:margin], y[-margin:]])
    return level - y.min() > 1.5 * (y.max() - level)


def extent(x):
    """Return the length that x covers; one if that is a single place."""
    return np.ptp(x) or 1.0


def smoothed(y):
    """Return a running mean over about a fiftieth of the data."""
    size = max(1, y.size // 50) | 1
    padded = np.pad(y, size // 2, mode="edge")
    return np.convolve(padded, np.ones(size) / size, mode="valid")


def best(shape, x, y, candidates):
    """Return the guess whose curve is nearest to y, its amplitude by linear least squares.

    Args:
        shape: one of `shapes`.
        x, y: arrays.
        candidates: list of dicts of the parameters but `amplitude`.
    """
    columns = {name: tf.constant([[each[name]] for each in candidates], tf.float64) for name in candidates[0]}
    curves = shape(tf.constant(x), tf.ones([], tf.float64), **columns).numpy()
    with np.errstate(all="ignore"):
        amplitudes = np.nan_to_num(curves @ y / np.sum(np.square(curves), axis=1))
        left = np.sum(np.square(y - amplitudes[:, None] * curves), axis=1)
    k = int(np.argmin(np.where(np.isfinite(left), left, np.inf)))
    return {"amplitude": amplitudes[k], **candidates[k]}


# -------------------------------------------------------------- peaks


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
    nearest = sigma[np.argmin(np.abs(np.sqrt(sigma * (2 ** (2 / (sigma + 1)) - 1)) - found.half))]
    height = shapes.students_t(tf.zeros([], tf.float64), sigma=tf.constant(nearest)).numpy()
    return {"amplitude": found.height / height, "center": found.center, "sigma": nearest}


def breit_wigner(x, y):
    """The best of some widths about the largest and the least value; A, A(q² − 1) and 2Aq by linear least squares."""
    y, candidates = smoothed(y), []
    widths = extent(x) * np.geomspace(1 / x.size, 1 / 3, 12)
    for center, sigma in itertools.product(_centers(x, y), widths):
        z = 2 * (x - center) / sigma
        resonance = 1 / (1 + z * z)
        level, even, odd = np.linalg.lstsq(np.stack([np.ones_like(z), resonance, z * resonance], axis=1), y)[0]
        root = np.emath.sqrt((even + 1j * odd) / (level or 1.0))  # q + i
        candidates.append({"center": center, "sigma": sigma, "q": root.real / (root.imag or 1.0)})
    return best(shapes.breit_wigner, x, y, candidates)


def _centers(x, y):
    """Return the places of the largest and the least value, and some between them."""
    high, low = x[np.argmax(y)], x[np.argmin(y)]
    return high + np.array([0.0, 0.1, 0.25, 0.5, 0.75, 1.0]) * (low - high)


def lognormal(x, y):
    """As a Gaussian of log x, of xy; its width also by a parabola through log |xy|, where y is large."""
    x, y = x[x > 0], smoothed(y[x > 0])
    found = Peak.of(np.log(x), x * y)
    candidates = [{"center": found.center, "sigma": found.half / np.sqrt(2 * np.log(2))}]
    large = np.abs(y) > 0.2 * np.abs(y).max()
    columns = np.vander(np.log(x[large]), 3) * np.abs(y[large, None])
    curvature, slope, _ = np.linalg.lstsq(columns, np.log(np.abs(x * y)[large]) * np.abs(y[large]))[0]
    if curvature < 0:
        candidates.append({"center": -slope / (2 * curvature), "sigma": 1 / np.sqrt(-2 * curvature)})
    return best(shapes.lognormal, x, y, candidates)


def exponential_gaussian(x, y):
    """As a Gaussian as wide as its steeper side, and an exponential about as wide."""
    found = Peak.of(x, y)
    sigma = found.half / np.sqrt(2 * np.log(2))
    tail = max(found.right - found.left, 0.3 * found.half)
    area = np.sqrt(2 * np.pi) * found.height * (found.left + found.right) / 2 / np.sqrt(2 * np.log(2))
    return {"amplitude": area, "center": found.center - tail / 2, "sigma": sigma, "gamma": min(1 / tail, 19.0)}


def skewed_gaussian(x, y):
    """The best of some skews, with the top and the width of the line where the data have theirs."""
    found, candidates = Peak.of(x, y), []
    for skew, own in _skewed_peaks():
        sigma = (found.left + found.right) / (own.left + own.right)
        candidates.append({"center": found.center - sigma * own.center, "sigma": sigma, "gamma": skew})
    return best(shapes.skewed_gaussian, x, y, candidates)


@functools.cache
def _skewed_peaks():
    """Return pairs of a skew and the `Peak` of the line of center 0 and sigma 1."""
    unit, skews = np.linspace(-4, 4, 401), (-3.0, -1.0, -0.3, 0.3, 1.0, 3.0)
    lines = [shapes.skewed_gaussian(tf.constant(unit), gamma=skew).numpy() for skew in skews]
    return [(skew, Peak.of(unit, line)) for skew, line in zip(skews, lines)]


def doniach(x, y):
    """The best of some widths and tails, each with its top, at z = −tan(πγ/(4 − 2γ)), where the data have theirs."""
    candidates = []
    tails, factors = (0.0, 0.2, 0.4, 0.6, 0.8, 0.9), (0.25, 0.5, 1.0)
    for top, factor, gamma in itertools.product([Peak.of(x, y, 1.0), Peak.of(x, y, -1.0)], factors, tails):
        sigma = factor * top.half
        shift = sigma * np.tan(np.pi * gamma / (4 - 2 * gamma))
        candidates.append({"center": top.center + shift, "sigma": sigma, "gamma": gamma})
    return best(shapes.doniach, x, y, candidates)


def damped_oscillator(x, y):
    """By a parabola in x² through A²/y² = 1 + (4σ² − 2)z² + z⁴, or from half of the width, √3 σμ."""
    found = Peak.of(x, y)
    place = max(abs(found.center), 1e-3 * extent(x))
    candidates = [{"center": place, "sigma": found.half / (np.sqrt(3) * place)}]
    unit, sizes = np.abs(x).max(), np.abs(y) / (np.abs(y).max() or 1.0)
    powers = np.power.outer(np.square(x / unit), [0, 1, 2])
    one, square, fourth = np.linalg.lstsq(sizes[:, None] ** 3 * powers, sizes)[0]
    if one > 0 and fourth > 0:
        sigma = np.sqrt(max((square / np.sqrt(one * fourth) + 2) / 4, 1e-6))
        candidates.append({"center": unit * (one / fourth) ** 0.25, "sigma": sigma})
    return best(shapes.damped_oscillator, x, y, candidates)


def damped_harmonic_oscillator(x, y):
    found = Peak.of(x, y)
    center = abs(found.center)
    area = np.pi * found.half * found.height * max(-np.expm1(-center), 1e-3)
    return {"amplitude": area, "center": center, "sigma": found.half, "gamma": 1.0}


def gaussian_2d(x, z):
    """From the largest value, and a sixth of the range of each array."""
    first, second = x
    sign = -1.0 if np.median(z) - z.min() > z.max() - np.median(z) else 1.0
    top, height = int(np.argmax(sign * z)), sign * (np.max(sign * z) - np.quantile(sign * z, 0.1))
    widths = extent(first) / 6, extent(second) / 6
    amplitude = 2 * np.pi * height * widths[0] * widths[1]
    places = {"centerx": first[top], "centery": second[top], "sigmax": widths[0], "sigmay": widths[1]}
    return {"amplitude": amplitude, **places}


# -------------------------------------------------------------- decays, waves and backgrounds


def complex_constant(x, y):
    return {"re": y.real.mean(), "im": y.imag.mean()}


def polynomial(*names):
    """Return a guess of a polynomial, the names of its coefficients from the highest power down."""

    def guess(x, y):
        found = np.polyfit(x, y, min(len(names), np.unique(x).size) - 1)
        return dict.fromkeys(names, 0.0) | dict(zip(names[::-1], found[::-1]))

    return guess


def exponential(x, y):
    """By a line through log|y|."""
    slope, intercept = np.polyfit(x, np.log(np.abs(y) + 1e-15 + 1e-9 * np.abs(y).max()), 1)
    sign = 1.0 if np.median(y) >= 0 else -1.0
    return {"amplitude": sign * np.exp(intercept), "decay": -1 / slope if slope else extent(x)}


def powerlaw(x, y):
    """By a line through log|y| over log x."""
    kept = (x > 0) & (y != 0)
    if np.unique(x[kept]).size < 2:
        return {"amplitude": y.mean(), "exponent": 1.0}
    slope, intercept = np.polyfit(np.log(x[kept]), np.log(np.abs(y[kept])), 1)
    return {"amplitude": np.sign(np.median(y[kept])) * np.exp(intercept), "exponent": slope}


def step(x, y):
    part = max(1, x.size // 5)
    rises = y[:part].mean() <= y[-part:].mean()
    width = (0.1 if rises else -0.1) * extent(x)
    return {"amplitude": np.ptp(y), "center": (x[0] + x[-1]) / 2, "sigma": width}


def sine(x, y):
    """By the largest part of the Fourier transform, for x at equal distances; the best of some phases."""
    y = y - y.mean()
    spectrum = np.abs(np.fft.rfft(y))
    top = 1 + int(np.argmax(spectrum[1:])) if spectrum.size > 1 else 0
    frequency = 2 * np.pi * np.fft.rfftfreq(x.size, extent(x) / max(x.size - 1, 1))[top]
    waves = np.stack([np.sin(frequency * x), np.cos(frequency * x)], axis=1)
    along, across = np.linalg.lstsq(waves, y, rcond=None)[0]
    return {"amplitude": np.hypot(along, across), "frequency": frequency, "shift": np.arctan2(across, along)}


def expsine(x, y):
    """As a sine; the decay from the sizes of both halves."""
    sizes, half = np.abs(y - y.mean()), (y.size + 1) // 2
    first, second = sizes[:half], sizes[-half:]
    decay = 2 * np.log(max(first.mean(), 1e-300) / max(second.mean(), 1e-300)) / extent(x)
    found = sine(x, y * np.exp(np.clip(decay * (x - x.min()), -50, 50)))
    return {**found, "amplitude": found["amplitude"] * np.exp(np.clip(decay * x.min(), -50, 50)), "decay": decay}


def rectangle(x, y):
    """Where y is above half of its height."""
    found = Peak.of(x, y)
    sign = np.sign(found.height)
    inside = x[sign * y >= sign * (found.top - found.height / 2)]
    width = extent(x) / 20
    ends = {"center1": inside.min(), "sigma1": width, "center2": inside.max(), "sigma2": width}
    return {"amplitude": found.height, **ends}


def thermal(offset):
    """Return a guess by a line through log(1/y − offset), with the center at the mean of x."""

    def guess(x, y):
        kept = y != 0
        x, y = x[kept], 1 / y[kept] - offset
        kept = y > 0
        if np.unique(x[kept]).size < 2:
            return {"amplitude": 1.0, "center": x.mean(), "kt": extent(x) / 10}
        weights = 1 / (np.abs(y[kept]) + 1)  # 1/y is rough where y is nearly zero
        slope, intercept = np.polyfit(x[kept], np.log(y[kept]), 1, w=weights)
        center = x[kept].mean()
        return {"amplitude": np.exp(intercept + slope * center), "center": center, "kt": 1 / slope}

    return guess


def spline(places):
    """Return a guess by the data near each place."""

    def guess(x, y):
        values = np.interp(places, x, smoothed(y))
        return {f"s{k}": value for k, value in enumerate(values)}

    return guess
