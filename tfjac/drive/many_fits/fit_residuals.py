"""Residuals of many fits as functions of their parameters and data, in the form of a graph that is placed anywhere.

Residuals of all fits become residuals of any number of them in one of two ways. The function is traced once more, for a
number that is open; so sizes that it reads are open, too. Where it captures what has a row for each fit, or reads the
variables, that cannot be: then the graph of all fits is copied, with data of some fits in place of those of all. Which
data are those of each fit, row for row, and which are shared by all, is read off the graph, as is that no fit depends
on another.
"""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import tensorflow as tf

from tfjac.drive.many_fits.apart import are_near, go_alone, has_open_rows, is_apart, is_by_row
from tfjac.drive.many_fits.fit_columns import FitColumns
from tfjac.drive.many_fits.placed_residuals import PlacedResiduals
from tfjac.graph import (
    Dependence,
    ExamplesMix,
    analyse_examples,
    as_tf_variable,
    call_converted,
    inline_calls,
    quiet_function,
)
from tfjac.objective.reached_variables import check_dependence
from tfjac.objective.tracing.callables import function_of_data, function_of_values
from tfjac.objective.tracing.traced_residuals import TracedResiduals, traceable
from tfjac.types import Data, Nest, Residuals, Tensor, Variable

_TRIED = 64
"""Fits that are evaluated on trial."""


