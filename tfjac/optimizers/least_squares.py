"""Nonlinear least squares on variables, to convergence, in one graph."""

import tensorflow as tf

from tfjac.optimizers.callables import as_data
from tfjac.optimizers.minimisation import Minimiser, Settings
from tfjac.optimizers.problem.traced_residuals import TracedResiduals, traceable
from tfjac.optimizers.problem.variables import checked_variables
from tfjac.optimizers.traces import TraceCache


@tf.autograph.experimental.do_not_convert
def least_squares(
    residuals,
    variables,
    max_steps=1000,
    ftol=None,
    xtol=None,
    gtol=None,
    *,
    args=(),
    damping="nielsen",
    scaling="more",
    solver="auto",
    max_attempts=30,
    min_gain=1e-3,
    jit_compile=False,
):
    """Minimise ½‖residuals(*args)‖² over variables by the Levenberg-Marquardt method.

    The whole minimisation runs inside one graph: every step linearises the residuals, solves for a step, and keeps it
    if the cost fell as predicted, or else puts the variables back and tries again with more damping. The cost never
    rises, so that the variables are left at the best point found, whatever the status.

    Args:
        residuals: callable that reads the variables and returns a tensor of any shape, or a nest of them. It is called
            once, to be made a graph, in every call, so that it is always the function that it is now. Where its graph
            is the same one again, but for `args` and the tensors that it captures, all else is used again and the call
            takes milliseconds. A `tf.function` is called by its own rules: not where it was called before. What it
            draws at random, or takes from an iterator, it does once in a call, and it assigns once. Where the leading
            axis is that of independent examples, the Jacobian is found far cheaper.
        variables: nest of `tf.Variable` or `keras.Variable`, all float32 or all float64.
        max_steps: at most so many steps.
        ftol, xtol, gtol: tolerances of the cost, the step and the gradient (formulas in
            `tfjac.optimizers.convergence`); default √ε of the dtype, zero to switch one off.
        args: tuple of the data that `residuals` is called with: nests of tensors, arrays and numbers. Floating-point
            arrays and numbers take the dtype of the variables.
        damping: `"nielsen"`, `"multiplicative"`, `"trust_region"`, or a `Damping`.
        scaling: `"more"`, `"marquardt"`, `"identity"`, or a `Scaling`.
        solver: `"auto"`, `"qr"`, `"cholesky"`, `"kernel"`, `"cg"`, or a `Solver`.
        max_attempts: at most so many attempts with growing damping within a step; after that the status is STALLED.
        min_gain: a step is kept if the actual reduction of the cost exceeds this fraction of the predicted one.
        jit_compile: whether to compile the minimisation with XLA.

    Returns:
        A `LeastSquaresResult`; inside a `tf.function` an `Outcome`, the same fields as tensors.

    Raises:
        ValueError, TypeError: for bad arguments, variables that are not floating-point, residuals that don't depend on
            one of the variables. Numerical trouble never raises: it is a status.

    Cost: per step, one linearisation, and for each attempt one solve and one evaluation; one more linearisation after
    the last step. The first call traces, which takes longer than most minimisations.
    Reference: J. J. Moré, "The Levenberg-Marquardt algorithm: implementation and theory", 1978.
    """
    flat = checked_variables(tf.nest.flatten(variables))
    settings = Settings.of(
        flat, max_steps, ftol, xtol, gtol, damping, scaling, solver, max_attempts, min_gain, jit_compile
    )
    args = as_data(args, flat)
    traced = TracedResiduals(traceable(residuals, flat).get_concrete_function(*args), flat)

    def minimiser():
        return Minimiser(traced, flat, settings)

    kept = _TRACES.get(traced, flat, settings.recipe, minimiser) if tf.executing_eagerly() else minimiser()
    return kept(traced.data(args), variables)


_TRACES = TraceCache()
"""Minimisations traced by eager calls."""


class LeastSquaresProblem:
    """Residuals to be minimised more than once: for other data, or from where the variables are then.

    They are traced by the rules of `tf.function`: once for data of the same shapes and dtypes, and once more for those
    of any size where sizes differ. All that `residuals` reads besides its arguments, the variables and the tensors that
    it captures is a constant of its traces.

    Args:
        residuals: callable that is given the data, reads the variables, and returns a tensor or a nest of them.
        variables: nest of `tf.Variable` or `keras.Variable`, all float32 or all float64.
        **options: as for `least_squares`.
    """

    @tf.autograph.experimental.do_not_convert
    def __init__(self, residuals, variables, **options):
        self.variables = variables
        self._flat = checked_variables(tf.nest.flatten(variables))
        self._settings = Settings.of(self._flat, **options)
        self._function = traceable(residuals, self._flat, reduce_retracing=True)
        self._minimisers = {}

    @tf.autograph.experimental.do_not_convert
    def solve(self, *args):
        """Minimise ½‖residuals(*args)‖² from where the variables are, and leave them at the best point found.

        Args:
            *args: the data, nests of tensors, arrays and numbers.

        Returns:
            A `LeastSquaresResult`; inside a `tf.function` an `Outcome`, the same fields as tensors.
        """
        args = as_data(args, self._flat)
        concrete = self._function.get_concrete_function(*args)
        minimiser = self._minimisers.get(concrete)
        if minimiser is None:
            minimiser = Minimiser(TracedResiduals(concrete, self._flat), self._flat, self._settings)
            if tf.executing_eagerly():
                self._minimisers[concrete] = minimiser
        return minimiser(minimiser.residuals.data(args), self.variables)
