"""Models that are ready: peaks, decays, steps and backgrounds, with lmfit's names of parameters."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from tfjac.arguments import as_numbers, choice, positive_integer
from tfjac.parameters import guesses, line_guesses, line_shapes, shapes
from tfjac.parameters.expressions import parsed
from tfjac.parameters.line_library import WIDTH, peak
from tfjac.parameters.model import Model
from tfjac.parameters.model_parts import ready
from tfjac.parameters.splines import centres_of, knots_of, spline_of
from tfjac.types import ArrayLike


@ready
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
    return peak(shapes.gaussian, prefix, "gaussian", WIDTH, derived, guess)


@ready
def lorentzian(prefix: str = "") -> Model:
    """A Lorentzian peak of area `amplitude`, at `center`, of half width `sigma`; `fwhm` and `height` follow.

    amplitude/(π sigma) / (1 + (x − center)²/sigma²)
    """
    derived = {"fwhm": "2*{sigma}", "height": f"{1 / math.pi:.7f}*{{amplitude}}/max(1e-15, {{sigma}})"}
    return peak(shapes.lorentzian, prefix, "lorentzian", WIDTH, derived, guesses.peak(math.pi, 1.0))


@ready
def pseudo_voigt(prefix: str = "") -> Model:
    """A peak between a Gaussian (`fraction` 0) and a Lorentzian (1), both of half width `sigma`.

    It is cheaper than `voigt`, the convolution of the two.
    """
    derived = {
        "fwhm": "2*{sigma}",
        "height": "(1-{fraction})*{amplitude}/max(1e-15, {sigma}*sqrt(pi/log(2)))"
        "+{fraction}*{amplitude}/max(1e-15, pi*{sigma})",
    }
    hints: Mapping[str, Any] = {**WIDTH, "fraction": {"min": 0.0, "max": 1.0}}
    guess = guesses.peak((math.pi + math.sqrt(math.pi / math.log(2))) / 2, 1.0)
    return peak(shapes.pseudo_voigt, prefix, "pseudo_voigt", hints, derived, guess)


@ready
def exponential(prefix: str = "") -> Model:
    """amplitude · exp(−x/decay)."""
    return Model(shapes.exponential, prefix, "exponential", guess=guesses.exponential, is_background=True)


@ready
def powerlaw(prefix: str = "") -> Model:
    """amplitude · x^exponent, for x > 0."""
    return Model(shapes.powerlaw, prefix, "powerlaw", guess=guesses.powerlaw, is_background=True)


@ready
def constant(prefix: str = "") -> Model:
    """A number, `c`."""
    return Model(shapes.constant, prefix, "constant", guess=guesses.constant, is_background=True)


@ready
def linear(prefix: str = "") -> Model:
    """slope · x + intercept."""
    return Model(shapes.linear, prefix, "linear", guess=guesses.linear, is_background=True)


@ready
def quadratic(prefix: str = "") -> Model:
    """a x² + b x + c."""
    return Model(shapes.quadratic, prefix, "quadratic", guess=guesses.quadratic, is_background=True)


@ready
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


@ready
def step(form: str = "linear", prefix: str = "") -> Model:
    """A step from 0 to `amplitude` at `center`, of width `sigma`; it falls where sigma is negative.

    Args:
        form: `"linear"`, `"erf"`, `"logistic"` or `"arctan"`, also called `"atan"`.
        prefix: what the names of the parameters begin with.
    """
    return Model(shapes.STEPS[choice("form", form, tuple(shapes.STEPS))], prefix, "step", guess=guesses.step)


@ready
def sine(prefix: str = "") -> Model:
    """amplitude · sin(frequency · x + shift)."""
    hints = {"amplitude": {"min": 0.0}, "frequency": {"min": 0.0}}
    return Model(shapes.sine, prefix, "sine", hints, guess=guesses.sine)


@ready
def expsine(prefix: str = "") -> Model:
    """amplitude · sin(frequency · x + shift) · exp(−decay · x)."""
    hints = {"amplitude": {"min": 0.0}, "frequency": {"min": 0.0}}
    return Model(shapes.expsine, prefix, "expsine", hints, guess=guesses.expsine)


@ready
def rectangle(form: str = "linear", prefix: str = "") -> Model:
    """A step up from 0 to `amplitude` at `center1`, and down at `center2`, of widths `sigma1` and `sigma2`.

    Args:
        form: as of `step`.
        prefix: what the names of the parameters begin with.
    """
    hints = {"sigma1": {"min": 0.0}, "sigma2": {"min": 0.0}}
    shape = shapes.RECTANGLES[choice("form", form, tuple(shapes.RECTANGLES))]
    return Model(shape, prefix, "rectangle", hints, {"midpoint": "({center1}+{center2})/2"}, guesses.rectangle)


@ready
def complex_constant(prefix: str = "") -> Model:
    """A complex number, `re` + i `im`, for complex data."""
    return Model(
        shapes.complex_constant, prefix, "complex_constant", guess=guesses.complex_constant, is_background=True
    )


@ready
def gaussian_2d(prefix: str = "") -> Model:
    """A Gaussian of two arrays, of volume `amplitude`: x is the pair of them, `model.fit((x, y), z)`."""
    factor = 2 * math.sqrt(2 * math.log(2))
    both = "max(1e-15, {sigmax})*max(1e-15, {sigmay})"
    derived = {
        "fwhmx": f"{factor:.7f}*{{sigmax}}",
        "fwhmy": f"{factor:.7f}*{{sigmay}}",
        "height": f"{1 / (2 * math.pi):.7f}*{{amplitude}}/({both})",
    }
    hints = {"sigmax": {"min": 0.0}, "sigmay": {"min": 0.0}}
    return Model(line_shapes.gaussian_2d, prefix, "gaussian_2d", hints, derived, line_guesses.gaussian_2d)


@ready
def spline(xknots: ArrayLike, prefix: str = "") -> Model:
    """A cubic spline with a coefficient s0, s1, … for each of `xknots`, a curve that follows slow changes.

    Outside of them the outer cubics go on.

    Args:
        xknots: `[k]`, four numbers or more, increasing.
        prefix: what the names of the parameters begin with.
    """
    places = as_numbers("xknots", xknots)
    if places.ndim != 1 or places.size < 4 or not np.all(np.diff(places) > 0):
        raise ValueError(
            f"xknots are four or more numbers, increasing. Received: xknots of shape {places.shape}, {places}"
        )
    knots = knots_of(places)
    names = dict.fromkeys((f"s{k}" for k in range(places.size)), 1.0)
    guess = line_guesses.spline(centres_of(knots))
    function = spline_of(tuple(knots.tolist()))
    return Model(function, prefix, "spline", guess=guess, is_background=True, arguments=names)


@ready
def expression(text: str, name: str = "expression") -> Model:
    """A model of an expression of x, such as `"off + amp*exp(-x/tau)*sin(x*freq)"`; other names are its parameters.

    Args:
        text: as for ties of parameters; it is parsed, never executed.
        name: of the model.
    """
    read = parsed(text)
    if "x" not in read.names:
        raise ValueError(f"An expression of x has an x in it. Received: {text!r}")
    function = read.function
    return Model(
        lambda x, **values: function({"x": x, **values}),
        name=name,
        arguments={each: None for each in read.names if each != "x"},
    )
