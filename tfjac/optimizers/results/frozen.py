"""The residuals and their Jacobian where a minimisation ended, whatever its variables hold now."""

import threading

import tensorflow as tf

from tfjac.optimizers.problem.residuals import problem_of_residuals
from tfjac.optimizers.problem.robust import losses_of


class FrozenModel:
    """J and r of traced residuals, as functions of data, of what was drawn, and of the values of all variables read.

    With robust losses, Σψ² and Σψ′ too, of ψ = ρ′r and ψ′ = ρ′ + 2zρ″.

    The user's variables are left alone: variables of its own, made when it is first asked, take their values.

    Args:
        residuals: `TracedResiduals`.
        losses: what `get_losses` returned.
        moved: list of the positions, in `residuals.handles`, of the variables that are the columns of J; of those that
            were minimised over where left out.
    """

    def __init__(self, residuals, losses=None, moved=None):
        self._positions = residuals.positions if moved is None else moved
        self._residuals, self._lock = residuals, threading.Lock()
        self._losses = losses_of(losses, residuals.num_tensors)
        self._variables = self._linearised = None

    def __call__(self, data, drawn, values):
        """Return J `[rows, p]`, r `[rows]`, and the pair Σψ² and Σψ′, or None for squares; NumPy.

        Args:
            data: list of tensors like `residuals.specs`.
            drawn: list of tensors, what `residuals.draw` returned.
            values: list of tensors, what the variables in `residuals.handles` held.
        """
        with self._lock, tf.init_scope():
            if self._linearised is None:
                self._trace()
            for variable, value in zip(self._variables, values):
                variable.assign(value)
            jacobian, residual, influence = self._linearised(*data, *drawn)
            return jacobian.numpy(), residual.numpy(), tuple(each.numpy() for each in influence) or None

    def _trace(self):
        residuals, specs = self._residuals, self._residuals.handle_specs
        self._variables = [tf.Variable(tf.zeros(spec.shape, spec.dtype), trainable=False) for spec in specs]
        handles = [variable.handle for variable in self._variables]
        moved = [self._variables[position] for position in self._positions]

        def linearised(*tensors):
            data, drawn = tensors[: len(residuals.specs)], tensors[len(residuals.specs) :]
            tensors = residuals.place(data, drawn, handles)
            linearisation = problem_of_residuals(tensors, moved).linearise()
            return linearisation.jacobian.to_dense(), linearisation.residual, self._influence(tensors)

        trace = tf.function(linearised, autograph=False)
        self._linearised = trace.get_concrete_function(*residuals.specs, *residuals.drawn_specs)

    def _influence(self, tensors):
        if not any(self._losses):
            return ()
        pairs = [_psi(tensor, loss) for tensor, loss in zip(tensors, self._losses)]
        return tuple(tf.add_n([tf.reduce_sum(each) for each in column]) for column in zip(*pairs))


def _psi(residual, loss):
    """Return ψ² and ψ′ of each residual."""
    if loss is None:
        return tf.square(residual), tf.ones_like(residual)
    slope, bend = loss.slopes(tf.square(residual / tf.constant(loss.scale, residual.dtype)))
    return tf.square(slope * residual), slope + 2 * bend
