"""Residuals of many fits as functions of their parameters and data, in the form of a graph that is placed anywhere.

Residuals that are given the variables can be evaluated for some of the fits: their graph is traced once more, for any
number of fits. Which data are those of each fit, row for row, and which are shared by all, is read off the graph, as is
that no fit depends on another.
"""

import functools

import numpy as np
import tensorflow as tf

from tfjac.graph import (
    Dependence,
    ExampleAxis,
    ExamplesMix,
    Inherited,
    analyse_examples,
    ancestors,
    as_tf_variable,
    bodies_of,
    call_converted,
    inline_calls,
    quiet_function,
)
from tfjac.optimizers.execution.many_fits.fit_columns import FitColumns
from tfjac.optimizers.objective.reached_variables import check_dependence
from tfjac.optimizers.tracing.callables import function_of_data, function_of_values
from tfjac.optimizers.tracing.traced_residuals import TracedResiduals, traceable

_SIZES = {"Shape", "ShapeN", "Size"}
_SHAPE_INPUTS = {"Reshape": (1,), "Fill": (0,), "BroadcastTo": (1,), "Tile": (1,), "Slice": (2,)}
"""Inputs that say what shape a result has, and no more."""

_TRIED = 64
"""Fits that are evaluated on trial."""


class BatchedResiduals:
    """The residuals of B fits, traced for all of them, and where that can be, for any number of them.

    Args:
        residuals: callable, in one of the forms that `least_squares` accepts.
        variables: nest of variables `[B, ...]`.
        args: tuple of nests of tensors.

    Attributes:
        columns: `FitColumns`.
        for_all: `PlacedResiduals` of all fits.

    Raises:
        ValueError: for residuals that are not `[B, ...]`, or that draw at random.
    """

    def __init__(self, residuals, variables, args):
        self._variables, self._flat, self._args = variables, tf.nest.flatten(variables), list(args)
        self.columns = FitColumns(self._flat)
        of_values = function_of_values(residuals, variables, args)
        self._function = function_of_data(residuals, variables, args) if of_values is None else of_values
        self._is_given_values = of_values is not None
        self.for_all = self._placed(self.columns.count)
        self._check_shapes()

    def fingerprint(self):
        """Return what is the same for residuals that come out the same; see `TracedResiduals`."""
        return self.for_all.traced.fingerprint()

    @property
    def num_tensors(self):
        """How many tensors the function returns."""
        return len(self.for_all.shapes)

    @property
    def num_residuals(self):
        """How many residuals a fit has."""
        return sum(shape[1:].num_elements() for shape in self.for_all.shapes)

    def data(self):
        """Return the data of this call, a list of tensors: its arguments, what was captured, and variables' values."""
        traced = self.for_all.traced
        return [*traced.data(self._args), *(traced.read() if tf.executing_eagerly() else traced.read_traced())]

    @property
    def reads_variables(self):
        """Whether residuals read the variables, rather than being given them."""
        return not self._is_given_values

    def check(self):
        """Raise ValueError where a fit depends on the parameters of another, or none on one of the variables."""
        self._in_graph(self._check_apart, self.for_all, self.columns.count)

    @functools.cached_property
    def for_any(self):
        """`PlacedResiduals` of any number of fits; None where they can be evaluated for all of them only."""
        if not self._is_given_values or self.columns.count == 1:
            return None
        own = self._in_graph(self._own_data, self.for_all, self.columns.count)
        if None in own:
            return None
        try:
            self._placed(self.columns.count + 1, own)  # where another number of fits goes wrong, it shows in shapes
            placed = self._placed(None, own)
        except (ValueError, TypeError):
            return None
        alike = placed.shapes_of_one == self.for_all.shapes_of_one
        alike = alike and self._in_graph(lambda values, _, tensors: _go_alone(values, tensors), placed, None)
        return placed if alike and not self._go_by_place(placed) else None

    def _go_by_place(self, placed):
        """Return whether residuals of a fit are others at another place, among others.

        Eagerly that is tried, with some fits from the last one backwards. In a graph nothing may be there to count by.
        """
        if not tf.executing_eagerly():
            return placed.traced.first_op({"Fill", "OnesLike"}) is not None
        index = tf.range(self.columns.count - 1, 0, -max(1, self.columns.count // _TRIED))[:_TRIED]
        values, data = [as_tf_variable(variable).read_value() for variable in self._flat], self.data()
        own = [tf.gather(given, index) if its_own else given for given, its_own in zip(data, placed.own)]
        some = quiet_function(placed.tensors)([tf.gather(value, index) for value in values], own)
        among_all = quiet_function(self.for_all.tensors)(values, data)
        return not all(_are_near(*pair) for pair in zip(some, [tf.gather(each, index) for each in among_all]))

    # -------------------------------------------------------------- tracing

    def _placed(self, count, own=()):
        """Trace the function for so many fits, or any number where None; `own` says which data have a row for each."""
        leaves = tf.nest.flatten(self._args)
        own = list(own) or [False] * len(leaves)
        specs = [_spec(leaf, count) if its_own else tf.type_spec_from_value(leaf) for leaf, its_own in zip(leaves, own)]
        specs = tf.nest.pack_sequence_as(self._args, specs)
        if self._is_given_values:
            values = self.columns.specs(count)
            concrete = traceable(self._of_values, self._flat).get_concrete_function(values, *specs)
        else:
            concrete = traceable(self._function, self._flat).get_concrete_function(*specs)
        return PlacedResiduals(TracedResiduals(concrete, self._flat), self.columns, self._is_given_values, own)

    def _of_values(self, values, *data):
        return call_converted(self._function, tf.nest.pack_sequence_as(self._variables, values), *data)

    def _in_graph(self, read, placed, count):
        """Return what `read(values, data, tensors)` says of `PlacedResiduals` of `count` fits, in their own graph."""
        said = []

        def reading(values, *data):
            tensors = inline_calls(placed.tensors(values, list(data)), depends_on=[*values, *data])
            said.append(read(values, list(data), tensors))

        specs = self.columns.specs(count)
        tf.function(reading, autograph=False).get_concrete_function(specs, *placed.data_specs)
        return said[-1]

    # -------------------------------------------------------------- what is read off the graph

    def _check_shapes(self):
        if self.for_all.traced.drawn_specs:
            raise ValueError(
                "With batch_dims=1 residuals must not draw at random, nor act on anything: draw before, and pass what "
                f"was drawn as args. Received: {self._function!r}"
            )
        shapes, count = self.for_all.shapes, self.columns.count
        if any(shape.rank == 0 or not shape.is_fully_defined() or shape[0] != count for shape in shapes):
            raise ValueError(
                "With batch_dims=1 residuals have the fits along their first axis, as the variables have, and as many "
                "for each fit, a number that is known while tracing: where a fit has fewer, make the rest zero. "
                f"Received: residuals {', '.join(map(str, shapes))} for {count} fits"
            )

    def _check_apart(self, values, _, tensors):
        check_dependence(tensors, self._flat, Dependence(values), "residuals")
        try:
            analysis = analyse_examples(values, tensors, by_value=True)
        except ExamplesMix as mixing:
            raise _mixing(mixing) from mixing
        for value in values:
            if not _is_by_row(analysis.axis(value)) and self.columns.count > 1:
                raise _mixing(f"all fits use {value.name!r} of shape {value.shape}")

    def _own_data(self, values, data, tensors):
        """For each argument, whether each fit uses its own row alone; None where there are as many, and it does not.

        None, too, where data have rows whose number is not known while tracing: there may be one for each fit.
        """
        arguments = tf.nest.flatten(self._args)
        if any(not tf.is_tensor(argument) for argument in arguments) or any(map(_has_open_rows, data)):
            return [None]
        return [self._is_own(given, values, tensors) for given, _ in zip(data, arguments)]

    def _is_own(self, given, values, tensors):
        if given.shape.rank == 0 or given.shape[0] != self.columns.count:
            return False
        return True if _is_apart([*values, given], tensors) else None


class PlacedResiduals:
    """The residuals of n fits, where their graph is placed.

    Args:
        traced: `TracedResiduals`, of values and data, or of data alone where they read the variables.
        columns: `FitColumns`.
        is_given_values: which of the two.
        own: for each datum whether it has a row for each fit, rather than being shared; those left out are shared.

    Attributes:
        traced, columns: as given.
        shapes: list of the static shapes of the residuals.
    """

    def __init__(self, traced, columns, is_given_values, own):
        self.traced, self.columns, self._is_given_values = traced, columns, is_given_values
        self.own = [*own, *[False] * (len(self.data_specs) - len(own))]
        self.shapes = traced.shapes

    @property
    def shapes_of_one(self):
        """List of the static shapes of the residuals of one fit."""
        return [shape[1:] for shape in self.shapes]

    @property
    def data_specs(self):
        """List of `tf.TensorSpec`, what data are like: those of a call, and what the variables that are read hold."""
        given = self.columns.num_variables if self._is_given_values else 0
        return [*self.traced.specs[given:], *self.traced.handle_specs]

    def tensors(self, values, data):
        """Return the residuals, a list of tensors `[n, ...]` of the current graph.

        Args:
            values: list of tensors `[n, ...]`, in place of what the variables hold.
            data: list of tensors like `data_specs`.
        """
        data, held = data[: len(data) - len(self.traced.handles)], data[len(data) - len(self.traced.handles) :]
        if self._is_given_values:
            return self.traced.place_at([*values, *data], [], held)
        for position, value in zip(self.traced.positions, values):
            if position is not None:
                held[position] = value
        return self.traced.place_at(data, [], held)


def _has_open_rows(tensor):
    return tensor.shape.rank is None or (tensor.shape.rank > 0 and tensor.shape[0] is None)


def _spec(leaf, rows):
    return tf.TensorSpec([rows, *leaf.shape[1:]], leaf.dtype)


def _is_apart(sources, tensors):
    """Return whether each row of `tensors` depends on the same row of each source alone, by value."""
    try:
        analysis = analyse_examples(sources, tensors, by_value=True)
    except ExamplesMix:
        return False
    return all(_is_by_row(analysis.axis(source)) for source in sources)


def _is_by_row(axis):
    return axis in (None, ExampleAxis(0), ExampleAxis(0, inner=None))


def _go_alone(values, tensors):
    """Return whether residuals of any number of fits depend on their own parameters, and not on the number."""
    is_size = Inherited(_made_of_sizes)
    return _is_apart(values, tensors) and not any(map(is_size, tensors))


def _made_of_sizes(op, inputs_are):
    """Whether the values of the outputs of `op` depend on sizes that are open, other than as their shapes."""
    as_shape = _SHAPE_INPUTS.get(op.type, ())
    passed = any(made for index, made in enumerate(inputs_are) if index not in as_shape)
    return [(passed and not _is_known_size(op)) or _reads_sizes(op)] * len(op.outputs)


def _reads_sizes(op):
    """Return whether an op, or one in a body that it calls, reads sizes that are open."""
    if op.type in _SIZES:
        return not all(tensor.shape.is_fully_defined() for tensor in op.inputs)
    called = [attribute.name for attribute in op.op_def.attr if attribute.type in ("func", "list(func)")]
    bodies = [body for name in called for body in bodies_of(op, name)]
    return any(_reads_sizes(inner) for body in bodies for inner in ancestors(body.outputs))


def _is_known_size(op):
    """Return whether an op takes a size that is known from a shape of which another is open."""
    if op.type != "StridedSlice" or op.inputs[0].op.type != "Shape" or op.get_attr("shrink_axis_mask") != 1:
        return False
    begin, shape = tf.get_static_value(op.inputs[1]), op.inputs[0].op.inputs[0].shape
    return begin is not None and shape.rank is not None and shape[int(begin[0])] is not None


def _are_near(some, other):
    """Return whether eager tensors `[n, ...]` are the same but for rounding, row by row."""
    some, other = (np.reshape(each, [len(each), -1]) for each in (some, other))
    largest = np.max(np.abs(other), axis=1, keepdims=True, initial=0, where=np.isfinite(other))
    with np.errstate(invalid="ignore"):  # the difference of infinities; np.isclose takes no row of atol before NumPy 2
        near = np.abs(some - other) <= np.sqrt(np.finfo(other.dtype).eps) * largest
    return (near | (some == other) | (np.isnan(some) & np.isnan(other))).all()


def _mixing(reason):
    return ValueError(
        f"With batch_dims=1 the residuals of a fit must depend on its own parameters alone. Received: {reason}"
    )
