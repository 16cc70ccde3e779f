"""Models that are ready, a row for each: curve, guess, derived quantities and bounds, with lmfit's names."""

import functools
import math
from collections.abc import Callable, Mapping
from typing import Any, ParamSpec, Protocol

import numpy as np
import scipy.interpolate
import tensorflow as tf

from tfjac.arguments import as_numbers, choice, positive_integer
from tfjac.parameters import guesses, shapes
from tfjac.parameters.expressions import parsed
from tfjac.parameters.model import Model
from tfjac.types import ArrayLike, Function

_Arguments = ParamSpec("_Arguments")


class MadeByPrefix(Protocol):
    """A function that makes models of one shape."""

    def __call__(self, prefix: str = "") -> Model: ...


def _picklable(factory: Callable[_Arguments, Model]) -> Callable[_Arguments, Model]:
    """Decorate a function that makes models, so that they can be pickled: as its name and its arguments."""

    @functools.wraps(factory)
    def made(*args: _Arguments.args, **options: _Arguments.kwargs) -> Model:
        model = factory(*args, **options)
        model.made_by = (functools.partial(made, *args, **options), ())
        return model

    return made


def _model(
    shape: Function,
    guess: Function,
    derived: Mapping[str, str] | None = None,
    hints: Mapping[str, Mapping[str, Any]] | None = None,
    widths: Mapping[str, float] | None = None,
    is_background: bool = False,
) -> MadeByPrefix:
    """Return a function that makes models of a shape, whose name and docstring it has.

    Args:
        widths: dict from a width of a peak to the part of the distance of the data below which the peak lies between
            them.
        shape, guess, derived, hints, is_background: as of `Model`.
    """

    def factory(prefix: str = "") -> Model:
        made = Model(shape, prefix, None, hints, derived, guess, is_background)
        made.widths = {prefix + name: least for name, least in (widths or {}).items()}
        return made

    factory.__name__ = factory.__qualname__ = shape.__name__
    factory.__doc__ = shape.__doc__
    return _picklable(factory)


_POSITIVE = {"min": 0.0}


def _peak(
    shape: Function,
    guess: Function,
    derived: Mapping[str, str] | None = None,
    widths: Mapping[str, float] = {"sigma": 0.25},
    **hints: Mapping[str, Any],
) -> MadeByPrefix:
    """Return `_model` of a peak, whose `sigma` is not negative."""
    return _model(shape, guess, derived, {"sigma": _POSITIVE, **hints}, widths)


_background = functools.partial(_model, is_background=True)

# -------------------------------------------------------------- peaks

_FWHM = {"fwhm": 0.6}
_TIED = {"expr": "{sigma}"}
_VOIGT = 1.0692 + math.sqrt(0.8664 + 5.545083)  # its full width over sigma, where gamma is sigma
_VOIGT_HEIGHT = 0.5231565837 / math.sqrt(2 * math.pi)  # its height times sigma, over the amplitude
_BELL = math.sqrt(math.pi / math.log(2))  # a Gaussian's area over its height and half its width

