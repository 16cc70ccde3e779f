"""A quadratic model of earlier batches, and a step that lowers the loss of a batch and that model together.

With Fₖ the loss of batch k and dₖ what it counts for, what is minimised at batch n is Σ βⁿ⁻ᵏ dₖ Fₖ. Of the batches
before, only a quadratic model is kept, around where the variables are: Q(δ) = hᵀδ + ½ δᵀHδ. A step lowers
dₙFₙ(w+p) + βQ(p), and is judged by that:

    (βH + dJᵀJ + dΛ + λD) p = −(βh + dg)
    H ← βH + dJᵀJ + dΛ,    h ← βh + dg + Hp

With λ = 0, h is zero after each step, and for linear residuals this is recursive least squares with forgetting; for
others the extended Kalman filter of a constant state, H being the inverse of its covariance. What damping holds back of
a step is not lost, as it is for these: it stays in h, and so does a batch whose step was rejected.
Reference: D. P. Bertsekas, "Incremental least squares methods and the extended Kalman filter", 1996.
"""

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from tfjac.drive.streamed.recalling import BatchMemory, RecallingObjective, all_finite, as_computed_in, unless_still
from tfjac.drive.streamed.sums import Equations
from tfjac.graph import cond
from tfjac.linear.contracts import LinearModel
from tfjac.linear.model import Linearisation, num_examples
from tfjac.linear.solvers import CholeskySolver
from tfjac.linear.solvers.base import dot
from tfjac.linear.solvers.problem_sizes import SMALL
from tfjac.steps.objective import Objective
from tfjac.types import Tensor

WINDOW_PER_WEIGHT, LEAST_WINDOW, SHARE_OF_SEEN = 2.0, 300.0, 0.1
"""Residuals that are remembered: so many per weight, or so many at least, or that share of those seen."""

EXAMPLES_PER_STEP = 8
"""A step is taken for each p/8 examples."""


