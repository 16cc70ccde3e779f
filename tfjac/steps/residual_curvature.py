"""The curvature of residuals, which JᵀJ leaves out: estimated from the steps, for problems whose residuals stay large.

    ∇²F = H + S,    H = JᵀJ + Λ,    S = Σ rᵢ ∇²rᵢ

Where residuals are large at a minimum, S is as large as JᵀJ, and steps without it converge linearly. Each kept step s
says what S does to it, to third order: y# = y − ½ (H + H₊) s, with y = g₊ − g. The estimate is sized, and then changes
as little as it must to say the same, measured by y (Davidon, Fletcher and Powell):

    S ← τS + (u vᵀ + v uᵀ) − (uᵀs) v vᵀ,    u = y# − τSs,    v = y/yᵀs,    τ = min(1, |sᵀy#| / |sᵀSs|)

The model that predicted the last step better makes the next one. To take over, a model must miss by less than half of
what the other misses by. Without S, the model knows the Gauss-Newton step. With S it knows what a few steps have
shown. So S is left out where the first says that residuals will not stay large: in valleys it would slow steps down.

Reference: J. E. Dennis, D. M. Gay, R. E. Welsch, "An adaptive nonlinear least-squares algorithm", 1981. Theirs has
y# = (J₊ − J)ᵀr₊, which takes the residuals at the end of a step together with J at its start.
"""

from typing import NamedTuple

import tensorflow as tf

from tfjac.linear import arrays
from tfjac.linear.contracts import LinearModel
from tfjac.linear.solvers.base import System, dot
from tfjac.steps.damping.scaling import scaled_norm
from tfjac.steps.records import Point
from tfjac.types import Tensor

MARGIN = 2
"""By how much less a model must miss than the other, to take over."""

STAYS = 0.8
"""S is in use where a Gauss-Newton step promises to leave this part of the cost at least."""

PARALLEL = 1e-6
"""The least cosine of the angle between y and s, in the metric of D, that is divided by."""


class Secant(NamedTuple):
    """What is known of S before a step.

    Attributes:
        matrix: `[p, p]`, the estimate, without the last step.
        step: `[p]`, s of the last step, zeros if it was not kept.
        gradient: `[p]`, g where it started.
        product: `[p]`, H s there.
        better: scalar bool, whether the model with S is the better one.
    """

    matrix: tf.Tensor
    step: tf.Tensor
    gradient: tf.Tensor
    product: tf.Tensor
    better: tf.Tensor

    @classmethod
    def none_yet(cls, zeros: Tensor) -> "Secant":
        """Return that before the first step, for zeros `[p]`."""
        return cls(zeros[:, None] * zeros, zeros, zeros, zeros, arrays.constant(False, zeros, tf.bool))

    def learnt(self, model: LinearModel, metric: Tensor) -> "Secant":
        """Return the same with the last step in the matrix, and none that is to be learnt from.

        Args:
            model: the `LinearModel` where that step ended, in all parameters.
            metric: `[p]`, D there.
        """
        step, gradient = self.step, model.gradient()
        change = gradient - self.gradient
        curved = change - (self.product + product_of(model, step)) / 2
        known = dot(step, arrays.matvec(self.matrix, step))
        size = arrays.where(
            arrays.equal(known, 0), arrays.ones_like(known), arrays.absolute(dot(step, curved)) / arrays.absolute(known)
        )
        matrix = arrays.minimum(size, 1) * self.matrix
        along = dot(change, step)
        least = PARALLEL * scaled_norm(step, metric) * scaled_norm(change, 1 / metric)
        weight = change * (arrays.minimum(arrays.absolute(along) / least, 1) / along)
        off = curved - arrays.matvec(matrix, step)
        outer = off[:, None] * weight
        matrix += outer + arrays.transpose(outer) - dot(off, step) * weight[:, None] * weight
        kept, sound = arrays.reduce_any(arrays.not_equal(step, 0)), arrays.reduce_all(arrays.is_finite(matrix))
        matrix = arrays.where(kept, arrays.where(sound, matrix, arrays.zeros_like(matrix)), self.matrix)
        zeros = arrays.zeros_like(step)
        return Secant(matrix, zeros, gradient, zeros, self.better & (sound | ~kept))


class Curved:
    """What S makes of a `System`.

    Args:
        plain: the `System` without; it has a `matrix`.
        whole: the `LinearModel` in all parameters.
        model: the same in those that are free.
        secant: the `Secant` before the step.
        point: the `Point` where it starts.
        cost: scalar, F there.
        lowest: scalar, the least λ.

    """

    def __init__(
        self,
        plain: System,
        whole: LinearModel,
        model: LinearModel,
        secant: Secant,
        point: Point,
        cost: Tensor,
        lowest: Tensor,
    ) -> None:
        self._plain, self._whole, matrix = plain, whole, plain.matrix
        assert matrix is not None
        self._secant = secant.learnt(whole, point.metric)
        free = model.only_free(arrays.ones_like(plain.gradient))
        self._curvature = free[:, None] * free * self._secant.matrix

        def stays() -> Tensor:
            newton, solved = plain.solver(point.metric)(lowest)
            return solved & (plain.reduction(newton) <= (1 - STAYS) * cost)

        self._used = arrays.branch(self._secant.better, stays, lambda: arrays.constant(False, cost, tf.bool))
        self._matrix = arrays.where(self._used, matrix + self._curvature, matrix)

    def system(self, attempts: Tensor) -> System:
        """Return the `System` after so many attempts, a scalar int32: if the first was rejected, it is that of J."""
        used = self._used & arrays.equal(attempts, 0)
        return self._plain.with_matrix(self._matrix, used)

    def refused(self) -> Secant:
        """Return the `Secant` after a step that is taken back."""
        return self._secant._replace(better=arrays.zeros_like(self._secant.better))

    def after(self, step: Tensor, reduction: Tensor, attempts: Tensor) -> Secant:
        """Return the `Secant` after a step.

        Args:
            step: `[p]`, zeros if it was not kept.
            reduction: scalar, by how much it lowered the cost.
            attempts: scalar int32, how many it took.
        """
        predicted, curvature = self._plain.reduction(step), dot(step, arrays.matvec(self._curvature, step))
        plain, curved = arrays.absolute(reduction - predicted), arrays.absolute(reduction - predicted + curvature / 2)
        better = arrays.where(self._used & arrays.equal(attempts, 1), MARGIN * plain >= curved, MARGIN * curved < plain)
        kept = arrays.reduce_any(arrays.not_equal(step, 0))
        product = product_of(self._whole, step)
        return self._secant._replace(step=step, product=product, better=arrays.where(kept, better, self._used))


def product_of(model: LinearModel, vector: Tensor) -> Tensor:
    """Return H v `[p]` of a `LinearModel`."""
    return model.curvature(vector) + model.prior.precision * vector
