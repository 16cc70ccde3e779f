"""The curves of `tfjac.models`, by TensorFlow's functions. Amplitudes of peaks are areas, as in lmfit."""

import math

import tensorflow as tf

_TINY = 1e-15
"""Widths below this count as this, so that a width at its bound of zero is no division by zero."""


def positive_width(sigma):
    """Return the width, at least 1e-15. Its derivative is one there too, so that a fit can leave the bound again."""
    return sigma + tf.stop_gradient(tf.maximum(tf.constant(_TINY, tf.float64) - sigma, 0.0))


def not_zero(scale):
    """Return a scale of either sign; zero counts as 1e-15."""
    return scale + _TINY * tf.cast(tf.equal(scale, 0.0), tf.float64)


def gaussian(x, amplitude=1.0, center=0.0, sigma=1.0):
    """A/(σ√2π) exp(−(x − μ)²/2σ²)."""
    sigma = positive_width(sigma)
    return amplitude / (math.sqrt(2 * math.pi) * sigma) * tf.exp(-tf.square((x - center) / sigma) / 2)


def lorentzian(x, amplitude=1.0, center=0.0, sigma=1.0):
    """A/(πσ) / (1 + (x − μ)²/σ²)."""
    sigma = positive_width(sigma)
    return amplitude / (math.pi * sigma) / (1 + tf.square((x - center) / sigma))


def pseudo_voigt(x, amplitude=1.0, center=0.0, sigma=1.0, fraction=0.5):
    """(1 − α) of a Gaussian and α of a Lorentzian, both of half width σ at half maximum."""
    bell = gaussian(x, amplitude, center, sigma / math.sqrt(2 * math.log(2)))
    return (1 - fraction) * bell + fraction * lorentzian(x, amplitude, center, sigma)


def exponential(x, amplitude=1.0, decay=1.0):
    """A exp(−x/τ)."""
    return amplitude * tf.exp(-x / not_zero(decay))


def powerlaw(x, amplitude=1.0, exponent=1.0):
    """A xᵏ."""
    return amplitude * tf.pow(x, exponent)


def sine(x, amplitude=1.0, frequency=1.0, shift=0.0):
    """A sin(ωx + φ)."""
    return amplitude * tf.sin(frequency * x + shift)


def constant(x, c=0.0):
    """c."""
    return c * tf.ones_like(x)


def linear(x, slope=1.0, intercept=0.0):
    """Slope times x, and intercept."""
    return slope * x + intercept


def quadratic(x, a=0.0, b=0.0, c=0.0):
    """a x² + b x + c."""
    return (a * x + b) * x + c


def polynomial(x, **coefficients):
    """c0 + c1 x + c2 x² + …."""
    total = tf.zeros_like(x)
    for k in range(len(coefficients) - 1, -1, -1):
        total = total * x + coefficients[f"c{k}"]
    return total


def linear_step(x, amplitude=1.0, center=0.0, sigma=1.0):
    """A min(1, max(0, z + ½)) with z = (x − μ)/σ: a step that falls where σ is negative. So are the next three."""
    return amplitude * tf.clip_by_value((x - center) / not_zero(sigma) + 0.5, tf.zeros_like(x), tf.ones_like(x))


def erf_step(x, amplitude=1.0, center=0.0, sigma=1.0):
    """A (1 + erf z)/2."""
    return amplitude * (1 + tf.math.erf((x - center) / not_zero(sigma))) / 2


def logistic_step(x, amplitude=1.0, center=0.0, sigma=1.0):
    """A/(1 + exp(−z))."""
    return amplitude * tf.sigmoid((x - center) / not_zero(sigma))


def arctan_step(x, amplitude=1.0, center=0.0, sigma=1.0):
    """A (½ + arctan(z)/π)."""
    return amplitude * (0.5 + tf.atan((x - center) / not_zero(sigma)) / math.pi)


def linear_rectangle(x, amplitude=1.0, center1=0.0, sigma1=1.0, center2=1.0, sigma2=1.0):
    """A/2 (z₁ + z₂), each cut off at ±1, with z₁ = (x − μ₁)/σ₁ and z₂ = (μ₂ − x)/σ₂. So are the next three."""
    up, down = _sides(x, center1, sigma1, center2, sigma2)
    one = tf.ones_like(x)
    return amplitude / 2 * (tf.clip_by_value(up, -one, one) + tf.clip_by_value(down, -one, one))


def erf_rectangle(x, amplitude=1.0, center1=0.0, sigma1=1.0, center2=1.0, sigma2=1.0):
    """A (erf z₁ + erf z₂)/2."""
    up, down = _sides(x, center1, sigma1, center2, sigma2)
    return amplitude / 2 * (tf.math.erf(up) + tf.math.erf(down))


def logistic_rectangle(x, amplitude=1.0, center1=0.0, sigma1=1.0, center2=1.0, sigma2=1.0):
    """A (1/(1 + exp(−z₁)) + 1/(1 + exp(−z₂)) − 1)."""
    up, down = _sides(x, center1, sigma1, center2, sigma2)
    return amplitude * (tf.sigmoid(up) + tf.sigmoid(down) - 1)


def arctan_rectangle(x, amplitude=1.0, center1=0.0, sigma1=1.0, center2=1.0, sigma2=1.0):
    """A (arctan z₁ + arctan z₂)/π."""
    up, down = _sides(x, center1, sigma1, center2, sigma2)
    return amplitude / math.pi * (tf.atan(up) + tf.atan(down))


def _sides(x, center1, sigma1, center2, sigma2):
    return (x - center1) / positive_width(sigma1), (center2 - x) / positive_width(sigma2)


def expsine(x, amplitude=1.0, frequency=1.0, shift=0.0, decay=0.0):
    """A sin(ωx + φ) exp(−δx)."""
    return sine(x, amplitude, frequency, shift) * tf.exp(-decay * x)


def complex_constant(x, re=0.0, im=0.0):
    """re + i·im."""
    return tf.complex(constant(x, re), constant(x, im))


STEPS = {
    "linear": linear_step, "erf": erf_step, "logistic": logistic_step, "arctan": arctan_step, "atan": arctan_step,
}  # fmt: skip
RECTANGLES = {
    "linear": linear_rectangle, "erf": erf_rectangle, "logistic": logistic_rectangle, "arctan": arctan_rectangle,
    "atan": arctan_rectangle,
}  # fmt: skip
