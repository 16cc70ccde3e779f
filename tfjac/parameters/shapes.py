"""The curves of `tfjac.models`, by TensorFlow's functions, with lmfit's parameters; their docstrings are the models'.

They are plain functions of tensors, numbers and each other, so that fits know them again.
"""

import math

import tensorflow as tf

from tfjac.parameters.special import erfcx, log_gamma_ratio, voigt_function

_TINY = 1e-15
"""Widths below this count as this, so that a width at its bound of zero is no division by zero."""


def positive_width(sigma):
    """Return the width, at least 1e-15. Its derivative is one there too, so that a fit can leave the bound again."""
    return sigma + tf.stop_gradient(tf.maximum(tf.constant(_TINY, tf.float64) - sigma, 0.0))


def not_zero(scale):
    """Return a scale of either sign; zero counts as 1e-15."""
    return scale + _TINY * tf.cast(tf.equal(scale, 0.0), tf.float64)


# -------------------------------------------------------------- peaks


def gaussian(x, amplitude=1.0, center=0.0, sigma=1.0):
    """A Gaussian peak of area `amplitude`, at `center`, of standard deviation `sigma`; `fwhm` and `height` follow.

    amplitude/(sigma √2π) exp(−(x − center)²/2 sigma²)
    """
    sigma = positive_width(sigma)
    return amplitude / (math.sqrt(2 * math.pi) * sigma) * tf.exp(-tf.square((x - center) / sigma) / 2)


def lorentzian(x, amplitude=1.0, center=0.0, sigma=1.0):
    """A Lorentzian peak of area `amplitude`, at `center`, of half width `sigma`; `fwhm` and `height` follow.

    amplitude/(π sigma) / (1 + (x − center)²/sigma²)
    """
    sigma = positive_width(sigma)
    return amplitude / (math.pi * sigma) / (1 + tf.square((x - center) / sigma))


def pseudo_voigt(x, amplitude=1.0, center=0.0, sigma=1.0, fraction=0.5):
    """A peak between a Gaussian (`fraction` 0) and a Lorentzian (1), both of half width `sigma`.

    It is cheaper than `voigt`, the convolution of the two.
    """
    bell = gaussian(x, amplitude, center, sigma / math.sqrt(2 * math.log(2)))
    return (1 - fraction) * bell + fraction * lorentzian(x, amplitude, center, sigma)


def voigt(x, amplitude=1.0, center=0.0, sigma=1.0, gamma=1.0):
    """Voigt's profile of area `amplitude`: a Gaussian of standard deviation `sigma`, convolved with a Lorentzian.

    The half width of the Lorentzian is `gamma`. It is tied to be `sigma` unless `parameters(gamma=…)` frees it.
    amplitude/(sigma √2π) Re w((x − center + i gamma)/(sigma √2)), with Faddeeva's w
    """
    width = math.sqrt(2) * positive_width(sigma)
    return amplitude / math.sqrt(math.pi) * voigt_function(x - center, gamma, width)


def skewed_voigt(x, amplitude=1.0, center=0.0, sigma=1.0, gamma=1.0, skew=0.0):
    """Voigt's profile times 1 + erf(skew (x − center)/(sigma √2)); a tail to the right for positive `skew`."""
    return _skewed(voigt(x, amplitude, center, sigma, gamma), x, center, sigma, skew)


def skewed_gaussian(x, amplitude=1.0, center=0.0, sigma=1.0, gamma=0.0):
    """A Gaussian times 1 + erf(gamma (x − center)/(sigma √2)); a tail to the right for positive `gamma`."""
    return _skewed(gaussian(x, amplitude, center, sigma), x, center, sigma, gamma)


def _skewed(line, x, center, sigma, skew):
    return line * (1 + tf.math.erf(skew * (x - center) / (math.sqrt(2) * positive_width(sigma))))


def exponential_gaussian(x, amplitude=1.0, center=0.0, sigma=1.0, gamma=1.0):
    """A Gaussian convolved with a decay exp(−gamma t), of area `amplitude`: a peak with a tail to the right.

    amplitude gamma/2 exp(gamma (center − x + gamma sigma²/2)) erfc((center + gamma sigma² − x)/(sigma √2)). Where the
    exponential would overflow it is amplitude gamma/2 exp(−(x − center)²/2 sigma²) erfcx of the same argument.
    """
    sigma = positive_width(sigma)
    shift = gamma * tf.square(sigma)
    z = (center + shift - x) / (math.sqrt(2) * sigma)
    is_left = z > 0
    near = tf.exp(-tf.square((x - center) / sigma) / 2) * erfcx(tf.where(is_left, z, 0.0 * z))
    exponent = tf.where(is_left, 0.0 * z, gamma * (center + shift / 2 - x))
    far = tf.exp(exponent) * tf.math.erfc(tf.where(is_left, 0.0 * z, z))
    return amplitude * gamma / 2 * tf.where(is_left, near, far)


