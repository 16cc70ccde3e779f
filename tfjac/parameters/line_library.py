"""Models of lines in spectra, with lmfit's names of parameters, bounds and derived quantities."""

import math
from collections.abc import Mapping
from typing import Any

from tfjac.arguments import choice
from tfjac.parameters import guesses, line_guesses, line_shapes
from tfjac.parameters.model import Model
from tfjac.parameters.model_parts import ready

WIDTH: Mapping[str, Any] = {"sigma": {"min": 0.0}}
_TIED: Mapping[str, Any] = {**WIDTH, "gamma": {"expr": "{sigma}"}}
_VOIGT = 1.0692 + math.sqrt(0.8664 + 5.545083)  # its full width over sigma, where gamma is sigma
_VOIGT_HEIGHT = 0.5231565837 / math.sqrt(2 * math.pi)  # its height times sigma, over the amplitude


def peak(shape: Any, prefix: str, *rest: Any, width: str = "sigma", least: float = 0.25) -> Model:
    """Return a model of a peak, which lies between the data where its width is below `least` of their distance."""
    made = Model(shape, prefix, *rest)
    made.widths = {f"{prefix}{width}": least}
    return made


@ready
def voigt(prefix: str = "") -> Model:
    """Voigt's profile of area `amplitude`: a Gaussian of standard deviation `sigma`, convolved with a Lorentzian.

    The half width of the Lorentzian is `gamma`. It is tied to be `sigma` unless `parameters(gamma=…)` frees it.
    amplitude/(sigma √2π) Re w((x − center + i gamma)/(sigma √2)), with Faddeeva's w
    """
    derived = {
        "fwhm": "1.0692*{gamma}+sqrt(0.8664*{gamma}**2+5.545083*{sigma}**2)",
        "height": "{amplitude}/max(1e-15, {sigma}*sqrt(2*pi))*erfcx({gamma}/max(1e-15, {sigma}*sqrt(2)))",
    }
    guess = guesses.peak(2 / _VOIGT / _VOIGT_HEIGHT, 2 / _VOIGT)
    return peak(line_shapes.voigt, prefix, "voigt", _TIED, derived, guess, width="fwhm", least=0.6)


@ready
def skewed_voigt(prefix: str = "") -> Model:
    """Voigt's profile times 1 + erf(skew (x − center)/(sigma √2)); a tail to the right for positive `skew`."""
    guess = guesses.peak(2 / _VOIGT / _VOIGT_HEIGHT, 2 / _VOIGT)
    return peak(line_shapes.skewed_voigt, prefix, "skewed_voigt", _TIED, None, guess)


@ready
def skewed_gaussian(prefix: str = "") -> Model:
    """A Gaussian times 1 + erf(gamma (x − center)/(sigma √2)); a tail to the right for positive `gamma`."""
    return peak(line_shapes.skewed_gaussian, prefix, "skewed_gaussian", WIDTH, None, line_guesses.skewed_gaussian)


@ready
def exponential_gaussian(prefix: str = "") -> Model:
    """A Gaussian convolved with a decay exp(−gamma t), of area `amplitude`: a peak with a tail to the right.

    amplitude gamma/2 exp(gamma (center − x + gamma sigma²/2)) erfc((center + gamma sigma² − x)/(sigma √2))
    """
    hints = {**WIDTH, "gamma": {"min": 0.0, "max": 20.0}}
    shape, guess = line_shapes.exponential_gaussian, line_guesses.exponential_gaussian
    return peak(shape, prefix, "exponential_gaussian", hints, None, guess, least=1e-3)  # its edge may be sharp


@ready
def moffat(prefix: str = "") -> Model:
    """A peak of height `amplitude`: amplitude/(1 + z²)^beta, z = (x − center)/sigma."""
    derived = {"fwhm": "2*{sigma}*sqrt(2**(1/max(1e-3, {beta}))-1)", "height": "{amplitude}"}
    return peak(line_shapes.moffat, prefix, "moffat", WIDTH, derived, line_guesses.moffat)


@ready
def pearson4(prefix: str = "") -> Model:
    """Pearson's distribution IV of area `amplitude`, which is lopsided: `skew` and `expon` say how; `position` follows.

    amplitude |Γ(m + iν/2)/Γ(m)|²/(sigma B(m − ½, ½)) (1 + z²)^−m exp(−ν arctan z) with m = expon and ν = skew
    """
    shrunk = "{skew}/(2*{expon})"
    derived = {
        "fwhm": "{sigma}*sqrt(2**(1/{expon})-1)*pi/arctan2(e*{expon}, {skew})",
        "height": "{amplitude}/{sigma}*exp(log_gamma_ratio({expon}, {skew}/2)-lgamma({expon}-0.5)-log(pi)/2"
        f"+lgamma({{expon}})-{{expon}}*log1p(square({shrunk}))+{{skew}}*arctan({shrunk}))",
        "position": f"{{center}}-{{sigma}}*{shrunk}",
    }
    hints = {**WIDTH, "expon": {"min": 0.5 + 1e-15, "max": 1000.0}, "skew": {"min": -1000.0, "max": 1000.0}}
    return peak(line_shapes.pearson4, prefix, "pearson4", hints, derived, guesses.peak(2.6095, 1.3048))


