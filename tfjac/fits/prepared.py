"""One problem, ready to run: arguments checked, residuals traced, and the graph of its steps at hand."""

from collections.abc import Callable
from functools import partial
from typing import Any

import tensorflow as tf

from tfjac.arguments import positive_integer
from tfjac.drive.options import Options, Settings
from tfjac.fits.many_fits import refuse_without_batches
from tfjac.fits.results.least_squares_result import LeastSquaresResult
from tfjac.fits.supervision import Supervisor
from tfjac.fits.traced import TracedMinimisation
from tfjac.jacobians.rows import IndicesWanted, noting_structure
from tfjac.linear.solvers.plan import Plan
from tfjac.objective.tracing.callables import as_data, function_of_data
from tfjac.objective.tracing.traced_residuals import TracedResiduals, traceable
from tfjac.objective.tracing.traces import TraceCache, as_one_call
from tfjac.objective.variables import check_within_reach, checked_variables
from tfjac.types import Data, Nest, Residuals, Tensor, Variable


def checked(variables: Nest[Variable]) -> list[Variable]:
    flat = checked_variables(tf.nest.flatten(variables))
    check_within_reach(flat)
    return flat


_TRACES, _FUNCTIONS = TraceCache(), TraceCache()
"""Minimisations traced by eager calls, by graphs and by functions that compute by known constants alone."""


def _form(variables: Nest[Variable], args: Data, settings: Settings) -> tuple | None:
    """Return all but the residuals that their trace depends on, hashable; None where it may depend on more."""
    composite = any(isinstance(each, tf.__internal__.CompositeTensor) for each in tf.nest.flatten(args))
    if not tf.executing_eagerly() or composite or settings.recipe is None or tf.distribute.has_strategy():
        return None
    structures = [repr(tf.nest.map_structure(lambda _: 0, nest)) for nest in (variables, args)]
    specs = [(tuple(tensor.shape), tensor.dtype, tensor.device) for tensor in tf.nest.flatten(args)]
    return (*structures, *specs, settings.recipe)


