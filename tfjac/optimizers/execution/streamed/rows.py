"""The last rows of J as a memory, for networks whose JᵀJ is too large: N rows, and their kernel.

What is remembered is ½‖r + Jδ‖² of the last N residuals, each linearised when its batch came. A batch takes the place
of the oldest rows. The step is solved for in the space of the residuals:

    p = −Jᵀ(JJᵀ + λI)⁻¹ r

Only the rows of the batch are new in JJᵀ, and those of dense layers are kept as products of two vectors. So for k
residuals of layers of i inputs and o outputs each, a step costs k·N·Σ(i + o) for JJᵀ, N³/6 for its factor, and some
products with J, N·p each. Afterwards r ← r + Jp. Nothing fades: a residual has full weight until it leaves.

Where an example has many outputs, all its rows would fill the window. There one row stands for them, the sum of all
with random signs: the expectation of its product with itself is their JᵀJ. It says nothing of r, so that g is that of
the batch alone, and curvature is all that is remembered:

    p = −(JᵀJ + λI)⁻¹ g
"""

import tensorflow as tf

from tfjac.graph import eager_creation
from tfjac.jacobians.factors.forms import DenseFactor
from tfjac.jacobians.operator import JacobianOperator
from tfjac.optimizers.columns import Columns
from tfjac.optimizers.conditions.prior import Prior
from tfjac.optimizers.contracts import LinearModel, Objective
from tfjac.optimizers.execution.streamed.kept_rows import KeptRows, drawn
from tfjac.optimizers.execution.streamed.recalling import BatchMemory, RecallingObjective, all_finite, as_computed_in
from tfjac.optimizers.linear_model import Linearisation
from tfjac.optimizers.linear_model.stacked import StackedJacobian
from tfjac.optimizers.solvers import KernelSolver

MOST_NUMBERS = 2**24
"""Numbers of J that are kept at most: each step reads them several times."""


