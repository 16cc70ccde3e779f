"""The residuals and their Jacobian where a minimisation ended, whatever its variables hold now."""

import threading

import tensorflow as tf

from tfjac.optimizers.problem.residuals import problem_of_residuals


class FrozenModel:
    """J and r of traced residuals, as functions of data, of what was drawn, and of the values of all variables read.

    The user's variables are left alone: variables of its own, made when it is first asked, take their values.

    Args:
        residuals: `TracedResiduals`.
    """

    def __init__(self, residuals):
        self._residuals, self._lock = residuals, threading.Lock()
        self._variables = self._linearised = None

    def __call__(self, data, drawn, values):
        """Return J `[rows, p]` and r `[rows]`, NumPy.

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
            jacobian, residual = self._linearised(*data, *drawn)
            return jacobian.numpy(), residual.numpy()

    def _trace(self):
        residuals, specs = self._residuals, self._residuals.handle_specs
        self._variables = [tf.Variable(tf.zeros(spec.shape, spec.dtype), trainable=False) for spec in specs]
        handles = [variable.handle for variable in self._variables]
        moved = [self._variables[position] for position in residuals.positions]

        def linearised(*tensors):
            data, drawn = tensors[: len(residuals.specs)], tensors[len(residuals.specs) :]
            linearisation = problem_of_residuals(residuals.place(data, drawn, handles), moved).linearise()
            return linearisation.jacobian.to_dense(), linearisation.residual

        trace = tf.function(linearised, autograph=False)
        self._linearised = trace.get_concrete_function(*residuals.specs, *residuals.drawn_specs)
