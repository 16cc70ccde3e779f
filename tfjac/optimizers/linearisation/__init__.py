"""The residuals where the variables are, to first order: J and what is computed from it."""

from tfjac.optimizers.linearisation.blocks import stacked_jacobian
from tfjac.optimizers.linearisation.columns import Columns
from tfjac.optimizers.linearisation.linearisation import Linearisation
from tfjac.optimizers.linearisation.stacked import StackedJacobian

__all__ = ["Columns", "Linearisation", "StackedJacobian", "stacked_jacobian"]
