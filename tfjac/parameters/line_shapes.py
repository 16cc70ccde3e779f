"""Lines of spectra and other peaks, for `tfjac.models`, by TensorFlow's functions, with lmfit's parameters."""

import math

import tensorflow as tf

from tfjac.parameters.shapes import gaussian, not_zero, positive_width
from tfjac.parameters.special import erfcx, log_gamma_ratio, voigt_function


def voigt(x, amplitude=1.0, center=0.0, sigma=1.0, gamma=1.0):
    """A Re w(z)/(σ√2π) with z = (x − μ + iγ)/(σ√2): a Gaussian convolved with a Lorentzian of half width γ."""
    width = math.sqrt(2) * positive_width(sigma)
    return amplitude / math.sqrt(math.pi) * voigt_function(x - center, gamma, width)


def moffat(x, amplitude=1.0, center=0.0, sigma=1.0, beta=1.0):
    """A (1 + z²)^−β with z = (x − μ)/σ; the amplitude is the height."""
    return amplitude * tf.pow(1 + tf.square((x - center) / positive_width(sigma)), -beta)


def pearson4(x, amplitude=1.0, center=0.0, sigma=1.0, expon=1.5, skew=0.0):
    """A |Γ(m + iν/2)/Γ(m)|²/(σ B(m − ½, ½)) (1 + z²)^−m exp(−ν arctan z) with z = (x − μ)/σ."""
    sigma, expon = positive_width(sigma), positive_width(expon)
    z = (x - center) / sigma
    factor = log_gamma_ratio(expon, skew / 2) - _log_beta(expon)
    return amplitude / sigma * tf.exp(factor - expon * tf.math.log1p(tf.square(z)) - skew * tf.atan(z))


def pearson7(x, amplitude=1.0, center=0.0, sigma=1.0, expon=1.5):
    """A/(σ B(m − ½, ½)) (1 + z²)^−m with z = (x − μ)/σ."""
    sigma = positive_width(sigma)
    z = (x - center) / sigma
    return amplitude / sigma * tf.exp(-_log_beta(expon) - expon * tf.math.log1p(tf.square(z)))


def _log_beta(m):
    """log B(m − ½, ½)."""
    return tf.math.lgamma(m - 0.5) + math.log(math.pi) / 2 - tf.math.lgamma(m)


def students_t(x, amplitude=1.0, center=0.0, sigma=1.0):
    """A Γ(s)/(√(πσ) Γ(σ/2)) (1 + (x − μ)²/σ)^−s with s = (σ + 1)/2."""
    sigma = positive_width(sigma)
    s = (sigma + 1) / 2
    factor = tf.math.lgamma(s) - tf.math.lgamma(sigma / 2) - tf.math.log(math.pi * sigma) / 2
    return amplitude * tf.exp(factor - s * tf.math.log1p(tf.square(x - center) / sigma))


def split_lorentzian(x, amplitude=1.0, center=0.0, sigma=1.0, sigma_r=1.0):
    """2A/(π(σ + σᵣ)) / (1 + z²), z = (x − μ)/σ to the left of μ, and over σᵣ to the right."""
    sigma, sigma_r = positive_width(sigma), positive_width(sigma_r)
    z = (x - center) / tf.where(x < center, sigma, sigma_r)
    return 2 / math.pi * amplitude / (sigma + sigma_r) / (1 + tf.square(z))


def breit_wigner(x, amplitude=1.0, center=0.0, sigma=1.0, q=1.0):
    """A (qσ/2 + x − μ)²/((σ/2)² + (x − μ)²), Fano's line."""
    half = positive_width(sigma) / 2
    return amplitude * tf.square(q * half + x - center) / (tf.square(half) + tf.square(x - center))


def lognormal(x, amplitude=1.0, center=0.0, sigma=1.0):
    """A/(xσ√2π) exp(−(log x − μ)²/2σ²), for x > 0."""
    x = positive_width(x)
    return gaussian(tf.math.log(x), amplitude, center, sigma) / x


def exponential_gaussian(x, amplitude=1.0, center=0.0, sigma=1.0, gamma=1.0):
    """Aγ/2 exp(γ(μ − x + γσ²/2)) erfc((μ + γσ² − x)/(σ√2)): a Gaussian convolved with exp(−γt).

    Where the exponential would overflow it is A γ/2 exp(−(x − μ)²/2σ²) erfcx of the same argument.
    """
    sigma = positive_width(sigma)
    shift = gamma * tf.square(sigma)
    z = (center + shift - x) / (math.sqrt(2) * sigma)
    is_left = z > 0
    near = tf.exp(-tf.square((x - center) / sigma) / 2) * erfcx(tf.where(is_left, z, 0.0 * z))
    exponent = tf.where(is_left, 0.0 * z, gamma * (center + shift / 2 - x))
    far = tf.exp(exponent) * tf.math.erfc(tf.where(is_left, 0.0 * z, z))
    return amplitude * gamma / 2 * tf.where(is_left, near, far)


