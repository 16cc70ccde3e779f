"""Costs, gradients and normal equations of n fits, `[n]`, `[n, p]` and `[n, p, p]`."""

from typing import Any, NamedTuple

import tensorflow as tf

from tfjac.drive.many_fits.placed_residuals import PlacedResiduals
from tfjac.graph import inline_calls, lean_function
from tfjac.jacobians.batch import example_blocks
from tfjac.objective.residuals import units_of
from tfjac.objective.robust import influence, losses_of
from tfjac.ops import example_grams
from tfjac.types import Tensor


class Linearised(NamedTuple):
    """F, JᵀJ and g of n fits: `[n]`, `[n, p, p]` and `[n, p]`."""

    cost: tf.Tensor
    gram: tf.Tensor
    gradient: tf.Tensor

    @classmethod
    def nowhere(cls, values: Tensor) -> "Linearised":
        """Return zeros for fits of parameters `[n, p]`."""
        zeros = tf.zeros_like(values)
        return cls(zeros[:, 0], zeros[:, None] * zeros[:, :, None], zeros)

    def reduction(self, step: Tensor) -> Tensor:
        """Return by how much the model says that steps `[n, p]` lower the cost, `[n]`."""
        slope = tf.reduce_sum(self.gradient * step, axis=1)
        curved = tf.reduce_sum(self.gram * step[:, None], axis=2)
        return -(slope + tf.reduce_sum(step * curved, axis=1) / 2)


class FitObjective:
    """F = ½‖r‖² of n fits, or that of robust losses, as a function of their parameters `[n, p]` and their data.

    Args:
        losses: what `get_losses` returned.
        jit_compile: whether to compile residuals and Jacobians with XLA.
    """

    def __init__(self, placed: PlacedResiduals, losses: Any, jit_compile: bool) -> None:
        self._placed, self._losses = placed, losses_of(losses, len(placed.shapes))
        self._rows = lean_function(self._rows_and_jacobian, jit_compile=True if jit_compile else None)
        self._ended = lean_function(self._rows_at_the_end, jit_compile=True if jit_compile else None)
        self._costs = lean_function(self._costs_of_rows, jit_compile=True if jit_compile else None)
        self.columns = placed.columns

    def linearise(self, values: Tensor, data: list[Tensor], unit: Tensor, fresh: Tensor) -> tuple[Linearised, Tensor]:
        """Return the `Linearised` at `values`, and the unit of each fit.

        Args:
            values: `[n, p]`.
            data: list of tensors, as of `placed`.
            unit: `[n]`, what the residuals of each fit are measured in.
            fresh: `[n]`, bool: those whose unit is still to be found.
        """
        cost, residual, jacobian, unit = self._rows(values, data, unit, fresh)
        return Linearised(cost, *example_grams(jacobian, residual)), unit

    def costs(self, values: Tensor, data: list[Tensor], unit: Tensor) -> Tensor:
        """Return F, `[n]`; the arguments are those of `linearise`."""
        return self._costs(values, data, unit)

    def at_the_end(self, values: Tensor, data: list[Tensor]) -> tuple[Tensor, ...]:
        """Return what the errors of n fits come from, without the weights of robust losses.

        Returns:
            JᵀJ `[n, p, p]`, Σψ² `[n]` and Σψ′ `[n]`, in float64, and how many residuals count `[n]`: not those that
            are masked, whose ψ′ is left out, too.
        """
        residual, jacobian, squares, bends = self._ended(values, data)
        counts = tf.reduce_any(tf.not_equal(jacobian, 0), axis=2) | tf.not_equal(residual, 0)
        gram, _ = example_grams(tf.cast(jacobian, tf.float64), tf.cast(residual, tf.float64))
        sums = [tf.reduce_sum(tf.cast(tf.where(counts, each, 0), tf.float64), axis=1) for each in (squares, bends)]
        return gram, *sums, tf.reduce_sum(tf.cast(counts, tf.int32), axis=1)

    def _costs_of_rows(self, values: Tensor, data: list[Tensor], unit: Tensor) -> Tensor:
        column = unit[:, None]
        pairs = zip(self._residuals(values, data), self._losses)
        return tf.add_n([_cost(block / column, loss, column) for block, loss in pairs])

    def _rows_at_the_end(self, values: Tensor, data: list[Tensor]) -> tuple[Tensor, ...]:
        """Return r `[n, m]`, J `[n, m, p]`, and ψ² and ψ′ of each residual, both `[n, m]`."""
        values = tf.identity(values)
        blocks = self._residuals(values, data)
        squares, bends, _ = zip(*(influence(*each) for each in zip(blocks, self._losses)))
        (residual,) = inline_calls([tf.concat(blocks, axis=1)], depends_on=[values])
        (jacobian,) = example_blocks(residual, [values], (None, None))
        return residual, jacobian, tf.concat(squares, axis=1), tf.concat(bends, axis=1)

    def _rows_and_jacobian(self, values: Tensor, data: list[Tensor], unit: Tensor, fresh: Tensor) -> tuple[Tensor, ...]:
        """Return F `[n]`, r `[n, m]`, J `[n, m, p]`, by the residuals in units of the last one returned, `[n]`."""
        values = tf.identity(values)
        blocks = self._residuals(values, data)
        unit = tf.where(fresh, units_of(tf.concat(blocks, axis=1)), unit)
        column = tf.stop_gradient(unit)[:, None]
        pairs = [(block / column, loss) for block, loss in zip(blocks, self._losses)]
        cost = tf.add_n([_cost(*pair, column) for pair in pairs])
        rows = [block if loss is None else loss.linearised(block, column) for block, loss in pairs]
        (residual,) = inline_calls([tf.concat(rows, axis=1)], depends_on=[values])
        (jacobian,) = example_blocks(residual, [values], (None, None))
        return cost, residual, jacobian, unit

    def _residuals(self, values: Tensor, data: list[Tensor]) -> list[Tensor]:
        """Return the residuals at `values` `[n, p]`, a list of `[n, m]`."""
        tensors = self._placed.tensors(self.columns.split(values), data)
        sizes = [shape[1:].num_elements() for shape in self._placed.shapes]
        return [tf.reshape(tensor, [-1, size]) for tensor, size in zip(tensors, sizes)]


def _cost(residual: Tensor, loss: Any, unit: Tensor) -> Tensor:
    return tf.reduce_sum(tf.square(residual), 1) / 2 if loss is None else loss.cost(residual, unit, axis=1)