def moffat(x, amplitude=1.0, center=0.0, sigma=1.0, beta=1.0):
    """A peak of height `amplitude`: amplitude/(1 + z²)^beta, z = (x − center)/sigma."""
    return amplitude * tf.pow(1 + tf.square((x - center) / positive_width(sigma)), -beta)


def pearson4(x, amplitude=1.0, center=0.0, sigma=1.0, expon=1.5, skew=0.0):
    """Pearson's distribution IV of area `amplitude`, which is lopsided: `skew` and `expon` say how; `position` follows.

    amplitude |Γ(m + iν/2)/Γ(m)|²/(sigma B(m − ½, ½)) (1 + z²)^−m exp(−ν arctan z) with m = expon and ν = skew
    """
    sigma, expon = positive_width(sigma), positive_width(expon)
    z = (x - center) / sigma
    factor = log_gamma_ratio(expon, skew / 2) - _log_beta(expon)
    return amplitude / sigma * tf.exp(factor - expon * tf.math.log1p(tf.square(z)) - skew * tf.atan(z))


def pearson7(x, amplitude=1.0, center=0.0, sigma=1.0, expon=1.5):
    """Pearson's distribution VII of area `amplitude`: a Lorentzian where `expon` is 1, and a Gaussian far above.

    amplitude/(sigma B(m − ½, ½)) (1 + z²)^−m with z = (x − center)/sigma and m = expon
    """
    sigma = positive_width(sigma)
    z = (x - center) / sigma
    return amplitude / sigma * tf.exp(-_log_beta(expon) - expon * tf.math.log1p(tf.square(z)))


def _log_beta(m):
    """log B(m − ½, ½)."""
    return tf.math.lgamma(m - 0.5) + math.log(math.pi) / 2 - tf.math.lgamma(m)


def students_t(x, amplitude=1.0, center=0.0, sigma=1.0):
    """Student's distribution with `sigma` degrees of freedom, of area `amplitude`, about `center`.

    amplitude Γ(s)/(√(π sigma) Γ(sigma/2)) (1 + (x − center)²/sigma)^−s with s = (sigma + 1)/2
    """
    sigma = positive_width(sigma)
    s = (sigma + 1) / 2
    factor = tf.math.lgamma(s) - tf.math.lgamma(sigma / 2) - tf.math.log(math.pi * sigma) / 2
    return amplitude * tf.exp(factor - s * tf.math.log1p(tf.square(x - center) / sigma))


def split_lorentzian(x, amplitude=1.0, center=0.0, sigma=1.0, sigma_r=1.0):
    """A Lorentzian of area `amplitude`, of half width `sigma` to the left of `center`, and `sigma_r` to the right."""
    sigma, sigma_r = positive_width(sigma), positive_width(sigma_r)
    z = (x - center) / tf.where(x < center, sigma, sigma_r)
    return 2 / math.pi * amplitude / (sigma + sigma_r) / (1 + tf.square(z))


def breit_wigner(x, amplitude=1.0, center=0.0, sigma=1.0, q=1.0):
    """The line of Breit, Wigner and Fano: amplitude (q sigma/2 + x − center)²/((sigma/2)² + (x − center)²)."""
    half = positive_width(sigma) / 2
    return amplitude * tf.square(q * half + x - center) / (tf.square(half) + tf.square(x - center))


def lognormal(x, amplitude=1.0, center=0.0, sigma=1.0):
    """A peak that is a Gaussian in log x, for x > 0: amplitude/(x sigma √2π) exp(−(log x − center)²/2 sigma²)."""
    x = positive_width(x)
    return gaussian(tf.math.log(x), amplitude, center, sigma) / x


def doniach(x, amplitude=1.0, center=0.0, sigma=1.0, gamma=0.0):
    """The lopsided line of Doniach and Šunjić, of photo-emission; a Lorentzian where `gamma` is zero.

    amplitude/sigma^(1−gamma) cos(π gamma/2 + (1 − gamma) arctan z)/(1 + z²)^((1−gamma)/2), z = (x − center)/sigma
    """
    sigma, rest = positive_width(sigma), 1 - gamma
    wave = tf.cos(math.pi / 2 * gamma + rest * tf.atan((x - center) / sigma))
    return amplitude * wave * tf.pow(tf.square(sigma) + tf.square(x - center), -rest / 2)


def damped_oscillator(x, amplitude=1.0, center=1.0, sigma=0.1):
    """The amplitude of a driven oscillator: amplitude/√((1 − z²)² + (2 sigma z)²), z = x/center."""
    z = x / positive_width(tf.abs(center))
    return amplitude * tf.math.rsqrt(tf.square(1 - tf.square(z)) + tf.square(2 * sigma * z))