class BatchedResiduals:
    """The residuals of B fits, traced for all of them, and where that can be, for any number of them.

    Args:
        residuals: callable, in one of the forms that `least_squares` accepts.
        variables: nest of variables `[B, ...]`.
        args: tuple of nests of tensors, which are not kept.

    Attributes:
        columns: `FitColumns`.
        for_all: `PlacedResiduals` of all fits.

    Raises:
        ValueError: for residuals that are not `[B, ...]`, or that draw at random.
    """

    def __init__(self, residuals: Residuals, variables: Nest[Variable], args: Data) -> None:
        self._variables, self._flat = variables, tf.nest.flatten(variables)
        self._specs = tf.nest.map_structure(tf.type_spec_from_value, list(args))
        self.columns = FitColumns(self._flat)
        of_values = function_of_values(residuals, variables, args)
        self._function = function_of_data(residuals, variables, args) if of_values is None else of_values
        self._is_given_values = of_values is not None
        with self._saying_what_rows_there_are():
            self.for_all = self._placed(self.columns.count)
        self._check_shapes()

    def fingerprint(self) -> tuple:
        """Return what is the same for residuals that come out the same; see `TracedResiduals`."""
        return self.for_all.traced.fingerprint()

    @property
    def num_tensors(self) -> int:
        """How many tensors the function returns."""
        return len(self.for_all.shapes)

    @property
    def num_residuals(self) -> int:
        """How many residuals a fit has."""
        return sum(shape[1:].num_elements() for shape in self.for_all.shapes)

    def data(self, args: Data) -> list[Tensor]:
        """Return the data of a call, a list of tensors: its arguments, what was captured, and variables' values."""
        traced = self.for_all.traced
        return [*traced.data(args), *(traced.read() if tf.executing_eagerly() else traced.read_traced())]

    def are_like(self, args: Data) -> bool:
        """Return whether `args` have the structure of those that were traced, but for the shapes of tensors."""
        specs = tf.nest.map_structure(tf.type_spec_from_value, list(args))
        if _structure(specs) != _structure(self._specs):
            return False
        pairs = zip(tf.nest.flatten(specs), tf.nest.flatten(self._specs))
        return all(given == known or _are_tensors(given, known) for given, known in pairs)

    @property
    def reads_variables(self) -> bool:
        """Whether residuals read the variables, rather than being given them."""
        return not self._is_given_values

    def check(self) -> None:
        """Raise ValueError where a fit depends on the parameters of another, or none on one of the variables."""
        self._in_graph(self._check_apart, self.for_all, self.columns.count)

    def for_any(self, args: Data) -> PlacedResiduals | None:
        """Return the `PlacedResiduals` of any number of fits; None where they can be evaluated for all of them only.

        Args:
            args: tuple of nests of tensors, with which that is tried.
        """
        if self.columns.count == 1:
            return None
        return self._of_any(args, self._traced_again) or self._of_any(args, self._copied)

    def _of_any(self, args: Data, placed_by: Any) -> PlacedResiduals | None:
        """Return the `PlacedResiduals` of an open number of fits, if they are the same residuals; else None.

        Args:
            args: as above.
            placed_by: returns a function from a number of fits, or None, to their `PlacedResiduals`; or None.
        """
        place = placed_by()
        if place is None:
            return None
        try:
            one_more = place(self.columns.count + 1)  # where another number of fits goes wrong, it shows in shapes
            placed = place(None)
        except (ValueError, TypeError):
            return None
        grown = all(shape[0] == self.columns.count + 1 for shape in one_more.shapes)
        alike = grown and placed.shapes_of_one == self.for_all.shapes_of_one
        alike = alike and self._in_graph(lambda values, _, tensors: go_alone(values, tensors), placed, None)
        return placed if alike and not self._go_by_place(args, placed) else None

    def _traced_again(self) -> Callable | None:
        """Return how to trace the function for other fits, where it is given their parameters and what is theirs."""
        own = self._in_graph(self._own_data, self.for_all, self.columns.count) if self._is_given_values else [None]
        return None if None in own else lambda count: self._placed(count, own)

    def _copied(self) -> Callable | None:
        """Return how to copy the graph for other fits, with what they have in place of what all have."""
        count, constants = self.columns.count, self.for_all.traced.constants(self.columns.count)
        whole = PlacedResiduals(self.for_all.traced, self.columns, self._is_given_values, constants=constants)
        if any(map(has_open_rows, whole.data_specs)):
            return None

        def used_by_row(values: Any, data: Any, tensors: Any) -> list:
            return [_is_used_by_row(given, values, tensors) for given in data]

        own = self._in_graph(used_by_row, whole, count)

        def of_values(values: Any, *data: Any) -> list[Tensor]:
            return whole.tensors(values, list(data))

        def copied(count: Any) -> PlacedResiduals:
            specs = [_spec(spec, count) if its_own else spec for spec, its_own in zip(whole.data_specs, own)]
            concrete = tf.function(of_values, autograph=False).get_concrete_function(self.columns.specs(count), *specs)
            traced = TracedResiduals(concrete, self._flat, len(self._flat))
            return PlacedResiduals(traced, self.columns, True, own, fixed=map(_held, constants))

        return copied

    def _go_by_place(self, args: Data, placed: Any) -> bool:
        """Return whether residuals of a fit are others at another place, among others.

        Eagerly that is tried, with some fits from the last one backwards. In a graph nothing may be there to count by.
        """
        if not tf.executing_eagerly():
            return placed.traced.first_op({"Fill", "OnesLike"}) is not None
        index = tf.range(self.columns.count - 1, 0, -max(1, self.columns.count // _TRIED))[:_TRIED]
        values = [as_tf_variable(variable).read_value() for variable in self._flat]
        data = self.data(args)
        own = [*data, *placed.fixed]
        own = [tf.gather(given, index) if its_own else given for given, its_own in zip(own, placed.own)]
        some = quiet_function(placed.tensors)([tf.gather(value, index) for value in values], own)
        among_all = quiet_function(self.for_all.tensors)(values, data)
        return not all(are_near(*pair) for pair in zip(some, [tf.gather(each, index) for each in among_all]))

    # -------------------------------------------------------------- tracing

    def _placed(self, count: Any, own: Sequence = ()) -> PlacedResiduals:
        """Trace the function for so many fits, or any number where None; `own` says which data have a row for each."""
        specs = tf.nest.flatten(self._specs)
        own = list(own) or [False] * len(specs)
        specs = [_spec(spec, count) if its_own else spec for spec, its_own in zip(specs, own)]
        specs = tf.nest.pack_sequence_as(self._specs, specs)
        if self._is_given_values:
            values = self.columns.specs(count)
            concrete = traceable(self._of_values, self._flat).get_concrete_function(values, *specs)
        else:
            concrete = traceable(self._function, self._flat).get_concrete_function(*specs)
        traced = TracedResiduals(concrete, self._flat, len(self._flat) if self._is_given_values else 0)
        return PlacedResiduals(traced, self.columns, self._is_given_values, own)

    def _of_values(self, values: Any, *data: Any) -> Any:
        return call_converted(self._function, tf.nest.pack_sequence_as(self._variables, values), *data)

    def _in_graph(self, read: Callable, placed: Any, count: Any) -> Any:
        """Return what `read(values, data, tensors)` says of `PlacedResiduals` of `count` fits, in their own graph."""
        said = []

        def reading(values: Any, *data: Any) -> None:
            tensors = inline_calls(placed.tensors(values, list(data)), depends_on=[*values, *data])
            said.append(read(values, list(data), tensors))

        specs = self.columns.specs(count)
        tf.function(reading, autograph=False).get_concrete_function(specs, *placed.data_specs)
        return said[-1]

    # -------------------------------------------------------------- what is read off the graph

    @contextlib.contextmanager
    def _saying_what_rows_there_are(self) -> Iterator[None]:
        """Where shapes do not go together, say how many rows there are, as that is the likely reason."""
        try:
            yield
        except ValueError as error:
            count, specs = self.columns.count, tf.nest.flatten(self._specs)
            rows = [spec.shape[0] for spec in specs if isinstance(spec, tf.TensorSpec) and spec.shape.rank]
            if all(each == count for each in rows):
                raise
            raise ValueError(
                f"{error}\n\nWith batch_dims=1 data of each fit have as many rows as the variables have. "
                f"Received: variables of {count} rows, args of {', '.join(map(str, rows))}"
            ) from error

    def _check_shapes(self) -> None:
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

    def _check_apart(self, values: Any, _: Any, tensors: Any) -> None:
        check_dependence(tensors, self._flat, Dependence(values), "residuals")
        try:
            analysis = analyse_examples(values, tensors, by_value=True)
        except ExamplesMix as mixing:
            raise _mixing(mixing) from mixing
        for value in values:
            if not is_by_row(analysis.axis(value)) and self.columns.count > 1:
                raise _mixing(f"all fits use {value.name!r} of shape {value.shape}")

    def _own_data(self, values: Any, data: Any, tensors: Any) -> list:
        """For each argument, whether each fit uses its own row alone; None where there are as many, and it does not.

        None, too, where data have rows whose number is not known while tracing: there may be one for each fit.
        """
        arguments = tf.nest.flatten(self._specs)
        if any(not isinstance(argument, tf.TensorSpec) for argument in arguments) or any(map(has_open_rows, data)):
            return [None]
        return [self._is_own(given, values, tensors) for given, _ in zip(data, arguments)]

    def _is_own(self, given: Any, values: Any, tensors: Any) -> bool | None:
        if given.shape.rank == 0 or given.shape[0] != self.columns.count:
            return False
        return True if is_apart([*values, given], tensors) else None


def _held(constant: Tensor) -> Tensor:
    """Return what a constant of a graph holds, an eager tensor."""
    with tf.init_scope():
        return tf.constant(tf.get_static_value(constant))


def _is_used_by_row(given: Any, values: Any, tensors: Any) -> bool:
    """Return whether `given` has a row for each fit, and each fit uses its own alone."""
    if given.shape.rank == 0 or given.shape[0] != values[0].shape[0]:
        return False
    try:
        axis = analyse_examples([*values, given], tensors, by_value=True).axis(given)
    except ExamplesMix:
        return False
    return axis is not None and is_by_row(axis)


def _structure(nest: Any) -> Any:
    """Return a nest with None for all that is in it, for comparisons."""
    return tf.nest.pack_sequence_as(nest, [None] * len(tf.nest.flatten(nest)))


def _are_tensors(*specs: Any) -> bool:
    return all(isinstance(spec, tf.TensorSpec) for spec in specs)


def _spec(leaf: Any, rows: int | None) -> tf.TensorSpec:
    return tf.TensorSpec([rows, *leaf.shape[1:]], leaf.dtype)


def _mixing(reason: str) -> ValueError:
    return ValueError(
        f"With batch_dims=1 the residuals of a fit must depend on its own parameters alone. Received: {reason}"
    )