@ready
def pearson7(prefix: str = "") -> Model:
    """Pearson's distribution VII of area `amplitude`: a Lorentzian where `expon` is 1, and a Gaussian far above.

    amplitude/(sigma B(m − ½, ½)) (1 + z²)^−m with z = (x − center)/sigma and m = expon
    """
    derived = {
        "fwhm": "sqrt(2**(1/{expon})-1)*2*{sigma}",
        "height": "{amplitude}*exp(lgamma({expon})-lgamma({expon}-0.5)-log(pi)/2)/max(1e-15, {sigma})",
    }
    hints = {**WIDTH, "expon": {"min": 0.5 + 1e-15, "max": 100.0}}
    return peak(line_shapes.pearson7, prefix, "pearson7", hints, derived, guesses.peak(2.6095, 1.3048))


@ready
def students_t(prefix: str = "") -> Model:
    """Student's distribution with `sigma` degrees of freedom, of area `amplitude`, about `center`."""
    derived = {
        "fwhm": "2*sqrt(2**(2/({sigma}+1))*{sigma}-{sigma})",
        "height": "{amplitude}*gamma(({sigma}+1)/2)/(sqrt({sigma}*pi)*gamma({sigma}/2))",
    }
    hints = {"sigma": {"min": 0.0, "max": 100.0}}
    return Model(line_shapes.students_t, prefix, "students_t", hints, derived, line_guesses.students_t)


@ready
def split_lorentzian(prefix: str = "") -> Model:
    """A Lorentzian of area `amplitude`, of half width `sigma` to the left of `center`, and `sigma_r` to the right."""
    derived = {"fwhm": "{sigma}+{sigma_r}", "height": "2*{amplitude}/pi/max(1e-15, {sigma}+{sigma_r})"}
    hints, guess = {**WIDTH, "sigma_r": {"min": 0.0}}, line_guesses.split_lorentzian
    return peak(
        line_shapes.split_lorentzian, prefix, "split_lorentzian", hints, derived, guess, width="fwhm", least=0.6
    )


@ready
def breit_wigner(prefix: str = "") -> Model:
    """The line of Breit, Wigner and Fano: amplitude (q sigma/2 + x − center)²/((sigma/2)² + (x − center)²)."""
    return peak(line_shapes.breit_wigner, prefix, "breit_wigner", WIDTH, None, line_guesses.breit_wigner, least=0.6)


@ready
def lognormal(prefix: str = "") -> Model:
    """A peak that is a Gaussian in log x, for x > 0: amplitude/(x sigma √2π) exp(−(log x − center)²/2 sigma²)."""
    ends = ["exp({center}-{sigma}**2" + f"{sign}{{sigma}}*sqrt(2*log(2)))" for sign in "+-"]
    height = "{amplitude}/max(1e-15, {sigma}*sqrt(2*pi))*exp({sigma}**2/2-{center})"
    derived = {"height": height, "fwhm": "-".join(ends)}
    shape, guess = line_shapes.lognormal, line_guesses.lognormal
    return peak(shape, prefix, "lognormal", WIDTH, derived, guess, width="fwhm", least=0.6)


@ready
def doniach(prefix: str = "") -> Model:
    """The lopsided line of Doniach and Šunjić, of photo-emission; a Lorentzian where `gamma` is zero.

    amplitude/sigma^(1−gamma) cos(π gamma/2 + (1 − gamma) arctan z)/(1 + z²)^((1−gamma)/2), z = (x − center)/sigma
    """
    derived = {"height": "{amplitude}/max(1e-15, {sigma}**(1-{gamma}))*cos(pi*{gamma}/2)"}
    return peak(line_shapes.doniach, prefix, "doniach", WIDTH, derived, line_guesses.doniach)


@ready
def damped_oscillator(prefix: str = "") -> Model:
    """The amplitude of a driven oscillator: amplitude/√((1 − z²)² + (2 sigma z)²), z = x/center."""
    derived = {"height": "0.5*{amplitude}/max(1e-15, {sigma})"}
    guess = line_guesses.damped_oscillator
    return Model(line_shapes.damped_oscillator, prefix, "damped_oscillator", WIDTH, derived, guess)


@ready
def damped_harmonic_oscillator(prefix: str = "") -> Model:
    """A pair of Lorentzians at ±`center` of half width `sigma`, over 1 − exp(−x/gamma): scattering at a temperature."""
    least = "max(1e-15, {gamma})"
    derived = {
        "height": f"{{amplitude}}*{{sigma}}/max(1e-15, pi*(1-exp(-{{center}}/{least})))"
        "*(1/max(1e-15, {sigma}**2)-1/max(1e-15, 4*{center}**2+{sigma}**2))",
        "fwhm": "2*{sigma}",
    }
    hints = {**WIDTH, "center": {"min": 0.0}, "gamma": {"min": 1e-19}}
    shape, guess = line_shapes.damped_harmonic_oscillator, line_guesses.damped_harmonic_oscillator
    return peak(shape, prefix, "damped_harmonic_oscillator", hints, derived, guess)


_OFFSETS = {"bose": -1.0, "maxwell": 0.0, "fermi": 1.0}


@ready
def thermal_distribution(form: str = "bose", prefix: str = "") -> Model:
    """1/(amplitude exp((x − center)/kt) + k), with k = −1 of Bose and Einstein, 0 of Maxwell, 1 of Fermi and Dirac.

    The data do not determine both `amplitude` and `center`: hold one, by `parameters(amplitude={"vary": False})`.

    Args:
        form: `"bose"`, `"maxwell"` or `"fermi"`.
        prefix: what the names of the parameters begin with.
    """
    form = choice("form", form, tuple(line_shapes.THERMAL))
    guess = line_guesses.thermal(_OFFSETS[form])
    return Model(line_shapes.THERMAL[form], prefix, "thermal_distribution", guess=guess)