class RowModel(BatchMemory):
    """J, r `[N]` and JJᵀ `[N, N]` of the last residuals, each times √d of its batch.

    The variables of J are made while the first batch is traced: its factors say of what form they are.

    Args:
        add: function from a name, a shape and a dtype to a new variable of the optimizer.
        columns: `Columns` of the parameters.
        dtype: of J, r and JJᵀ.
        window: N.
        draws: whether one row stands for all of an example.
    """

    def __init__(self, add, columns: Columns, dtype, window, draws=False):
        self._draws, self._drawn = draws, add("batches_drawn", (), "int64")
        self.damping_of_other_losses = 1.0 if draws else 6.0
        self._kernel, self._residual = add("kernel", (window, window), dtype), add("residuals_kept", (window,), dtype)
        self._weights, self._next = add("weights_kept", (window,), dtype), add("next_row", (), "int64")
        self._centre = add("centre_of_remembered", (columns.total,), dtype)
        self.dtype, self.solver, self._window, self._columns = dtype, KernelSolver(), window, columns
        self._add = add
        self._rows: list[KeptRows] = []

    def takes(self, batch: LinearModel):
        """Return whether a batch has no more than N residuals, and factors of the form that is kept.

        Rows of convolutions, and of other layers that use a weight many times, are kept as they are. If these are too
        many numbers, nothing is kept.
        """
        factors, count = _factors_of(batch), batch.num_rows
        if self._draws and len(batch.jacobian.operators) != 1:
            return False
        if self._draws:
            factors, count = self._drawn_of(batch)
        given = list(zip(factors, self._columns.sizes))
        if self._window * sum(KeptRows.numbers_of(factor, size) for factor, size in given) > MOST_NUMBERS:
            return False
        if not self._rows:
            with eager_creation():
                self._rows = [
                    KeptRows(self._add, f"rows_{index}", factor, size, self._window, self.dtype)
                    for index, (factor, size) in enumerate(given)
                ]
        takes = [kept.takes(factor) for kept, factor in zip(self._rows, factors)]
        known = [each for each in takes if isinstance(each, bool)]
        fits = count <= self._window
        return all(known) and tf.reduce_all(tf.stack([fits, *(each for each in takes if not isinstance(each, bool))]))

    def decay(self, seen, rows):
        """Return one, or zero at the beginning."""
        return tf.where(seen > 0, tf.ones_like(seen), tf.zeros_like(seen))

    def recalled(self, objective: Objective, batch: LinearModel, decay, weight):
        """Return the `RecallingObjective`, and diag(JᵀJ) of the batch."""
        dtype, batch = batch.dtype, as_computed_in(batch, self.dtype)
        diagonal = batch.diagonal()
        position = tf.cast(objective.position(objective.values()), self.dtype)
        window = self._with_batch(batch, self._kept(position, decay > 0), tf.cast(weight, self.dtype))
        says_something = tf.reduce_any(tf.not_equal(diagonal, 0))
        scale = tf.math.reciprocal_no_nan(tf.cast(weight, self.dtype)) * tf.cast(says_something, self.dtype)
        jacobian = self._jacobian(window.rows, self._window)
        gradient = batch.gradient() - batch.prior.gradient if self._draws else None
        linearisation = RecallingRows(batch, window, jacobian, scale, dtype, gradient)
        return RecallingObjective(objective, linearisation, linearisation.remembered), diagonal

    def _jacobian(self, rows, count):
        """Return the `StackedJacobian` of rows, a list for each variable as `KeptRows` has them."""
        factors = [kept.factor(each) for kept, each in zip(self._rows, rows)]
        operator = JacobianOperator(factors, self._columns.shapes, count, 1)
        return StackedJacobian([operator], [count], self._columns, self.dtype)

    def _kept(self, position, has_begun):
        """Return what is kept as a `Window`, its residuals around `position` `[p]`; zeros unless `has_begun`."""
        rows = [[variable.value.read_value() for variable in kept.variables] for kept in self._rows]
        numbers = [each.value.read_value() for each in (self._kernel, self._residual, self._weights)]
        zeros = lambda: tf.nest.map_structure(tf.zeros_like, (rows, numbers))  # noqa: E731
        rows, (kernel, residual, weights) = tf.cond(has_begun, lambda: (rows, numbers), zeros)
        moved = position - self._centre.value.read_value()
        far = tf.reduce_any(tf.not_equal(moved, 0)) & (not self._draws)
        along = lambda: self._jacobian(rows, self._window).matvec(moved)  # noqa: E731
        residual += tf.cond(far, along, lambda: tf.zeros_like(residual))
        return Window(rows, kernel, residual, weights, tf.ones_like(residual), self._next.value.read_value())

    def _with_batch(self, batch, window, weight):
        """Return the `Window` in which a batch has taken the place of the oldest rows.

        Args:
            batch: its `LinearModel`; weight: scalar, d.
            window: `Window`, what is kept.
        """
        factors, rows, residual = _factors_of(batch), batch.num_rows, tf.sqrt(weight) * batch.residual
        if self._draws:
            factors, rows = self._drawn_of(batch)
            residual = tf.zeros([rows], self.dtype)
        root, count = tf.sqrt(weight), tf.cast(rows, tf.int64)
        places = ((window.following + tf.range(count)) % self._window)[:, None]
        put = lambda kept, new: tf.tensor_scatter_nd_update(kept, places, new)  # noqa: E731
        new = [kept.rows_of(factor, rows, root) for kept, factor in zip(self._rows, factors)]
        rows = [[put(old, each) for old, each in zip(*pair)] for pair in zip(window.rows, new)]
        products = tf.add_n([kept.products(*pair) for kept, *pair in zip(self._rows, new, rows)])
        share = tf.fill([count], weight / tf.cast(tf.maximum(count, 1), self.dtype))
        is_old = put(window.is_old, tf.zeros_like(share))
        kernel = put(window.kernel, products)
        kernel = tf.where(is_old > 0, kernel, tf.transpose(kernel))
        residual, weights = put(window.residual, residual), put(window.weights, share)
        return Window(rows, kernel, residual, weights, is_old, window.following + count)

    def _drawn_of(self, batch):
        """Return the factors of a batch with one row for each example, and how many these are.

        Signs follow from how many batches there were, so that a saved optimizer goes on with the same ones.
        """
        examples, outputs = batch.jacobian.operators[0].examples_and_outputs
        seed = tf.stack([self._drawn.value.read_value(), 0])
        bits = tf.random.stateless_uniform([examples, outputs], seed, 0, 2, tf.int32)
        signs = tf.cast(2 * bits - 1, batch.dtype)
        return [drawn(factor, signs) for factor in batch.jacobian.operators[0].factors], examples

    def remember(self, recalling: RecallingObjective, wanted, moved, position, weight):
        """Keep the window with the batch, and its residuals where the step led. J is finite where JJᵀ's diagonal is."""
        window = recalling.linearisation.window
        residual = window.residual
        if not self._draws:
            residual += self._jacobian(window.rows, self._window).matvec(moved)

        def keep():
            for kept, rows in zip(self._rows, window.rows):
                for variable, tensor in zip(kept.variables, rows):
                    variable.value.assign(tensor)
            self._kernel.value.assign(window.kernel)
            self._residual.value.assign(residual)
            self._weights.value.assign(window.weights)
            self._next.value.assign(window.following % self._window)
            self._centre.value.assign(position)
            if self._draws:
                self._drawn.value.assign_add(1)
            return True

        tf.cond(wanted & all_finite(tf.linalg.diag_part(window.kernel), residual), keep, lambda: False)