def skewed_gaussian(x, amplitude=1.0, center=0.0, sigma=1.0, gamma=0.0):
    """A Gaussian times 1 + erf(γ(x − μ)/(σ√2))."""
    return _skewed(gaussian(x, amplitude, center, sigma), x, center, sigma, gamma)


def skewed_voigt(x, amplitude=1.0, center=0.0, sigma=1.0, gamma=1.0, skew=0.0):
    """Voigt's profile times 1 + erf(s(x − μ)/(σ√2))."""
    return _skewed(voigt(x, amplitude, center, sigma, gamma), x, center, sigma, skew)


def _skewed(line, x, center, sigma, skew):
    return line * (1 + tf.math.erf(skew * (x - center) / (math.sqrt(2) * positive_width(sigma))))


def doniach(x, amplitude=1.0, center=0.0, sigma=1.0, gamma=0.0):
    """A/σ^(1−γ) cos(πγ/2 + (1 − γ) arctan z)/(1 + z²)^((1−γ)/2) with z = (x − μ)/σ."""
    sigma, rest = positive_width(sigma), 1 - gamma
    wave = tf.cos(math.pi / 2 * gamma + rest * tf.atan((x - center) / sigma))
    return amplitude * wave * tf.pow(tf.square(sigma) + tf.square(x - center), -rest / 2)


def damped_oscillator(x, amplitude=1.0, center=1.0, sigma=0.1):
    """A/√((1 − z²)² + (2σz)²) with z = x/μ: the amplitude of an oscillator that is driven."""
    z = x / positive_width(tf.abs(center))
    return amplitude * tf.math.rsqrt(tf.square(1 - tf.square(z)) + tf.square(2 * sigma * z))


def damped_harmonic_oscillator(x, amplitude=1.0, center=1.0, sigma=1.0, gamma=1.0):
    """Aσ/π (1/((x − μ)² + σ²) − 1/((x + μ)² + σ²))/(1 − exp(−x/γ)); at zero its limit."""
    sigma, gamma, is_zero = positive_width(sigma), positive_width(gamma), tf.equal(x, 0.0)
    size = tf.where(is_zero, tf.ones_like(x), tf.abs(x))
    decay = tf.where(x < 0, tf.exp(-size / gamma), tf.ones_like(x))  # of 1 − exp(−x/γ), which overflows on this side
    ratio = tf.where(is_zero, gamma * tf.ones_like(x), -size * decay / tf.math.expm1(-size / gamma))
    pair = (tf.square(x - center) + tf.square(sigma)) * (tf.square(x + center) + tf.square(sigma))
    return amplitude * sigma / math.pi * 4 * center * ratio / pair


def bose(x, amplitude=1.0, center=0.0, kt=1.0):
    """1/(A exp((x − μ)/kT) − 1), Bose and Einstein's distribution."""
    return _thermal(x, amplitude, center, kt, -1.0)


def maxwell(x, amplitude=1.0, center=0.0, kt=1.0):
    """1/(A exp((x − μ)/kT)), Maxwell and Boltzmann's distribution."""
    return _thermal(x, amplitude, center, kt, 0.0)


def fermi(x, amplitude=1.0, center=0.0, kt=1.0):
    """1/(A exp((x − μ)/kT) + 1), Fermi and Dirac's distribution."""
    return _thermal(x, amplitude, center, kt, 1.0)


THERMAL = {"bose": bose, "maxwell": maxwell, "fermi": fermi}


def _thermal(x, amplitude, center, kt, offset):
    below = amplitude * tf.exp(tf.minimum((x - center) / not_zero(kt), tf.constant(700.0, tf.float64))) + offset
    is_pole = tf.equal(below, 0)
    return tf.where(is_pole, tf.zeros_like(below), 1 / tf.where(is_pole, tf.ones_like(below), below))


def gaussian_2d(x, amplitude=1.0, centerx=0.0, centery=0.0, sigmax=1.0, sigmay=1.0):
    """The product of a Gaussian in each of the two arrays of x."""
    first, second = x
    return amplitude * gaussian(first, 1.0, centerx, sigmax) * gaussian(second, 1.0, centery, sigmay)