class SingleProblem:
    """One problem, checked: residuals to be minimised, once or more than once; see `LeastSquaresProblem`.

    Args:
        residuals, variables: as of `least_squares`.
    """

    def __init__(self, residuals: Residuals, variables: Nest[Variable], options: Options) -> None:
        refuse_without_batches(options)
        self._residuals, self._variables, self._flat = residuals, variables, checked(variables)
        self._max_steps = positive_integer("max_steps", options.max_steps, or_zero=True)
        self._conditions, watched = options.conditions(variables), (options.callback, options.verbose)
        self._supervisor = Supervisor(*watched, options.time_limit, options.checkpoint, self._conditions.equations)
        self._settings = Settings.of(options, self._flat, self._conditions)
        self._function: Any = None
        self._trace: Any = None
        self._minimisations: dict[Any, tuple[TracedResiduals, OpenOrKnown]] = {}
        self._prepared: tuple[TracedResiduals, TracedMinimisation] | None = None

    def prepare(self, args: Data) -> "SingleProblem":
        """Trace for data of the shapes and dtypes of `args`, or take what an earlier call has traced; return itself.

        From now on all data are like these.
        """
        flat, settings, args = self._flat, self._settings, as_data(args, self._flat)

        def traced(args: Data = args) -> tuple[TracedResiduals, TracedMinimisation]:
            function = traceable(function_of_data(self._residuals, self._variables, args), flat)
            traced = TracedResiduals(function.get_concrete_function(*args), flat)
            make = partial(TracedMinimisation, variables=flat, settings=settings)
            if not tf.executing_eagerly():
                return traced, make(traced)
            kept = _TRACES.get(traced, flat, settings.recipe, partial(OpenOrKnown, traced, make))
            return kept.choose(traced, traced.data(args), make)

        self._trace, form = traced, _form(self._variables, args, settings)
        self._prepared = _FUNCTIONS.get_by_constants(self._residuals, flat, form, traced)
        return self

    def solve(self, args: Data) -> LeastSquaresResult | Any:
        """Minimise from where the variables are, with a tuple of data."""
        args = as_data(args, self._flat)
        residuals, minimisation = self._of(args)
        data, conditions = residuals.data(args), self._conditions.tensors()
        if tf.executing_eagerly():
            with as_one_call():
                return minimisation(data, self._variables, conditions, self._max_steps, self._supervisor)
        if self._supervisor.is_needed:
            raise ValueError(
                "callback, verbose, time_limit and checkpoint are for calls outside of a tf.function: in one there is "
                "no Python between steps. Received: one of them, in a graph"
            )
        return minimisation.in_graph(data, self._variables, conditions, self._max_steps)

    def _of(self, args: Data) -> tuple[TracedResiduals, TracedMinimisation]:
        """Return what is traced for data: as prepared, unless the integers among them are others than were known."""
        if self._prepared is None:
            return self._traced_for(args)
        residuals, _ = self._prepared
        if not residuals.agrees(residuals.data(args)):
            self._prepared = self._trace(args)
        return self._prepared

    def plan(self, args: Data) -> Plan:
        """Return the `Plan` of the steps for data like `args`.

        Raises:
            ValueError: inside a `tf.function`.
        """
        if not tf.executing_eagerly():
            raise ValueError("plan is for calls outside of a tf.function. Received: a call in a graph")
        return self._traced_for(as_data(args, self._flat))[1].plan(self._flat)

    def _traced_for(self, args: Data) -> tuple[TracedResiduals, TracedMinimisation]:
        """Return the residuals and their minimisation for data like `args`, traced where there is none yet."""
        if self._function is None:
            function = function_of_data(self._residuals, self._variables, args)
            self._function = traceable(function, self._flat, reduce_retracing=True)
        concrete = self._function.get_concrete_function(*args)
        make = partial(TracedMinimisation, variables=self._flat, settings=self._settings)
        if not tf.executing_eagerly():
            residuals = TracedResiduals(concrete, self._flat)
            return residuals, make(residuals)
        if concrete not in self._minimisations:
            residuals = TracedResiduals(concrete, self._flat)
            self._minimisations[concrete] = residuals, OpenOrKnown(residuals, make)
        residuals, kept = self._minimisations[concrete]
        return kept.choose(residuals, residuals.data(args), make)


SIZE = 8
"""How many minimisations to keep, each for integers among the data."""


class OpenOrKnown:
    """What is traced of residuals: one minimisation for any data, or one for each of the integers among them.

    The second is where the structure of J follows from integers, as which cameras see which points, and is sparse. Else
    they would be traced once more for each batch of labels, and nothing would be gained.

    Args:
        residuals: `TracedResiduals`. They are not kept.
        make: from `TracedResiduals` to a `TracedMinimisation`.
    """

    def __init__(self, residuals: TracedResiduals, make: Callable) -> None:
        self._known: dict[bytes, TracedMinimisation] = {}
        try:
            with noting_structure(asks=True):
                self._open = make(residuals)
        except IndicesWanted:
            self._open = None

    def choose(
        self, residuals: TracedResiduals, data: list[Tensor], make: Callable
    ) -> tuple[TracedResiduals, TracedMinimisation]:
        """Return the `TracedResiduals` and the `TracedMinimisation` for some data.

        Args:
            residuals, make: as of the constructor; residuals may be others of the same fingerprint.
            data: list of eager tensors.
        """
        if self._open is not None:
            return residuals, self._open
        known = residuals.knowing(data)
        key = known.known_numbers()
        if key not in self._known:
            with noting_structure(asks=False) as noted:
                made = make(known)
            if not noted.is_compressed:
                self._open = make(residuals)
                return residuals, self._open
            self._known = dict([*self._known.items(), (key, made)][-SIZE:])
        return known, self._known[key]
