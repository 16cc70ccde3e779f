"""`least_squares` of many independent fits: its options, checked, and what becomes of the variables."""

import functools

import tensorflow as tf

from tfjac._warn import warn
from tfjac.arguments import positive_integer
from tfjac.graph import as_tf_variable, quiet_function, what_was_said_first
from tfjac.jacobians.passes.chunks import in_chunks
from tfjac.optimizers.conditions.bounds import Bounds, Box
from tfjac.optimizers.execution.many_fits.fit_objective import FitObjective
from tfjac.optimizers.execution.many_fits.fit_residuals import BatchedResiduals
from tfjac.optimizers.execution.many_fits.pool import FitData, Pool
from tfjac.optimizers.execution.many_fits.shards import Shards, checked_devices
from tfjac.optimizers.fitting.implicit import without_derivatives
from tfjac.optimizers.loop.options import Settings
from tfjac.optimizers.objective.robust import losses_of
from tfjac.optimizers.results.batched_result import BatchedLeastSquaresResult
from tfjac.optimizers.tracing.callables import as_data
from tfjac.optimizers.tracing.traces import TraceCache
from tfjac.optimizers.variables import check_within_reach, checked_variables, nested_names

_BYTES = 2**23
"""Of the residuals and J of the fits that are under way at once, unless told otherwise."""

_HOW_FOR_SOME = (
    "make them a function of the variables and of args, all of a number of rows that is known while tracing, where "
    "those with as many rows as there are fits hold what is each fit's own, and of which none goes by its place or "
    "their number."
)

_TRACES = TraceCache()
"""Minimisations traced by eager calls."""


def batched_least_squares(residuals, variables, args, options):
    """Minimise ½‖r‖² of each of B fits; the arguments are those of `least_squares`, of which it is a part.

    Args:
        options: `Options`.

    Returns:
        A `BatchedLeastSquaresResult`; inside a `tf.function` an `Outcome` of tensors `[B]`, x in the nest of variables.

    Raises:
        ValueError, TypeError: for bad arguments.
    """
    flat = checked_variables(tf.nest.flatten(variables))
    check_within_reach(flat)
    _refuse(options)
    args, bounds = as_data(args, flat), Bounds(variables, options.bounds, options.fixed)
    batch = BatchedResiduals(residuals, variables, args)
    settings = Settings.of(options, flat, num_parameters=batch.columns.total)
    max_steps = positive_integer("max_steps", options.max_steps)
    chunk_size = None if options.chunk_size is None else positive_integer("chunk_size", options.chunk_size)
    devices = checked_devices(options.devices)

    def minimiser():
        return BatchedMinimiser(batch, settings, chunk_size, devices)

    recipe = settings.recipe and (settings.recipe, bounds.are_given, chunk_size, devices)
    owners = flat if batch.reads_variables else []
    with what_was_said_first():
        kept = _TRACES.get(batch, owners, recipe, minimiser) if tf.executing_eagerly() else minimiser()
    values = batch.columns.flatten([as_tf_variable(variable).read_value() for variable in flat])
    box = bounds.box(flat)
    box = box and Box(*map(batch.columns.rows, box))
    data = batch.data()
    with what_was_said_first():
        found = kept(values, data, box, tf.constant(max_steps))
    x = batch.columns.split(found.values)
    for variable, value in zip(flat, x):
        as_tf_variable(variable).assign(tf.reshape(value, variable.shape))
    x = tf.nest.pack_sequence_as(variables, x)
    if tf.executing_eagerly():
        at_the_end = functools.partial(kept.at_the_end, found.values, data)
        names, of_squares = nested_names(variables), not any(losses_of(settings.losses, batch.num_tensors))
        return BatchedLeastSquaresResult.of(found, x, box, names, batch.num_residuals, of_squares, at_the_end)
    return without_derivatives(found.outcome._replace(x=x), "with batch_dims=1")


class BatchedMinimiser:
    """The minimisation of B fits, traced.

    Args:
        residuals: `BatchedResiduals`.
        settings: `Settings`.
        chunk_size: how many fits are under way at once on a device, or None.
        devices: what `checked_devices` returned.

    Raises:
        ValueError: for several devices and residuals that can be evaluated for all fits only.
    """

    def __init__(self, residuals, settings, chunk_size, devices):
        residuals.check()
        any_number = residuals.for_any
        if settings.jit_compile:
            residuals.for_all.traced.check_compiles()
        self._settings, self._placed = settings, any_number or residuals.for_all
        in_turn, size = any_number is not None, residuals.columns.count
        self._shards = Shards(size, devices)
        if self._shards.several and not in_turn:
            raise ValueError(
                "These residuals can be evaluated for all fits only, so that devices cannot share them: "
                f"{_HOW_FOR_SOME} Received: devices={list(devices)} for {size} fits"
            )
        if chunk_size is not None and chunk_size < size and not in_turn:
            warn(
                "tfjac: these residuals can be evaluated for all fits only, so that chunk_size has no effect: "
                f"{_HOW_FOR_SOME} Received: chunk_size={chunk_size} for {size} fits",
            )
        self._at_once = (chunk_size or self._default_size(residuals)) if in_turn else size
        self._shrinks = in_turn and tf.executing_eagerly()
        self._problem = FitObjective(self._placed, settings.losses, settings.jit_compile)
        self._minimised, self._concrete = tf.function(self._minimise, autograph=False), None
        self._ended = quiet_function(self._linearise)

    @staticmethod
    def _default_size(residuals):
        numbers = residuals.num_residuals * (residuals.columns.total + 3)
        return max(1, _BYTES // (residuals.columns.dtype.size * numbers))

    def __call__(self, values, data, box, max_steps):
        """Return what the fits `Found` from `values` `[B, p]` on."""
        if not tf.executing_eagerly():
            return self._minimised(values, data, box, max_steps)
        if self._concrete is None:
            self._concrete = self._minimised.get_concrete_function(values, data, box, max_steps)
        return self._concrete(values, data, box, max_steps)

    def at_the_end(self, values, data):
        """Return JᵀJ `[B, p, p]`, float64, and how many residuals count `[B]`, NumPy, at `values` `[B, p]`."""
        with tf.init_scope():
            return [part.numpy() for part in self._ended(values, data)]

    def _minimise(self, values, data, box, max_steps):
        method, limits = self._settings.method, self._settings.limits

        def minimised(values, data, box):
            pool = Pool(self._problem, data, values, box, self._shrinks)
            return pool.minimise(min(values.shape[0], self._at_once), method, limits, max_steps)

        return self._shards.mapped(minimised, values, self._data(data), box)

    def _data(self, data):
        return FitData([*data, *self._placed.fixed], self._placed.own)

    def _linearise(self, values, data):
        def linearised(values, data, box):
            size, p = values.shape

            def some(index):
                return list(self._problem.at_the_end(tf.gather(values, index), data.of(index).tensors))

            specs = [tf.TensorSpec([None, p, p], tf.float64), tf.TensorSpec([None], tf.int32)]
            return in_chunks(some, size, specs, self._at_once)

        return self._shards.mapped(linearised, values, self._data(data))


_NOT_WITH_BATCHES = (
    "prior", "equality", "manifolds", "callback", "verbose", "time_limit", "checkpoint", "acceleration", "window",
    "gram_dtype",
)  # fmt: skip


def _refuse(options):
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


def refuse_without_batches(options):
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
