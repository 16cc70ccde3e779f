"""Models for `curve_fit`: peaks, decays, steps and backgrounds, which add and multiply, and functions of yours."""

from typing import Any

from tfjac.parameters.library import (
    breit_wigner,
    complex_constant,
    constant,
    damped_harmonic_oscillator,
    damped_oscillator,
    doniach,
    exponential,
    exponential_gaussian,
    expression,
    expsine,
    gaussian,
    gaussian_2d,
    linear,
    lognormal,
    lorentzian,
    moffat,
    pearson4,
    pearson7,
    polynomial,
    powerlaw,
    pseudo_voigt,
    quadratic,
    rectangle,
    sine,
    skewed_gaussian,
    skewed_voigt,
    spline,
    split_lorentzian,
    step,
    students_t,
    thermal_distribution,
    voigt,
)
from tfjac.parameters.model import BaseModel, CompositeModel, Model

__all__ = [
    "BaseModel",
    "CompositeModel",
    "Model",
    "breit_wigner",
    "complex_constant",
    "constant",
    "damped_harmonic_oscillator",
    "damped_oscillator",
    "doniach",
    "exponential",
    "exponential_gaussian",
    "expression",
    "expsine",
    "gaussian",
    "gaussian_2d",
    "linear",
    "lognormal",
    "lorentzian",
    "moffat",
    "pearson4",
    "pearson7",
    "polynomial",
    "powerlaw",
    "pseudo_voigt",
    "quadratic",
    "rectangle",
    "sine",
    "skewed_gaussian",
    "skewed_voigt",
    "spline",
    "split_lorentzian",
    "step",
    "students_t",
    "thermal_distribution",
    "voigt",
]


def __getattr__(name: str) -> Any:
    """Say what a name of lmfit's, such as `GaussianModel`, is here."""
    shapes = {each.replace("_", ""): each for each in __all__ if each.islower()} | {"parabolic": "quadratic"}
    shape = shapes.get(name.removesuffix("Model").lower()) if name.endswith("Model") else None
    said = "" if shape is None else f". What lmfit calls so is here: models.{shape}()"
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}{said}")
