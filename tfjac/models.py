"""Models for `curve_fit`: peaks, decays, steps and backgrounds, which add and multiply, and functions of yours."""

from tfjac.parameters.library import (
    constant,
    exponential,
    gaussian,
    linear,
    lorentzian,
    polynomial,
    powerlaw,
    pseudo_voigt,
    quadratic,
    sine,
    step,
)
from tfjac.parameters.model import CompositeModel, Model

__all__ = [
    "CompositeModel",
    "Model",
    "constant",
    "exponential",
    "gaussian",
    "linear",
    "lorentzian",
    "polynomial",
    "powerlaw",
    "pseudo_voigt",
    "quadratic",
    "sine",
    "step",
]
