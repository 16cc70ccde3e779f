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
from tfjac.parameters.model import BaseModel, CompositeModel, Model

__all__ = [
    "BaseModel",
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
