"""What steps observe, as records of arrays: a box, linear equations, and what is known of parameters beforehand.

A parameter at a bound, with a gradient that would take it across, is *active*: its column leaves J, so that the step is
that of a problem without it. What is left, the free parameters, may still run into bounds along the step p. Of the two
ways to shorten it,

    project:   every element clipped at its own bound
    truncate:  all of p scaled until the first element meets its bound, which it then is at, exactly

that is taken which the quadratic model favours. The truncated one always lowers the model; the projected one meets many
bounds at once. With growing damping p turns into −D⁻¹g/λ, along which projection lowers the cost itself.
Reference: D. P. Bertsekas, "Projected Newton methods for optimization problems with simple constraints", 1982.

Equations are A w = b: rows that follow from others are left out, and the rest made orthonormal, N w = c. A step p has
N p = 0; what rounding leaves of N w − c is taken away after each.
"""

from typing import Any, NamedTuple

import numpy as np

from tfjac.linear import arrays
from tfjac.linear.columns import Columns
from tfjac.linear.prior import Prior
from tfjac.types import Tensor


class Box(NamedTuple):
    """Lower and upper bounds of all parameters, `[p]` each; equal ones fix a parameter.

    Of n fits they are `[n, p]`, and so are positions and steps.
    """

    lower: Any
    upper: Any

    def contains(self, position: Tensor) -> Tensor:
        """Return whether all of `position` `[p]` is within the bounds, a scalar."""
        return arrays.reduce_all((position >= self.lower) & (position <= self.upper), axis=-1)

    def free(self, position: Tensor, gradient: Tensor) -> Tensor:
        """Return `[p]`, bool: the parameters that are not held by a bound, the gradient of the cost being as given."""
        held_below = (position <= self.lower) & (gradient >= 0)
        held_above = (position >= self.upper) & (gradient <= 0)
        return ~(held_below | held_above | (self.lower >= self.upper))

    def project(self, position: Tensor) -> Tensor:
        """Return the nearest point within the bounds."""
        return arrays.clip(position, self.lower, self.upper)

    def truncate(self, position: Tensor, step: Tensor) -> Tensor:
        """Return where `position` + `step` leads, or where the first element meets its bound, which it is at then."""
        bound = arrays.where(step > 0, self.upper, self.lower)
        room = arrays.where(
            arrays.equal(step, 0), arrays.constant(np.inf, step), arrays.divide_no_nan(bound - position, step)
        )
        first = arrays.minimum(arrays.reduce_min(room, axis=-1, keepdims=True), 1)
        return self.project(arrays.where(room <= first, bound, position + first * step))


class Equality(NamedTuple):
    """N `[k, p]`, orthonormal rows, c `[k]`, and a scalar, bool: whether any point fulfils all equations."""

    normals: Any
    offsets: Any
    has_solution: Any

    def project(self, position: Tensor) -> Tensor:
        """Return the nearest point `[p]` that fulfils the equations."""
        gap = arrays.matvec(self.normals, position) - self.offsets
        return position - arrays.matvec(arrays.transpose(self.normals), gap)


class GaussianPrior(NamedTuple):
    """Means `[p]`, and the reciprocals of standard deviations `[p]`, zero where nothing is known.

    It adds ½Σ((w − mean)·weight)² to the cost.
    """

    mean: Any
    weight: Any

    def in_units(self, unit: Tensor) -> "GaussianPrior":
        """Return the prior of a cost that is measured in the square of `unit`."""
        return GaussianPrior(self.mean, self.weight / unit)

    def residuals(self, position: Tensor) -> Tensor:
        """Return (w − mean)·weight `[p]` at w = `position`."""
        return self.weight * (position - self.mean)

    def cost(self, position: Tensor) -> Tensor:
        """Return what is added to the cost, a scalar."""
        return arrays.reduce_sum(arrays.square(self.residuals(position))) / 2

    def linearised(self, position: Tensor, columns: Columns, is_uniform: bool) -> Prior:
        """Return the `Prior` of the linear system."""
        precision = arrays.square(self.weight)
        per_variable = columns.firsts(precision) if is_uniform else None
        return Prior(precision, self.weight * self.residuals(position), per_variable, is_zero=False, is_data=True)


class Conditions(NamedTuple):
    """Tensors, data of a minimisation; each an empty tuple where nothing was asked for.

    Attributes:
        box: a `Box`.
        prior: a `GaussianPrior`.
        equality: an `Equality`.
    """

    box: Any = ()
    prior: Any = ()
    equality: Any = ()
