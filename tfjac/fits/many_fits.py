"""`least_squares` of many independent fits: its options, checked, and what becomes of the variables."""

import functools
from typing import Any, NoReturn

import tensorflow as tf

from tfjac._warn import warn
from tfjac.arguments import positive_integer
from tfjac.drive.many_fits.fit_columns import FitColumns
from tfjac.drive.many_fits.fit_objective import FitObjective
from tfjac.drive.many_fits.fit_residuals import BatchedResiduals
from tfjac.drive.many_fits.pool import FitData, Found, Pool, at_most, num_fits
from tfjac.drive.many_fits.shards import Shards, checked_devices
from tfjac.drive.many_fits.vanished_fits import VanishedFits, are_asked
from tfjac.drive.options import Options, Settings
from tfjac.fits.implicit import without_derivatives
from tfjac.fits.results.batched_result import BatchedLeastSquaresResult
from tfjac.graph import as_tf_variable, call_outside, lean_function, quiet_function, what_was_said_first
from tfjac.jacobians.passes.chunks import in_chunks
from tfjac.objective.conditions.bounds import Bounds
from tfjac.objective.robust import losses_of
from tfjac.objective.tracing.callables import as_data
from tfjac.objective.tracing.traces import TraceCache, as_one_call
from tfjac.objective.variables import check_within_reach, checked_variables, nested_names, variable_name
from tfjac.steps.conditions import Box
from tfjac.types import Array, Data, Nest, Tensor, Variable

_BYTES = 2**23
"""Of the residuals and J of the fits that are under way at once, unless told otherwise."""

_HOW_FOR_SOME = (
    "make them a function of the variables and of args, all of a number of rows that is known while tracing, where "
    "those with as many rows as there are fits hold what is each fit's own, and of which none goes by its place or "
    "their number."
)

_TRACES = TraceCache()
"""Minimisations traced by eager calls."""


def batched_least_squares(residuals: Any, variables: Nest[Variable], args: Data, options: Options) -> Any:
    """Minimise ½‖r‖² of each of B fits; the arguments are those of `least_squares`, of which it is a part.

    Returns:
        A `BatchedLeastSquaresResult`; inside a `tf.function` an `Outcome` of tensors `[B]`, x in the nest of variables.

    Raises:
        ValueError, TypeError: for bad arguments.
    """
    fits = ManyFits(variables, options)
    args = as_data(args, fits.flat)
    batch = BatchedResiduals(residuals, variables, args)
    return fits.minimised(fits.minimiser(batch, args, _TRACES), batch, args)


class BatchedProblem:
    """Residuals of many fits to be minimised more than once; see `LeastSquaresProblem`.

    Args:
        residuals, variables: as of `least_squares`.
    """

    def __init__(self, residuals: Any, variables: Nest[Variable], options: Options) -> None:
        self._residuals, self._fits = residuals, ManyFits(variables, options)
        self._traced: list[tuple] = []

    def solve(self, args: Data) -> Any:
        """Minimise with `args`, as `batched_least_squares` does, but with what was traced for data like these."""
        args = as_data(args, self._fits.flat)
        minimiser, batch = self._traced_before(args) or self._trace(args)
        return self._fits.minimised(minimiser, batch, args)

    def plan(self, args: Data) -> NoReturn:
        """Refuse: there is nothing to choose.

        Raises:
            ValueError: always.
        """
        raise ValueError(
            "plan is for one problem: with batch_dims=1 there is one solver, solver='cholesky', and chunk_size bounds "
            f"memory. Received: plan of a problem with batch_dims=1, args of {len(args)}"
        )

    def _traced_before(self, args: Data) -> tuple | None:
        """Return what was traced outside of a graph and serves for `args`; None where nothing does."""
        if not tf.executing_eagerly():
            return None
        count = FitColumns(self._fits.flat).count
        of_such = (traced for traced in self._traced if traced[1].are_like(args))
        return next((traced for traced in of_such if traced[0].serves(count, traced[1].data(args))), None)

    def _trace(self, args: Data) -> tuple:
        batch = BatchedResiduals(self._residuals, self._fits.variables, args)
        traced = self._fits.minimiser(batch, args), batch
        if tf.executing_eagerly():
            self._traced.append(traced)
        return traced


