"""A minimisation that is ready to run: arguments checked, residuals traced, and the graph of its steps at hand."""

from functools import partial

import tensorflow as tf

from tfjac.arguments import positive_integer
from tfjac.optimizers.fitting.many_fits import refuse_without_batches
from tfjac.optimizers.fitting.supervision import Supervisor
from tfjac.optimizers.fitting.traced import TracedMinimisation
from tfjac.optimizers.loop.options import Settings
from tfjac.optimizers.tracing.callables import as_data, function_of_data
from tfjac.optimizers.tracing.traced_residuals import TracedResiduals, traceable
from tfjac.optimizers.tracing.traces import TraceCache, as_one_call
from tfjac.optimizers.variables import check_within_reach, checked_variables


def checked(variables):
    """Return a nest of variables as a list, checked."""
    flat = checked_variables(tf.nest.flatten(variables))
    check_within_reach(flat)
    return flat


class Limits:
    """The options of `least_squares` that are no part of a graph: within what to minimise, and how long."""

    def __init__(self, variables, options):
        self._variables, self._max_steps = variables, positive_integer("max_steps", options.max_steps)
        self.conditions, watched = options.conditions(variables), (options.callback, options.verbose)
        kept = options.checkpoint, self.conditions.equations
        self._supervisor = Supervisor(*watched, options.time_limit, *kept)

    def run(self, minimisation, data):
        """Run a `TracedMinimisation` with data, a list of tensors."""
        conditions = self.conditions.tensors()
        if tf.executing_eagerly():
            with as_one_call():
                return minimisation(data, self._variables, conditions, self._max_steps, self._supervisor)
        if self._supervisor.is_needed:
            raise ValueError(
                "callback, verbose, time_limit and checkpoint are for calls outside of a tf.function: in one there is "
                "no Python between steps. Received: one of them, in a graph"
            )
        return minimisation.in_graph(data, self._variables, conditions, self._max_steps)


_TRACES, _FUNCTIONS = TraceCache(), TraceCache()
"""Minimisations traced by eager calls, by graphs and by functions that compute by known constants alone."""


def _form(variables, args, settings):
    """Return all but the residuals that their trace depends on, hashable; None where it may depend on more."""
    composite = any(isinstance(each, tf.__internal__.CompositeTensor) for each in tf.nest.flatten(args))
    if not tf.executing_eagerly() or composite or settings.recipe is None or tf.distribute.has_strategy():
        return None
    structures = [repr(tf.nest.map_structure(lambda _: 0, nest)) for nest in (variables, args)]
    specs = [(tuple(tensor.shape), tensor.dtype, tensor.device) for tensor in tf.nest.flatten(args)]
    return (*structures, *specs, settings.recipe)


class Prepared:
    """Residuals that were traced, and the minimisation that goes with them: traced, or one from an earlier call.

    Args:
        residuals, variables, args: as of `least_squares`.
        options: `Options`.
    """

    def __init__(self, residuals, variables, args, options):
        refuse_without_batches(options)
        self._flat = flat = checked(variables)
        self._limits = Limits(variables, options)
        settings = Settings.of(options, flat, self._limits.conditions)
        args = as_data(args, flat)

        def traced():
            function = traceable(function_of_data(residuals, variables, args), flat)
            traced = TracedResiduals(function.get_concrete_function(*args), flat)
            make = partial(TracedMinimisation, traced, flat, settings)
            return traced, _TRACES.get(traced, flat, settings.recipe, make) if tf.executing_eagerly() else make()

        form = _form(variables, args, settings)
        self._traced, self._minimisation = _FUNCTIONS.get_by_constants(residuals, flat, form, traced)

    def run(self, args):
        """Minimise from where the variables are, for data of the shapes and dtypes of `args`."""
        return self._limits.run(self._minimisation, self._traced.data(as_data(args, self._flat)))


class SingleProblem:
    """Residuals to be minimised more than once; see `LeastSquaresProblem`.

    Args:
        residuals, variables: as of `least_squares`.
        options: `Options`.
    """

    def __init__(self, residuals, variables, options):
        refuse_without_batches(options)
        self._variables, self._flat = variables, checked(variables)
        self._limits = Limits(variables, options)
        self._settings = Settings.of(options, self._flat, self._limits.conditions)
        self._residuals, self._function, self._minimisations = residuals, None, {}

    def solve(self, args):
        """Minimise from where the variables are, with a tuple of data."""
        minimisation, args = self._minimisation(args)
        return self._limits.run(minimisation, minimisation.residuals.data(args))

    def plan(self, args):
        """Return the `Plan` of the steps for data like `args`.

        Raises:
            ValueError: inside a `tf.function`.
        """
        if not tf.executing_eagerly():
            raise ValueError("plan is for calls outside of a tf.function. Received: a call in a graph")
        return self._minimisation(args)[0].plan(self._flat)

    def _minimisation(self, args):
        """Return the `TracedMinimisation` for data like `args`, traced where there is none yet, and the data."""
        args = as_data(args, self._flat)
        if self._function is None:
            residuals = function_of_data(self._residuals, self._variables, args)
            self._function = traceable(residuals, self._flat, reduce_retracing=True)
        concrete = self._function.get_concrete_function(*args)
        minimisation = self._minimisations.get(concrete)
        if minimisation is None:
            minimisation = TracedMinimisation(TracedResiduals(concrete, self._flat), self._flat, self._settings)
            if tf.executing_eagerly():
                self._minimisations[concrete] = minimisation
        return minimisation, args