gaussian = _peak(
    shapes.gaussian,
    guesses.peak(_BELL, 1 / math.sqrt(2 * math.log(2))),
    {"fwhm": "2.3548200*{sigma}", "height": "0.3989423*{amplitude}/max(1e-15, {sigma})"},
)
lorentzian = _peak(
    shapes.lorentzian,
    guesses.peak(math.pi, 1.0),
    {"fwhm": "2*{sigma}", "height": "0.3183099*{amplitude}/max(1e-15, {sigma})"},
)
pseudo_voigt = _peak(
    shapes.pseudo_voigt,
    guesses.peak((math.pi + _BELL) / 2, 1.0),
    {
        "fwhm": "2*{sigma}",
        "height": "(1-{fraction})*{amplitude}/max(1e-15, {sigma}*sqrt(pi/log(2)))"
        "+{fraction}*{amplitude}/max(1e-15, pi*{sigma})",
    },
    fraction={"min": 0.0, "max": 1.0},
)
voigt = _peak(
    shapes.voigt,
    guesses.peak(2 / _VOIGT / _VOIGT_HEIGHT, 2 / _VOIGT),
    {
        "fwhm": "1.0692*{gamma}+sqrt(0.8664*{gamma}**2+5.545083*{sigma}**2)",
        "height": "{amplitude}/max(1e-15, {sigma}*sqrt(2*pi))*erfcx({gamma}/max(1e-15, {sigma}*sqrt(2)))",
    },
    _FWHM,
    gamma=_TIED,
)
skewed_voigt = _peak(shapes.skewed_voigt, guesses.peak(2 / _VOIGT / _VOIGT_HEIGHT, 2 / _VOIGT), gamma=_TIED)
skewed_gaussian = _peak(shapes.skewed_gaussian, guesses.skewed_gaussian)
exponential_gaussian = _peak(
    shapes.exponential_gaussian,
    guesses.exponential_gaussian,
    widths={"sigma": 1e-3},  # its edge may be sharp
    gamma={"min": 0.0, "max": 20.0},
)
moffat = _peak(
    shapes.moffat,
    guesses.moffat,
    {"fwhm": "2*{sigma}*sqrt(2**(1/max(1e-3, {beta}))-1)", "height": "{amplitude}"},
)
pearson4 = _peak(
    shapes.pearson4,
    guesses.peak(2.6095, 1.3048),
    {
        "fwhm": "{sigma}*sqrt(2**(1/{expon})-1)*pi/arctan2(e*{expon}, {skew})",
        "height": "{amplitude}/{sigma}*exp(log_gamma_ratio({expon}, {skew}/2)-lgamma({expon}-0.5)-log(pi)/2"
        "+lgamma({expon})-{expon}*log1p(square({skew}/(2*{expon})))+{skew}*arctan({skew}/(2*{expon})))",
        "position": "{center}-{sigma}*{skew}/(2*{expon})",
    },
    expon={"min": 0.5 + 1e-15, "max": 1000.0},
    skew={"min": -1000.0, "max": 1000.0},
)
pearson7 = _peak(
    shapes.pearson7,
    guesses.peak(2.6095, 1.3048),
    {
        "fwhm": "sqrt(2**(1/{expon})-1)*2*{sigma}",
        "height": "{amplitude}*exp(lgamma({expon})-lgamma({expon}-0.5)-log(pi)/2)/max(1e-15, {sigma})",
    },
    expon={"min": 0.5 + 1e-15, "max": 100.0},
)
students_t = _model(
    shapes.students_t,
    guesses.students_t,
    {
        "fwhm": "2*sqrt(2**(2/({sigma}+1))*{sigma}-{sigma})",
        "height": "{amplitude}*gamma(({sigma}+1)/2)/(sqrt({sigma}*pi)*gamma({sigma}/2))",
    },
    {"sigma": {"min": 0.0, "max": 100.0}},
)
split_lorentzian = _peak(
    shapes.split_lorentzian,
    guesses.split_lorentzian,
    {"fwhm": "{sigma}+{sigma_r}", "height": "2*{amplitude}/pi/max(1e-15, {sigma}+{sigma_r})"},
    _FWHM,
    sigma_r=_POSITIVE,
)
breit_wigner = _peak(shapes.breit_wigner, guesses.breit_wigner, widths={"sigma": 0.6})
lognormal = _peak(
    shapes.lognormal,
    guesses.lognormal,
    {
        "height": "{amplitude}/max(1e-15, {sigma}*sqrt(2*pi))*exp({sigma}**2/2-{center})",
        "fwhm": "exp({center}-{sigma}**2+{sigma}*sqrt(2*log(2)))-exp({center}-{sigma}**2-{sigma}*sqrt(2*log(2)))",
    },
    _FWHM,
)
doniach = _peak(
    shapes.doniach,
    guesses.doniach,
    {"height": "{amplitude}/max(1e-15, {sigma}**(1-{gamma}))*cos(pi*{gamma}/2)"},
)
damped_oscillator = _model(
    shapes.damped_oscillator,
    guesses.damped_oscillator,
    {"height": "0.5*{amplitude}/max(1e-15, {sigma})"},
    {"sigma": _POSITIVE},
)
damped_harmonic_oscillator = _peak(
    shapes.damped_harmonic_oscillator,
    guesses.damped_harmonic_oscillator,
    {
        "height": "{amplitude}*{sigma}/max(1e-15, pi*(1-exp(-{center}/max(1e-15, {gamma}))))"
        "*(1/max(1e-15, {sigma}**2)-1/max(1e-15, 4*{center}**2+{sigma}**2))",
        "fwhm": "2*{sigma}",
    },
    center=_POSITIVE,
    gamma={"min": 1e-19},
)
gaussian_2d = _model(
    shapes.gaussian_2d,
    guesses.gaussian_2d,
    {
        "fwhmx": "2.3548200*{sigmax}",
        "fwhmy": "2.3548200*{sigmay}",
        "height": "0.1591549*{amplitude}/(max(1e-15, {sigmax})*max(1e-15, {sigmay}))",
    },
    {"sigmax": _POSITIVE, "sigmay": _POSITIVE},
)

# -------------------------------------------------------------- waves and backgrounds

_WAVE = {"amplitude": _POSITIVE, "frequency": _POSITIVE}

sine = _model(shapes.sine, guesses.sine, hints=_WAVE)
expsine = _model(shapes.expsine, guesses.expsine, hints=_WAVE)
exponential = _background(shapes.exponential, guesses.exponential)
powerlaw = _background(shapes.powerlaw, guesses.powerlaw)
constant = _background(shapes.constant, guesses.polynomial("c"))
complex_constant = _background(shapes.complex_constant, guesses.complex_constant)
linear = _background(shapes.linear, guesses.polynomial("slope", "intercept"))
quadratic = _background(shapes.quadratic, guesses.polynomial("a", "b", "c"))