class FadingModel(BatchMemory):
    """H and h, in units of the loss of the batch that came last.

    p² numbers are read and written as seldom as can be: that is most of what a step takes beside its factorisation.

    It knows at least twice as many residuals as there are weights, so that a step that is bold fits these, and little
    noise: of the share of noise that is allowed for, a tenth does. On six tables of 300 to 4,200 rows the training loss
    is 0.6 to 1.1 times that of a share of one, the test loss 0.8 to 1.05 times; an oscillating function, which a share
    of one never begins to learn, is learnt.

    Args:
        add: function from a name, a shape and a dtype to a new variable of the optimizer.
        size: number of parameters, p.
        dtype: of H and h.
        decay: β, or None for that of the rule.
    """

    most_share = 0.1
    what = "JᵀJ"

    def __init__(self, add: Callable, size: int, dtype: tf.DType, decay: float | None = None) -> None:
        self._gram, self._gradient = add("remembered_gram", (size, size), dtype), add("remembered", (size,), dtype)
        self._centre, self._weight = add("centre_of_remembered", (size,), dtype), add("weight_of_last", (), "float64")
        self.dtype, self.solver, self._size, self._decay = dtype, CholeskySolver(), size, decay

    def takes(self, batch: LinearModel) -> Any:
        """Return True: what a batch says takes the same place, however large it is."""
        return True

    def decay(self, seen: Tensor, rows: Tensor) -> Tensor:
        """Return β: as it was given, or 1 − rows/N."""
        if self._decay is not None:
            return tf.where(seen > 0, tf.constant(self._decay, seen.dtype), 0.0)
        window = tf.maximum(SHARE_OF_SEEN * (seen + rows), max(WINDOW_PER_WEIGHT * self._size, LEAST_WINDOW))
        return tf.where(seen > 0, tf.maximum(1 - rows / window, 0.0), 0.0)

    def begins(self, steps: Tensor, batch: LinearModel, num_parts: int) -> Tensor | None:
        """Return whether p/8 new examples have come since the last step, in batches of this size.

        Until then a batch is remembered alone. A step takes p³/6, whatever the batch has, and one for each batch of 32
        is most of the time from 500 weights on. Three tables of 817 to 961 weights, in batches of 32: an epoch takes
        0.6 to 0.7 of the time.
        """
        if self._size <= SMALL:
            return None
        examples = tf.cast(num_examples(batch, num_parts), steps.dtype)
        every = tf.maximum(self._size // (EXAMPLES_PER_STEP * examples), 1)
        return tf.equal(steps % every, 0)

    def recalled(
        self, objective: Objective, batch: LinearModel, position: Tensor, decay: Tensor, weight: Tensor
    ) -> tuple[RecallingObjective, Tensor]:
        """Return the `RecallingObjective`, and diag(JᵀJ) of the batch."""
        own_gram, own_gradient = as_computed_in(batch, self.dtype).gram_and_gradient()
        diagonal = tf.linalg.diag_part(own_gram)
        says_something = tf.reduce_any(tf.not_equal(diagonal, 0))
        gram, gradient = self._around(
            tf.cast(position, self.dtype), decay * tf.cast(says_something, self.dtype), weight
        )

        def quadratic(step: Tensor) -> Tensor:
            step = tf.cast(step, self.dtype)
            return dot(step, gradient + _along(gram, step) / 2)

        both = {self.dtype: (own_gram + gram, own_gradient + gradient)}
        linearisation = RecallingLinearisation(batch, gram, gradient, both)
        return RecallingObjective(objective, linearisation, quadratic, position), diagonal

    def _around(self, position: Tensor, decay: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
        """Return βH `[p, p]` and βh `[p]` around `position` `[p]`, in units of the loss of a batch."""
        factor = tf.math.divide_no_nan(self._weight.value.value(), tf.cast(weight, tf.float64))
        factor = decay * tf.cast(factor, self.dtype)
        gram, gradient = self._gram.value.value(), self._gradient.value.value()
        gradient += _along(gram, position - self._centre.value.value())
        return factor * gram, tf.math.multiply_no_nan(gradient, factor)  # far away it may be out of range

    def remember(
        self, recalling: RecallingObjective, wanted: Tensor, moved: Tensor, position: Tensor, weight: Tensor
    ) -> Any:
        """Replace H and h by those around `position`. A gram matrix is finite where its diagonal is."""
        gram, gradient = recalling.linearisation.with_prior(self.dtype)
        gradient += _along(gram, moved)

        def keep() -> bool:
            self._gram.value.assign(gram)
            self._gradient.value.assign(gradient)
            self._centre.value.assign(position)
            self._weight.value.assign(tf.cast(weight, tf.float64))
            return True

        cond(wanted & all_finite(tf.linalg.diag_part(gram), gradient), keep, lambda: False)


def _along(gram: Tensor, step: Tensor) -> Tensor:
    """Return H·step `[p]`, without reading a large H for a step of zero."""
    product = lambda: tf.linalg.matvec(gram, step)  # noqa: E731
    return product() if gram.shape[0] <= SMALL else unless_still(step, product, tf.zeros_like(step))


class RecallingLinearisation(Linearisation):
    """A `Linearisation` with the quadratic model of other batches added to it; for solvers that take JᵀJ and g.

    Args:
        batch: the `Linearisation` of the batch.
        gram, gradient: H `[p, p]` and h `[p]`.
        found: dict from dtypes to what was computed in them before, for the step and for what is remembered.
    """

    def __init__(self, batch: LinearModel, gram: Tensor, gradient: Tensor, found: dict | None = None) -> None:
        super().__init__(batch.jacobian, batch.residual, batch.prior)
        self._batch, self._gram, self._gradient = batch, gram, gradient
        self._found = {} if found is None else found

    def cast(self, dtype: tf.DType) -> "RecallingLinearisation":
        """Return the same in another dtype."""
        return RecallingLinearisation(self._batch.cast(dtype), self._gram, self._gradient, self._found)

    def gradient(self) -> Tensor:
        """Return g + h `[p]`."""
        return self.gram_and_gradient()[1]

    def gram_and_gradient(self) -> tuple[Tensor, Tensor]:
        """Return JᵀJ + H `[p, p]` and g + h `[p]`."""
        if self.dtype not in self._found:
            gram, gradient = self._batch.gram_and_gradient()
            recalled = tf.cast(self._gram, self.dtype), tf.cast(self._gradient, self.dtype)
            self._found[self.dtype] = gram + recalled[0], gradient + recalled[1]
        return self._found[self.dtype]

    def with_prior(self, dtype: tf.DType) -> tuple[Tensor, Tensor]:
        """Return JᵀJ + H + Λ `[p, p]` and g + h `[p]` in a dtype."""
        gram, gradient, precision, _ = Equations.of(self, dtype)
        if self.prior.is_zero:
            return gram, gradient
        return tf.linalg.set_diag(gram, tf.linalg.diag_part(gram) + precision), gradient