class ManyFits:
    """Variables of many fits, and what was asked for, checked; whatever the residuals and their data.

    Args:
        variables: nest of variables `[B, ...]`.

    Attributes:
        variables: as given; flat: the list of them.

    Raises:
        ValueError, TypeError: for bad ones.
    """

    def __init__(self, variables: Nest[Variable], options: Options) -> None:
        _refuse(options)
        self.variables, self.flat = variables, checked_variables(tf.nest.flatten(variables), open_rows=True)
        check_within_reach(self.flat)
        columns, self._limits = FitColumns(self.flat), (options.bounds, options.fixed)
        self._bounds, self._bounded = self._bounds_of(columns), columns.count
        self._settings = Settings.of(options, self.flat, num_parameters=columns.total)
        self._max_steps = positive_integer("max_steps", options.max_steps, or_zero=True)
        size = options.chunk_size
        self._chunk_size = None if size is None else positive_integer("chunk_size", size)
        self._devices = checked_devices(options.devices)

    def minimiser(self, batch: BatchedResiduals, args: Data, traces: TraceCache | None = None) -> "BatchedMinimiser":
        """Return the `BatchedMinimiser` of residuals, traced with `args`, or one of an earlier call.

        Args:
            args: tuple of nests of tensors.
            traces: `TraceCache` of earlier calls; None for none.
        """

        def minimiser() -> "BatchedMinimiser":
            return BatchedMinimiser(batch, args, self._settings, self._chunk_size, self._devices)

        with what_was_said_first():
            if traces is None or not tf.executing_eagerly():
                return minimiser()
            recipe = self._settings.recipe
            recipe = recipe and (recipe, self._bounds.are_given, self._chunk_size, self._devices)
            return traces.get(batch, self.flat if batch.reads_variables else [], recipe, minimiser)

    def minimised(self, minimiser: "BatchedMinimiser", batch: BatchedResiduals, args: Data) -> Any:
        """Minimise with a `BatchedMinimiser` from where the variables are; return what `batched_least_squares` does."""
        columns, data = FitColumns(self.flat), batch.data(args)
        values = [as_tf_variable(variable).read_value() for variable in self.flat]
        box = self._box(columns, values)
        with as_one_call():
            found = minimiser(columns.flatten(values), data, box, tf.constant(self._max_steps))
        x = columns.split(found.values)
        for variable, value in zip(self.flat, x):
            as_tf_variable(variable).assign(value)
        x = tf.nest.pack_sequence_as(self.variables, x)
        if not tf.executing_eagerly():
            return without_derivatives(found.outcome._replace(x=x), "with batch_dims=1", [*values, *data])
        at_the_end = functools.partial(minimiser.at_the_end, found.values, data)
        names, of_squares = nested_names(self.variables), not any(losses_of(self._settings.losses, batch.num_tensors))
        return BatchedLeastSquaresResult.of(found, x, box, tuple(names), batch.num_residuals, of_squares, at_the_end)

    def _box(self, columns: Any, values: Tensor) -> Any:
        """Return the `Box` of `[B, p]` for fits from `values` on; an empty tuple where all are free."""
        if columns.count != self._bounded:
            self._bounds, self._bounded = self._bounds_of(columns), columns.count
        box = self._bounds.box(values)
        return box and Box(*map(columns.rows, box))

    def _bounds_of(self, columns: Any) -> Bounds:
        """Return the `Bounds` of as many fits as there are now."""
        pairs = zip(columns.specs(columns.count), self.flat)
        specs = [tf.TensorSpec(spec.shape, spec.dtype, variable_name(variable)) for spec, variable in pairs]
        return Bounds(tf.nest.pack_sequence_as(self.variables, specs), *self._limits)


