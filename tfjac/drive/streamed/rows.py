"""The last rows of J as a memory, where JᵀJ is too large and there are no good Kronecker factors: N rows, their kernel.

What is remembered is ½‖r + Jδ‖² of the last N residuals, each linearised when its batch came. A batch takes the place
of the oldest rows. The step is solved for in the space of the residuals:

    p = −Jᵀ(JJᵀ + λI)⁻¹ r

Only the rows of the batch are new in JJᵀ. So for k residuals a step costs k·N·p for JJᵀ, N³/6 for its factor, and some
products with J, N·p each. Afterwards r ← r + Jp. Nothing fades: a residual has full weight until it leaves.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import tensorflow as tf

from tfjac.drive.streamed.recalling import BatchMemory, RecallingObjective, all_finite, as_computed_in, unless_still
from tfjac.graph import cond
from tfjac.linear.columns import Columns
from tfjac.linear.contracts import LinearModel
from tfjac.linear.factors.forms import DenseFactor
from tfjac.linear.model import Linearisation
from tfjac.linear.model.stacked import StackedJacobian
from tfjac.linear.operator import JacobianOperator
from tfjac.linear.solvers import KernelSolver
from tfjac.linear.solvers.base import dot
from tfjac.steps.objective import Objective
from tfjac.types import Tensor

MOST_NUMBERS = 2**24
"""Numbers of J that are kept at most: each step reads them several times."""


class RowModel(BatchMemory):
    """J, r `[N]` and JJᵀ `[N, N]` of the last residuals, each times √d of its batch.

    Args:
        add: function from a name, a shape and a dtype to a new variable of the optimizer.
        columns: `Columns` of the parameters.
        dtype: of J, r and JJᵀ.
        window: N.
    """

    most_share = 1.0
    what = "rows of J"

    def __init__(self, add: Callable, columns: Columns, dtype: tf.DType, window: int) -> None:
        self._kernel, self._residual = add("kernel", (window, window), dtype), add("residuals_kept", (window,), dtype)
        self._weights, self._next = add("weights_kept", (window,), dtype), add("next_row", (), "int64")
        self._centre = add("centre_of_remembered", (columns.total,), dtype)
        self.dtype, self.solver, self._window, self._columns = dtype, KernelSolver(), window, columns
        fits = window * columns.total <= MOST_NUMBERS
        self._rows: Any = add("rows_kept", (window, columns.total), dtype) if fits else None

    def takes(self, batch: LinearModel) -> Any:
        """Return whether a batch has no more than N residuals; False where N rows are too many numbers."""
        return False if self._rows is None else batch.num_rows <= self._window

    def decay(self, seen: Tensor, rows: Tensor) -> Tensor:
        """Return one, or zero at the beginning."""
        return tf.where(seen > 0, tf.ones_like(seen), tf.zeros_like(seen))

    def recalled(
        self, objective: Objective, batch: LinearModel, position: Tensor, decay: Tensor, weight: Tensor
    ) -> tuple[RecallingObjective, Tensor]:
        """Return the `RecallingObjective`, and diag(JᵀJ) of the batch."""
        dtype, batch = batch.dtype, as_computed_in(batch, self.dtype)
        diagonal = batch.diagonal()
        kept = self._kept(tf.cast(position, self.dtype), decay > 0)
        window = self._with_batch(batch, kept, tf.cast(weight, self.dtype))
        says_something = tf.reduce_any(tf.not_equal(diagonal, 0))
        scale = tf.math.reciprocal_no_nan(tf.cast(weight, self.dtype)) * tf.cast(says_something, self.dtype)
        jacobian = self._jacobian(window.rows)
        linearisation = RecallingRows(batch, window, jacobian, scale, dtype)
        return RecallingObjective(objective, linearisation, linearisation.remembered, position), diagonal

    def _jacobian(self, rows: Tensor) -> StackedJacobian:
        """Return the `StackedJacobian` of rows `[N, p]`, each an example with one residual."""
        factors = [DenseFactor(part[:, None]) for part in tf.split(rows, self._columns.sizes, axis=1)]
        operator = JacobianOperator(factors, self._columns.shapes, self._window, 1)
        return StackedJacobian([operator], [self._window], self._columns, self.dtype)

    def _kept(self, position: Tensor, has_begun: Tensor) -> "Window":
        """Return what is kept as a `Window` around `position` `[p]`; zeros unless `has_begun`."""
        numbers = [each.value.value() for each in (self._rows, self._kernel, self._residual, self._weights)]
        zeros = lambda: [tf.zeros_like(each) for each in numbers]  # noqa: E731
        rows, kernel, residual, weights = cond(has_begun, lambda: numbers, zeros)
        window = Window(rows, kernel, residual, weights, tf.ones_like(residual), self._next.value.value())
        return self._moved(window, position - self._centre.value.value())

    def _moved(self, window: "Window", step: Tensor) -> "Window":
        """Return a `Window` around where a step `[p]` leads, which may be zero."""
        residual = window.residual
        along = lambda: residual + self._jacobian(window.rows).matvec(step)  # noqa: E731
        return window._replace(residual=unless_still(step, along, residual))

    def _with_batch(self, batch: LinearModel, window: "Window", weight: Tensor) -> "Window":
        """Return the `Window` in which a batch has taken the place of the oldest rows.

        Args:
            batch: its `LinearModel`; weight: scalar, d.
            window: `Window`, what is kept.
        """
        root, count = tf.sqrt(weight), tf.cast(batch.num_rows, tf.int64)
        places = ((window.following + tf.range(count)) % self._window)[:, None]
        put = lambda kept, new: tf.tensor_scatter_nd_update(kept, places, new)  # noqa: E731
        new = root * batch.jacobian.to_dense()
        rows = put(window.rows, new)
        products = tf.matmul(new, rows, transpose_b=True)
        share = tf.fill([count], weight / tf.cast(tf.maximum(count, 1), self.dtype))
        is_old = put(window.is_old, tf.zeros_like(share))
        kernel = put(window.kernel, products)
        kernel = tf.where(is_old > 0, kernel, tf.transpose(kernel))
        residual, weights = put(window.residual, root * batch.residual), put(window.weights, share)
        return Window(rows, kernel, residual, weights, is_old, window.following + count)

    def remember(
        self, recalling: RecallingObjective, wanted: Tensor, moved: Tensor, position: Tensor, weight: Tensor
    ) -> Any:
        """Keep the window with the batch, around where the step led. J is finite where JJᵀ's diagonal is."""
        window = self._moved(recalling.linearisation.window, moved)
        wanted &= all_finite(tf.linalg.diag_part(window.kernel), window.residual)
        cond(wanted, lambda: self._keep(window, position), lambda: False)

    def _keep(self, window: "Window", position: Tensor) -> bool:
        """Assign all that is kept, and return True."""
        self._rows.value.assign(window.rows)
        self._kernel.value.assign(window.kernel)
        self._residual.value.assign(window.residual)
        self._weights.value.assign(window.weights)
        self._next.value.assign(window.following % self._window)
        self._centre.value.assign(position)
        return True