class Window:
    """Rows of several batches, in the order of their places, each times √d of its batch.

    Attributes:
        rows: of each variable what `KeptRows` has of J; kernel: `[N, N]`, JJᵀ; residual: `[N]`, r.
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
        jacobian: `StackedJacobian` of the window.
        scale: scalar, 1/d.
        dtype: of the linearisation; all other arguments are in that of what is remembered.
        gradient: `[p]`, Jᵀr of the batch, where the rows do not tell; or None.
    """

    def __init__(self, batch, window, jacobian, scale, dtype, gradient=None):
        self._others = scale * tf.reduce_sum(window.is_old * window.weights)
        root = tf.sqrt(scale)
        super().__init__(
            WithKernel.of(jacobian, window.kernel, root).cast(dtype),
            tf.cast(root * window.residual, dtype),
            _times(batch.prior, 1 + self._others, gradient).cast(dtype),
        )
        self.window, self._batch, self._jacobian, self._scale = window, batch, jacobian, scale
        self._gradient = gradient

    def cast(self, dtype):
        """Return the same in another dtype, rounded from that of what is remembered."""
        return RecallingRows(self._batch, self.window, self._jacobian, self._scale, dtype, self._gradient)

    @property
    def has_residuals(self):
        """Return whether the batch has anything but a prior."""
        return self._batch.has_residuals

    def remembered(self, step):
        """Return by how much what is remembered grows with a step `[p]`, a scalar."""
        step = tf.cast(step, self._scale.dtype)
        along = self.window.is_old * self._jacobian.matvec(step)
        rows = self._scale * tf.reduce_sum(along * (self.window.residual + along / 2))
        prior = self._batch.prior
        if prior.is_zero:
            return rows
        return rows + self._others * (tf.tensordot(prior.gradient, step, 1) + prior.quadratic(step) / 2)


class WithKernel(StackedJacobian):
    """Rows of which the kernel is known.

    Args:
        jacobian: `StackedJacobian`.
        kernel: `[N, N]`, its kernel.
    """

    def __init__(self, jacobian: StackedJacobian, kernel):
        super().__init__(jacobian.operators, jacobian.rows, jacobian.columns, jacobian.dtype)
        self._jacobian, self._kernel = jacobian, kernel

    @classmethod
    def of(cls, jacobian, kernel, scale):
        """Return rows times a scale, of which the kernel without it is known."""
        (operator,), columns = jacobian.operators, jacobian.columns
        factors = [factor.scaled(scale) for factor in operator.factors]
        scaled = JacobianOperator(factors, columns.shapes, *operator.examples_and_outputs)
        return cls(StackedJacobian([scaled], jacobian.rows, columns, jacobian.dtype), tf.square(scale) * kernel)

    def cast(self, dtype):
        """Return the same in another dtype."""
        return self if dtype == self.dtype else WithKernel(self._jacobian.cast(dtype), tf.cast(self._kernel, dtype))

    def kernel(self, scales):
        """Return Σ_v scales[v]·J_v J_vᵀ `[N, N]`: what is known, where all scales are the same."""
        same = tf.reduce_all(tf.equal(scales, scales[0]))
        return tf.cond(same, lambda: scales[0] * self._kernel, lambda: self._jacobian.kernel(scales))


def _factors_of(batch):
    """Return the factors of a `LinearModel`, one per variable, of all its rows; None for one that moves none."""
    jacobian = batch.jacobian
    if len(jacobian.operators) == 1:
        return jacobian.operators[0].factors
    return [DenseFactor(part[:, None]) for part in tf.split(jacobian.to_dense(), jacobian.columns.sizes, axis=1)]


def _times(prior, factor, gradient):
    """Return a `Prior` times a scalar, and with a linear part besides, `[p]`, unless that is None."""
    per_variable = None if prior.per_variable is None else factor * prior.per_variable
    pull, is_zero = factor * prior.gradient, prior.is_zero and gradient is None
    pull = pull if gradient is None else pull + gradient
    return Prior(factor * prior.precision, pull, per_variable, is_zero, prior.is_data)
