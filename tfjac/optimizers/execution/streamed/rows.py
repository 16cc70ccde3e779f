"""The last rows of J as a memory, for networks whose JᵀJ is too large: N rows of p numbers, and their kernel.

What is remembered is ½‖r + Jδ‖² of the last N residuals, each linearised when its batch came. A batch takes
the place of the oldest rows. The step is solved for in the space of the residuals:

    p = −Jᵀ(JJᵀ + λI)⁻¹ r

Only the rows of the batch are new in JJᵀ, so a batch of k residuals costs k·N·p for them, and N³/6 for the factor.
After the step r ← r + Jp. Nothing fades: a residual has full weight until it leaves.
"""

import numpy as np
import tensorflow as tf

from tfjac.optimizers.conditions.prior import Prior
from tfjac.optimizers.contracts import JacobianRows, LinearModel, Objective
from tfjac.optimizers.execution.streamed.recalling import BatchMemory, RecallingObjective, all_finite, as_computed_in
from tfjac.optimizers.linear_model import Linearisation
from tfjac.optimizers.solvers import KernelSolver


class RowModel(BatchMemory):
    """J `[N, p]`, r `[N]` and JJᵀ `[N, N]` of the last residuals, each times √d of its batch.

    Args:
        add: function from a name, a shape and a dtype to a new variable of the optimizer.
        size: number of parameters, p.
        dtype: of J, r and JJᵀ.
        window: N.
    """

    def __init__(self, add, size, dtype, window):
        self._rows, self._kernel = add("remembered_rows", (window, size), dtype), add("kernel", (window, window), dtype)
        self._residual, self._weights = add("remembered_residual", (window,), dtype), add("weights", (window,), dtype)
        self._next, self._centre = add("next_row", (), "int64"), add("centre_of_remembered", (size,), dtype)
        self.dtype, self.solver, self._window = dtype, KernelSolver(), window

    def takes(self, rows):
        """Return whether a batch has no more than N residuals."""
        return rows <= self._window

    def decay(self, seen, rows):
        """Return one, or zero at the beginning."""
        return tf.where(seen > 0, tf.ones_like(seen), tf.zeros_like(seen))

    def recalled(self, objective: Objective, batch: LinearModel, decay, weight):
        """Return the `RecallingObjective`, and diag(JᵀJ) of the batch."""
        dtype, batch = batch.dtype, as_computed_in(batch, self.dtype)
        diagonal = batch.diagonal()
        position = tf.cast(objective.position(objective.values()), self.dtype)
        kept = [each.value.read_value() for each in (self._rows, self._kernel, self._residual, self._weights)]
        kept = tf.cond(decay > 0, lambda: kept, lambda: [tf.zeros_like(each) for each in kept])
        window = self._with_batch(batch, kept, position, tf.cast(weight, self.dtype))
        says_something = tf.reduce_any(tf.not_equal(diagonal, 0))
        scale = tf.math.reciprocal_no_nan(tf.cast(weight, self.dtype)) * tf.cast(says_something, self.dtype)
        linearisation = RecallingRows(batch, window, scale, dtype)
        return RecallingObjective(objective, linearisation, linearisation.remembered), diagonal

    def _with_batch(self, batch, kept, position, weight):
        """Return the `Window` in which a batch has taken the place of the oldest rows.

        Args:
            batch: its `LinearModel`; position: `[p]`, where the variables are; weight: scalar, d.
            kept: list of what was kept of J, JJᵀ, r, and the weights of rows.
        """
        rows, kernel, residual, weights = kept
        moved = position - self._centre.value.read_value()
        far = tf.reduce_any(tf.not_equal(moved, 0))
        residual += tf.cond(far, lambda: tf.linalg.matvec(rows, moved), lambda: tf.zeros_like(residual))
        root, count = tf.sqrt(weight), tf.cast(batch.num_rows, tf.int64)
        places = ((self._next.value.read_value() + tf.range(count)) % self._window)[:, None]
        rows = tf.tensor_scatter_nd_update(rows, places, root * batch.jacobian.to_dense())
        residual = tf.tensor_scatter_nd_update(residual, places, root * batch.residual)
        share = tf.fill([count], weight / tf.cast(tf.maximum(count, 1), self.dtype))
        weights = tf.tensor_scatter_nd_update(weights, places, share)
        is_old = tf.tensor_scatter_nd_update(tf.ones_like(residual), places, tf.zeros_like(share))
        new_rows = tf.gather(rows, places[:, 0])
        kernel = tf.tensor_scatter_nd_update(kernel, places, tf.matmul(new_rows, rows, transpose_b=True))
        kernel = tf.where(is_old > 0, kernel, tf.transpose(kernel))
        return Window(rows, kernel, residual, weights, is_old, self._next.value.read_value() + count)

    def remember(self, recalling: RecallingObjective, wanted, moved, position, weight):
        """Keep the window with the batch, and its residuals where the step led. J is finite where JJᵀ's diagonal is."""
        window = recalling.linearisation.window
        residual = window.residual + tf.linalg.matvec(window.rows, moved)

        def keep():
            self._rows.value.assign(window.rows)
            self._kernel.value.assign(window.kernel)
            self._residual.value.assign(residual)
            self._weights.value.assign(window.weights)
            self._next.value.assign(window.following % self._window)
            self._centre.value.assign(position)
            return True

        tf.cond(wanted & all_finite(tf.linalg.diag_part(window.kernel), residual), keep, lambda: False)


