"""Models that are ready: peaks, decays, steps and backgrounds, with lmfit's names of parameters."""

import math
from collections.abc import Mapping
from typing import Any

from tfjac.arguments import choice, positive_integer
from tfjac.parameters import guesses, shapes
from tfjac.parameters.model import Model

_WIDTH = {"sigma": {"min": 0.0}}


def _peak(shape, prefix, *rest):
    made = Model(shape, prefix, *rest)
    made.widths = (f"{prefix}sigma",)
    return made


def gaussian(prefix: str = "") -> Model:
    """A Gaussian peak of area `amplitude`, at `center`, of standard deviation `sigma`; `fwhm` and `height` follow.

    amplitude/(sigma √2π) exp(−(x − center)²/2 sigma²)
    """
    factor = 2 * math.sqrt(2 * math.log(2))
    derived = {
        "fwhm": f"{factor:.7f}*{{sigma}}",
        "height": f"{1 / math.sqrt(2 * math.pi):.7f}*{{amplitude}}/max(1e-15, {{sigma}})",
    }
    guess = guesses.peak(math.sqrt(math.pi / math.log(2)), 2 / factor)
    return _peak(shapes.gaussian, prefix, "gaussian", _WIDTH, derived, guess)


def lorentzian(prefix: str = "") -> Model:
    """A Lorentzian peak of area `amplitude`, at `center`, of half width `sigma`; `fwhm` and `height` follow.

    amplitude/(π sigma) / (1 + (x − center)²/sigma²)
    """
    derived = {"fwhm": "2*{sigma}", "height": f"{1 / math.pi:.7f}*{{amplitude}}/max(1e-15, {{sigma}})"}
    return _peak(shapes.lorentzian, prefix, "lorentzian", _WIDTH, derived, guesses.peak(math.pi, 1.0))


def pseudo_voigt(prefix: str = "") -> Model:
    """A peak between a Gaussian (`fraction` 0) and a Lorentzian (1), both of half width `sigma`.

    It stands for Voigt's profile, the convolution of the two, which needs the Faddeeva function and is not here.
    """
    derived = {
        "fwhm": "2*{sigma}",
        "height": "(1-{fraction})*{amplitude}/max(1e-15, {sigma}*sqrt(pi/log(2)))"
        "+{fraction}*{amplitude}/max(1e-15, pi*{sigma})",
    }
    hints: Mapping[str, Any] = {**_WIDTH, "fraction": {"min": 0.0, "max": 1.0}}
    guess = guesses.peak((math.pi + math.sqrt(math.pi / math.log(2))) / 2, 1.0)
    return _peak(shapes.pseudo_voigt, prefix, "pseudo_voigt", hints, derived, guess)


def exponential(prefix: str = "") -> Model:
    """amplitude · exp(−x/decay)."""
    return Model(shapes.exponential, prefix, "exponential", guess=guesses.exponential, is_background=True)


def powerlaw(prefix: str = "") -> Model:
    """amplitude · x^exponent, for x > 0."""
    return Model(shapes.powerlaw, prefix, "powerlaw", guess=guesses.powerlaw, is_background=True)


def constant(prefix: str = "") -> Model:
    """A number, `c`."""
    return Model(shapes.constant, prefix, "constant", guess=guesses.constant, is_background=True)


def linear(prefix: str = "") -> Model:
    """slope · x + intercept."""
    return Model(shapes.linear, prefix, "linear", guess=guesses.linear, is_background=True)


def quadratic(prefix: str = "") -> Model:
    """a x² + b x + c."""
    return Model(shapes.quadratic, prefix, "quadratic", guess=guesses.quadratic, is_background=True)


def polynomial(degree: int, prefix: str = "") -> Model:
    """c0 + c1 x + … up to `degree`."""
    arguments = {f"c{k}": 0.0 for k in range(positive_integer("degree", degree) + 1)}
    return Model(
        shapes.polynomial,
        prefix,
        "polynomial",
        guess=guesses.polynomial(degree),
        is_background=True,
        arguments=arguments,
    )


def step(form: str = "linear", prefix: str = "") -> Model:
    """A step from 0 to `amplitude` at `center`, of width `sigma`; it falls where sigma is negative.

    Args:
        form: `"linear"`, `"erf"`, `"logistic"` or `"arctan"`.
        prefix: what the names of the parameters begin with.
    """
    return Model(shapes.STEPS[choice("form", form, tuple(shapes.STEPS))], prefix, "step", guess=guesses.step)


def sine(prefix: str = "") -> Model:
    """amplitude · sin(frequency · x + shift)."""
    hints = {"amplitude": {"min": 0.0}, "frequency": {"min": 0.0}}
    return Model(shapes.sine, prefix, "sine", hints, guess=guesses.sine)