# -------------------------------------------------------------- models of a form, a degree, places or a text


@_picklable
def polynomial(degree: int, prefix: str = "") -> Model:
    """c0 + c1 x + … up to `degree`."""
    names = [f"c{k}" for k in range(positive_integer("degree", degree) + 1)]
    guess, arguments = guesses.polynomial(*names[::-1]), dict.fromkeys(names, 0.0)
    return Model(shapes.polynomial, prefix, guess=guess, is_background=True, arguments=arguments)


@_picklable
def step(form: str = "linear", prefix: str = "") -> Model:
    """A step from 0 to `amplitude` at `center`, of width `sigma`; it falls where sigma is negative.

    It is amplitude times min(1, max(0, z + ½)), (1 + erf z)/2, 1/(1 + exp(−z)) or ½ + arctan(z)/π, with
    z = (x − center)/sigma.

    Args:
        form: `"linear"`, `"erf"`, `"logistic"` or `"arctan"`, also called `"atan"`.
        prefix: what the names of the parameters begin with.
    """
    return Model(shapes.step(choice("form", form, tuple(shapes.RISES))), prefix, "step", guess=guesses.step)


@_picklable
def rectangle(form: str = "linear", prefix: str = "") -> Model:
    """A step up from 0 to `amplitude` at `center1`, and down at `center2`, of widths `sigma1` and `sigma2`.

    Args:
        form: as of `step`; linear steps are twice as wide as its.
        prefix: what the names of the parameters begin with.
    """
    shape = shapes.rectangle(choice("form", form, tuple(shapes.RISES)))
    hints = {"sigma1": _POSITIVE, "sigma2": _POSITIVE}
    return Model(shape, prefix, "rectangle", hints, {"midpoint": "({center1}+{center2})/2"}, guesses.rectangle)


@_picklable
def thermal_distribution(form: str = "bose", prefix: str = "") -> Model:
    """1/(amplitude exp((x − center)/kt) + k), with k = −1 of Bose and Einstein, 0 of Maxwell, 1 of Fermi and Dirac.

    The data do not determine both `amplitude` and `center`: hold one, by `parameters(amplitude={"vary": False})`.

    Args:
        form: `"bose"`, `"maxwell"` or `"fermi"`.
        prefix: what the names of the parameters begin with.
    """
    offset = shapes.THERMAL[choice("form", form, tuple(shapes.THERMAL))]
    return Model(shapes.thermal(offset), prefix, "thermal_distribution", guess=guesses.thermal(offset))


@_picklable
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
    guess, arguments = guesses.spline(centres_of(knots)), {f"s{k}": 1.0 for k in range(places.size)}
    return Model(spline_of(tuple(knots.tolist())), prefix, guess=guess, is_background=True, arguments=arguments)


@_picklable
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
    arguments = {each: None for each in read.names if each != "x"}
    return Model(lambda x, **values: function({"x": x, **values}), name=name, arguments=arguments)


DEGREE = 3


def knots_of(places):
    """Return the knots `[n + 4]` of the spline whose n coefficients stand for `places`, as FITPACK chooses them."""
    return scipy.interpolate.splrep(places, np.ones(len(places)), k=DEGREE)[0]


def centres_of(knots):
    """Return where each B-spline is centred, `[n]`."""
    return np.array([knots[k + 1 : k + 1 + DEGREE].mean() for k in range(len(knots) - DEGREE - 1)])


def spline_of(knots):
    """Return a function of x and of coefficients s0, s1, … by name.

    Args:
        knots: tuple of numbers, increasing.
    """

    def spline(x, **coefficients):
        values = tf.stack([coefficients[f"s{k}"] for k in range(len(knots) - DEGREE - 1)])
        return tf.linalg.matvec(_basis(x, knots), values)

    return spline


def _basis(x, knots):
    """Return the B-splines at x, `[..., n]`, by de Boor's recurrence; outside of the knots the outer cubics go on."""
    inner = tf.constant(knots[DEGREE + 1 : -DEGREE - 1], x.dtype)
    interval = tf.zeros(tf.shape(x), tf.int32) + DEGREE
    for place in tf.unstack(inner):
        interval += tf.cast(x >= place, tf.int32)
    found = tf.one_hot(interval, len(knots) - 1, dtype=x.dtype)
    for degree in range(1, DEGREE + 1):
        spans = np.array([after - before for before, after in zip(knots, knots[degree:])])
        inverse = np.divide(1, spans, out=np.zeros_like(spans), where=spans > 0)
        since = (x[..., None] - np.array(knots[: -degree - 1])) * inverse[:-1]
        until = (np.array(knots[degree + 1 :]) - x[..., None]) * inverse[1:]
        found = since * found[..., :-1] + until * found[..., 1:]
    return found