class Window:
    """Rows of several batches, in the order of their places, each times √d of its batch.

    Attributes:
        rows: `[N, p]`, J; kernel: `[N, N]`, JJᵀ; residual: `[N]`, r.
        weights: `[N]`, of each row what its batch counts for, d, over its number of rows.
        is_old: `[N]`, one where a row is remembered, zero where it is of the batch.
        following: where the next batch begins, an int64 scalar.
    """

    def __init__(self, rows, kernel, residual, weights, is_old, following):
        self.rows, self.kernel, self.residual = rows, kernel, residual
        self.weights, self.is_old, self.following = weights, is_old, following


class RecallingRows(Linearisation):
    """The `Linearisation` of a batch and what is remembered, in units of the loss of the batch.

    What is quadratic in each parameter, as regularisers are, is part of the loss of every batch of the window.

    Args:
        batch: the `Linearisation` of the batch.
        window: the `Window` with its rows.
        scale: scalar, 1/d.
        dtype: of the linearisation; all other arguments are in that of what is remembered.
    """

    def __init__(self, batch, window, scale, dtype):
        self._others = scale * tf.reduce_sum(window.is_old * window.weights)
        jacobian = ScaledRows(batch.jacobian, window.rows, window.kernel, tf.sqrt(scale)).cast(dtype)
        residual = tf.cast(tf.sqrt(scale) * window.residual, dtype)
        super().__init__(jacobian, residual, _times(batch.prior, 1 + self._others).cast(dtype))
        self.window, self._batch, self._scale = window, batch, scale

    def cast(self, dtype):
        """Return the same in another dtype, rounded from that of what is remembered."""
        return RecallingRows(self._batch, self.window, self._scale, dtype)

    @property
    def has_residuals(self):
        """Return whether the batch has anything but a prior."""
        return self._batch.has_residuals

    def remembered(self, step):
        """Return by how much what is remembered grows with a step `[p]`, a scalar."""
        step = tf.cast(step, self._scale.dtype)
        along = self.window.is_old * tf.linalg.matvec(self.window.rows, step)
        rows = self._scale * tf.reduce_sum(along * (self.window.residual + along / 2))
        prior = self._batch.prior
        if prior.is_zero:
            return rows
        return rows + self._others * (tf.tensordot(prior.gradient, step, 1) + prior.quadratic(step) / 2)


class ScaledRows(JacobianRows):
    """The rows of a window times a scale.

    Args:
        batch: `JacobianRows` of the batch, for what is asked of sizes.
        rows: `[N, p]`; kernel: `[N, N]`, of these rows.
        scale: scalar.
    """

    def __init__(self, batch: JacobianRows, rows, kernel, scale):
        self.operators, self.columns, self.dtype = batch.operators, batch.columns, rows.dtype
        self._batch, self._rows, self._kernel, self._scale = batch, rows, kernel, scale

    def cast(self, dtype):
        """Return the same in another dtype."""
        if dtype == self.dtype:
            return self
        cast = [tf.cast(each, dtype) for each in (self._rows, self._kernel, self._scale)]
        return ScaledRows(self._batch.cast(dtype), *cast)

    def gram_and_gradient(self, vector):
        """Return JᵀJ `[p, p]` and Jᵀu `[p]`."""
        rows = self.to_dense()
        return tf.matmul(rows, rows, transpose_a=True), self.adjoint(vector)

    def kernel(self, scales):
        """Return Σ_v scales[v]·J_v J_vᵀ `[N, N]`: what is kept, where all scales are the same."""
        same = tf.reduce_all(tf.equal(scales, scales[0]))
        weights = tf.repeat(scales, np.asarray(self.columns.sizes))
        kept = lambda: scales[0] * tf.square(self._scale) * self._kernel  # noqa: E731
        return tf.cond(same, kept, lambda: self.weighted_kernel(weights))

    def weighted_kernel(self, weights):
        """Return J diag(weights) Jᵀ, `[N, N]`."""
        return tf.square(self._scale) * tf.matmul(weights * self._rows, self._rows, transpose_b=True)

    def column_norms_squared(self):
        """Return diag(JᵀJ), `[p]`."""
        return tf.square(self._scale) * tf.reduce_sum(tf.square(self._rows), axis=0)

    def factors(self):
        """Return the factors of the batch: of what is remembered there are none."""
        return self._batch.factors()

    def matvec(self, vector):
        """Return J v, `[N]`."""
        return self._scale * tf.linalg.matvec(self._rows, vector)

    def adjoint(self, vector):
        """Return Jᵀu, `[p]`."""
        return tf.linalg.matvec(self._rows, self._scale * vector, transpose_a=True)

    def square(self, vector):
        """Return ‖u‖², a scalar."""
        return tf.reduce_sum(tf.square(vector))

    def to_dense(self):
        """Return J, `[N, p]`."""
        return self._scale * self._rows


def _times(prior, factor):
    """Return a `Prior` times a scalar."""
    per_variable = None if prior.per_variable is None else factor * prior.per_variable
    return Prior(factor * prior.precision, factor * prior.gradient, per_variable, prior.is_zero, prior.is_data)