class Window(NamedTuple):
    """Rows of several batches, in the order of their places, each times √d of its batch.

    Attributes:
        rows: `[N, p]`, J.
        kernel: `[N, N]`, JJᵀ.
        residual: `[N]`, r.
        weights: `[N]`, of each row what its batch counts for, d, over its number of rows.
        is_old: `[N]`, one where a row is remembered, zero where it is of the batch.
        following: where the next batch begins, an int64 scalar.
    """

    rows: tf.Tensor
    kernel: tf.Tensor
    residual: tf.Tensor
    weights: tf.Tensor
    is_old: tf.Tensor
    following: tf.Tensor


class RecallingRows(Linearisation):
    """The `Linearisation` of a batch and what is remembered, in units of the loss of the batch.

    What is quadratic in each parameter, as regularisers are, is part of the loss of every batch of the window.

    Args:
        batch: the `Linearisation` of the batch.
        window: the `Window` with its rows.
        jacobian: `StackedJacobian` of the window.
        scale: scalar, 1/d.
        dtype: of the linearisation; all other arguments are in that of what is remembered.
    """

    def __init__(
        self, batch: LinearModel, window: "Window", jacobian: StackedJacobian, scale: Tensor, dtype: tf.DType
    ) -> None:
        self._others = scale * tf.reduce_sum(window.is_old * window.weights)
        root, prior = tf.sqrt(scale), batch.prior.scaled(1 + self._others)
        (operator,), columns = jacobian.operators, jacobian.columns
        factors = [factor.scaled(root) for factor in operator.factors]
        scaled = JacobianOperator(factors, columns.shapes, *operator.examples_and_outputs)
        rows = WithKernel(scaled, columns, scale * window.kernel).cast(dtype)
        super().__init__(rows, tf.cast(root * window.residual, dtype), prior.cast(dtype))
        self.window, self._batch, self._jacobian, self._scale = window, batch, jacobian, scale

    def cast(self, dtype: tf.DType) -> "RecallingRows":
        """Return the same in another dtype, rounded from that of what is remembered."""
        return RecallingRows(self._batch, self.window, self._jacobian, self._scale, dtype)

    @property
    def has_residuals(self) -> bool:
        """Return whether the batch has anything but a prior."""
        return self._batch.has_residuals

    def remembered(self, step: Tensor) -> Tensor:
        """Return by how much what is remembered grows with a step `[p]`, a scalar."""
        step = tf.cast(step, self._scale.dtype)
        along = self.window.is_old * self._jacobian.matvec(step)
        rows, prior = self._scale * tf.reduce_sum(along * (self.window.residual + along / 2)), self._batch.prior
        return rows + self._others * (dot(prior.gradient, step) + prior.quadratic(step) / 2)


class WithKernel(StackedJacobian):
    """Rows of one block, of which the kernel is known.

    Args:
        operator: `JacobianOperator`.
        columns: `Columns`.
        kernel: `[N, N]`, its kernel.
    """

    def __init__(self, operator: JacobianOperator, columns: Columns, kernel: Tensor) -> None:
        super().__init__([operator], [kernel.shape[0]], columns, kernel.dtype)
        self._kernel = kernel

    def cast(self, dtype: tf.DType) -> "WithKernel":
        """Return the same in another dtype."""
        return WithKernel(self.operators[0].cast(dtype), self.columns, tf.cast(self._kernel, dtype))

    def kernel(self, scales: Tensor) -> Tensor:
        """Return Σ_v scales[v]·J_v J_vᵀ `[N, N]`: what is known, where all scales are the same."""
        same = tf.reduce_all(tf.equal(scales, scales[0]))
        return cond(same, lambda: scales[0] * self._kernel, lambda: super(WithKernel, self).kernel(scales))
