"""The residuals where the variables are, to first order: J and what is computed from it."""

from tfjac.optimizers.linearisation.blocks import stacked_jacobian, stacked_rows
from tfjac.optimizers.linearisation.columns import Columns
from tfjac.optimizers.linearisation.elimination import Elimination, Touched
from tfjac.optimizers.linearisation.free import FreeLinearisation
from tfjac.optimizers.linearisation.linearisation import Linearisation
from tfjac.optimizers.linearisation.plane import Frame, PlaneLinearisation
from tfjac.optimizers.linearisation.reduction import Coupled
from tfjac.optimizers.linearisation.stacked import StackedJacobian
from tfjac.optimizers.linearisation.verification import VerifiedLinearisation

__all__ = [
    "Columns",
    "Coupled",
    "Elimination",
    "Frame",
    "FreeLinearisation",
    "Linearisation",
    "PlaneLinearisation",
    "StackedJacobian",
    "Touched",
    "VerifiedLinearisation",
    "stacked_jacobian",
    "stacked_rows",
]
