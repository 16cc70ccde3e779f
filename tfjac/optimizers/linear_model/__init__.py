"""The residuals where the variables are, to first order: J and what is computed from it."""

from tfjac.optimizers.linear_model.blocks import stacked_jacobian, stacked_rows
from tfjac.optimizers.linear_model.elimination import Elimination, Touched
from tfjac.optimizers.linear_model.forms_of_blocks import (
    IndicesWanted,
    examples_mix,
    multiplies_often,
    noting_structure,
)
from tfjac.optimizers.linear_model.free import FreeLinearisation
from tfjac.optimizers.linear_model.linearisation import Linearisation
from tfjac.optimizers.linear_model.parts_of_vectors import read_in_parts
from tfjac.optimizers.linear_model.plane import Frame, PlaneLinearisation
from tfjac.optimizers.linear_model.reduction import Coupled
from tfjac.optimizers.linear_model.residual_variance import num_examples, square_and_variance
from tfjac.optimizers.linear_model.stacked import StackedJacobian
from tfjac.optimizers.linear_model.units import Units
from tfjac.optimizers.linear_model.verified import ReferenceGradient, VerifiedLinearisation

__all__ = [
    "Coupled",
    "Elimination",
    "Frame",
    "FreeLinearisation",
    "IndicesWanted",
    "Linearisation",
    "PlaneLinearisation",
    "ReferenceGradient",
    "StackedJacobian",
    "Touched",
    "Units",
    "VerifiedLinearisation",
    "examples_mix",
    "multiplies_often",
    "noting_structure",
    "num_examples",
    "read_in_parts",
    "square_and_variance",
    "stacked_jacobian",
    "stacked_rows",
]
