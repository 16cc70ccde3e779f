"""The residuals where the variables are, to first order: J and what is computed from it."""

from tfjac.linear.model.elimination import Elimination, Touched
from tfjac.linear.model.free import FreeLinearisation
from tfjac.linear.model.linearisation import Linearisation
from tfjac.linear.model.plane import Frame, PlaneLinearisation
from tfjac.linear.model.reduction import Coupled
from tfjac.linear.model.residual_variance import num_examples, square_and_variance
from tfjac.linear.model.stacked import StackedJacobian
from tfjac.linear.model.units import Units
from tfjac.linear.model.verified import ReferenceGradient, VerifiedLinearisation