def damped_harmonic_oscillator(x, amplitude=1.0, center=1.0, sigma=1.0, gamma=1.0):
    """A pair of Lorentzians at ±`center` of half width `sigma`, over 1 − exp(−x/gamma): scattering at a temperature.

    amplitude sigma/π (1/((x − center)² + sigma²) − 1/((x + center)² + sigma²))/(1 − exp(−x/gamma)); at zero its limit
    """
    sigma, gamma, is_zero = positive_width(sigma), positive_width(gamma), tf.equal(x, 0.0)
    size = tf.where(is_zero, tf.ones_like(x), tf.abs(x))
    decay = tf.where(x < 0, tf.exp(-size / gamma), tf.ones_like(x))  # of 1 − exp(−x/γ), which overflows on this side
    ratio = tf.where(is_zero, gamma * tf.ones_like(x), -size * decay / tf.math.expm1(-size / gamma))
    pair = (tf.square(x - center) + tf.square(sigma)) * (tf.square(x + center) + tf.square(sigma))
    return amplitude * sigma / math.pi * 4 * center * ratio / pair


def gaussian_2d(x, amplitude=1.0, centerx=0.0, centery=0.0, sigmax=1.0, sigmay=1.0):
    """A Gaussian of two arrays, of volume `amplitude`: x is the pair of them, `model.fit((x, y), z)`.

    It is the product of a Gaussian in each of the two.
    """
    first, second = x
    return amplitude * gaussian(first, 1.0, centerx, sigmax) * gaussian(second, 1.0, centery, sigmay)


# -------------------------------------------------------------- decays, waves and backgrounds


def exponential(x, amplitude=1.0, decay=1.0):
    """amplitude · exp(−x/decay)."""
    return amplitude * tf.exp(-x / not_zero(decay))


def powerlaw(x, amplitude=1.0, exponent=1.0):
    """amplitude · x^exponent, for x > 0."""
    return amplitude * tf.pow(x, exponent)


def sine(x, amplitude=1.0, frequency=1.0, shift=0.0):
    """amplitude · sin(frequency · x + shift)."""
    return amplitude * tf.sin(frequency * x + shift)


def expsine(x, amplitude=1.0, frequency=1.0, shift=0.0, decay=0.0):
    """amplitude · sin(frequency · x + shift) · exp(−decay · x)."""
    return sine(x, amplitude, frequency, shift) * tf.exp(-decay * x)


def constant(x, c=0.0):
    """A number, `c`."""
    return c * tf.ones_like(x)


def complex_constant(x, re=0.0, im=0.0):
    """A complex number, `re` + i `im`, for complex data."""
    return tf.complex(constant(x, re), constant(x, im))


def linear(x, slope=1.0, intercept=0.0):
    """slope · x + intercept."""
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


# -------------------------------------------------------------- families


RISES = {
    "linear": lambda z: tf.clip_by_value(z + 0.5, tf.zeros_like(z), tf.ones_like(z)),
    "erf": lambda z: (1 + tf.math.erf(z)) / 2,
    "logistic": tf.sigmoid,
    "arctan": lambda z: 0.5 + tf.atan(z) / math.pi,
}
RISES["atan"] = RISES["arctan"]
"""Steps from 0 to 1 about z = 0."""


def step(form):
    """Return a step by one of `RISES`; it falls where sigma is negative."""
    rise = RISES[form]

    def of_form(x, amplitude=1.0, center=0.0, sigma=1.0):
        return amplitude * rise((x - center) / not_zero(sigma))

    return of_form


def rectangle(form):
    """Return a step up and a step down by one of `RISES`; linear ones are twice as wide as those of `step`."""
    rise, factor = RISES[form], 0.5 if form == "linear" else 1.0

    def of_form(x, amplitude=1.0, center1=0.0, sigma1=1.0, center2=1.0, sigma2=1.0):
        up, down = (x - center1) / positive_width(sigma1), (center2 - x) / positive_width(sigma2)
        return amplitude * (rise(factor * up) + rise(factor * down) - 1)

    return of_form


THERMAL = {"bose": -1.0, "maxwell": 0.0, "fermi": 1.0}
"""Offsets of `thermal`."""


def thermal(offset):
    """Return 1/(A exp((x − μ)/kT) + offset); zero at its pole."""

    def of_form(x, amplitude=1.0, center=0.0, kt=1.0):
        exponent = tf.minimum((x - center) / not_zero(kt), tf.constant(700.0, tf.float64))
        return tf.math.reciprocal_no_nan(amplitude * tf.exp(exponent) + offset)

    return of_form