class BatchedMinimiser:
    """The minimisation of B fits, traced; outside of a graph, of any number of them if their residuals can be.

    Args:
        args: tuple of nests of tensors, as were traced.
        chunk_size: how many fits are under way at once on a device, or None.
        devices: what `checked_devices` returned.

    Raises:
        ValueError: for several devices and residuals that can be evaluated for all fits only.
    """

    def __init__(
        self,
        residuals: BatchedResiduals,
        args: Data,
        settings: Settings,
        chunk_size: int | None,
        devices: tuple[str, ...] | None,
    ) -> None:
        residuals.check()
        any_number = residuals.for_any(args)
        if settings.jit_compile:
            residuals.for_all.traced.check_compiles()
        self._settings, self._placed = settings, any_number or residuals.for_all
        in_turn, size = any_number is not None, residuals.columns.count
        self._shards = Shards(size, devices)
        if self._shards.several and not in_turn:
            raise ValueError(
                "These residuals can be evaluated for all fits only, so that devices cannot share them: "
                f"{_HOW_FOR_SOME} Received: devices={list(devices or ())} for {size} fits"
            )
        if chunk_size is not None and chunk_size < size and not in_turn:
            warn(
                "tfjac: these residuals can be evaluated for all fits only, so that chunk_size has no effect: "
                f"{_HOW_FOR_SOME} Received: chunk_size={chunk_size} for {size} fits",
            )
        self._at_once = (chunk_size or self._default_size(residuals)) if in_turn else size
        self._in_turn, self._shrinks = in_turn, in_turn and tf.executing_eagerly()
        self._count = None if self._shrinks and devices is None else size
        self._problem = FitObjective(self._placed, settings.losses, settings.jit_compile)
        self._minimised = lean_function(self._minimise)
        self._concrete: Any = None
        self._vanished: Any = None
        self._ended = quiet_function(lambda values, *data: self._linearise(values, list(data)), reduce_retracing=True)

    @staticmethod
    def _default_size(residuals: BatchedResiduals) -> int:
        numbers = residuals.num_residuals * (residuals.columns.total + 3)
        return max(1, _BYTES // (residuals.columns.dtype.size * numbers))

    def __call__(self, values: Tensor, data: list[Tensor], box: Any, max_steps: Any) -> Any:
        """Return what the fits `Found` from `values` `[B, p]` on."""
        if not tf.executing_eagerly():
            return self._told(values, data, box, self._minimised(values, data, box, max_steps))
        if self._concrete is None:
            self._concrete = self._minimised.get_concrete_function(*self._specs(values, data, box), max_steps)
        found = self._concrete(values, data, box, max_steps)
        if not tf.reduce_any(are_asked(found, values, box)):
            return found._replace(vanished=tf.zeros(values.shape, tf.bool))
        if self._vanished is None:
            traced = lean_function(self._told)
            self._vanished = traced.get_concrete_function(*self._specs(values, data, box, found))
        return self._vanished(values, data, box, found)

    def serves(self, count: int, data: list[Tensor]) -> bool:
        """Return whether it minimises `count` fits with `data`, a list of eager tensors."""
        return count == (self._count or count) and self._placed.take(data, count)

    def _specs(self, values: Tensor, data: list[Tensor], *others: Any) -> tuple:
        """Return `tf.TensorSpec` of what it is called with, of any number of fits where it serves for any.

        Args:
            values, data: as above.
            *others: nests of tensors with a row for each fit.
        """

        def of_fits(tensor: Tensor) -> tf.TensorSpec:
            return tf.TensorSpec([self._count, *tensor.shape[1:]], tensor.dtype)

        specs = self._placed.data_specs[: len(data)]
        return of_fits(values), specs, *tf.nest.map_structure(of_fits, others)

    def at_the_end(self, values: Tensor, data: list[Tensor]) -> list[Array]:
        """Return what `FitObjective.at_the_end` does of all fits, NumPy, at `values` `[B, p]`."""
        return [part.numpy() for part in call_outside(self._ended, [values, *data])]

    def _minimise(self, values: Tensor, data: list[Tensor], box: Any, max_steps: Any) -> Found:
        method, limits = self._settings.method, self._settings.limits

        def minimised(values: Tensor, data: FitData, box: Any) -> Any:
            at_once = at_most(num_fits(values), self._at_once)
            return Pool(self._problem, data, values, box, self._shrinks).minimise(at_once, method, limits, max_steps)

        return self._shards.mapped(minimised, values, self._data(data), box)

    def _told(self, values: Tensor, data: list[Tensor], box: Any, found: Found) -> Found:
        """Return what fits `Found`, after a look at those that J says too little of."""

        def told(values: Tensor, data: FitData, box: Any, found: Found) -> Found:
            ended = VanishedFits(self._problem, data, values, box, self._in_turn)
            return ended.told(found, at_most(num_fits(values), self._at_once), self._settings.limits)

        return self._shards.mapped(told, values, self._data(data), box, found)

    def _data(self, data: list[Tensor]) -> FitData:
        return FitData([*data, *self._placed.fixed], self._placed.own)

    def _linearise(self, values: Tensor, data: list[Tensor]) -> Any:
        def linearised(values: Tensor, data: FitData) -> Any:
            size, p = num_fits(values), values.shape[1]

            def some(index: Tensor) -> list[Tensor]:
                return list(self._problem.at_the_end(tf.gather(values, index), data.of(index).tensors))

            sums = [tf.TensorSpec([None], dtype) for dtype in (tf.float64, tf.float64, tf.int32)]
            specs = [tf.TensorSpec([None, p, p], tf.float64), *sums]
            return in_chunks(some, size, specs, at_most(size, self._at_once))

        return self._shards.mapped(linearised, values, self._data(data))


_NOT_WITH_BATCHES = (
    "prior", "equality", "manifolds", "callback", "verbose", "time_limit", "checkpoint", "acceleration", "window",
    "gram_dtype", "memory_budget",
)  # fmt: skip


def _refuse(options: Options) -> None:
    """Raise ValueError for options that batches do not have."""
    for name in _NOT_WITH_BATCHES:
        if options.is_given(name):
            raise ValueError(
                f"{name} does not go together with batch_dims=1: leave it out. Received: {name}="
                f"{getattr(options, name)!r}"
            )
    if options.solver not in ("auto", "cholesky"):
        raise ValueError(
            "With batch_dims=1 the normal equations of each fit are solved, solver='cholesky'. "
            f"Received: solver={options.solver!r}"
        )


def refuse_without_batches(options: Options) -> None:
    """Raise ValueError for options that are for `batch_dims=1` alone."""
    if options.devices is not None:
        raise ValueError(
            "devices is for batch_dims=1: many fits are shared out among them. For one problem, use "
            f"tf.distribute.MirroredStrategy and LevenbergMarquardt. Received: devices={options.devices!r}"
        )
    if options.chunk_size is not None:
        raise ValueError(
            "chunk_size is for batch_dims=1: how many of many fits are under way. "
            f"Received: chunk_size={options.chunk_size!r}"
        )
