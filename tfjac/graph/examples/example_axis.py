"""Which axis of each tensor carries the examples, found backwards from axis 0 of the results.

A rule per op type (`example_rules`) says: for slice n of the output along its example axis to depend on slice n of
each input alone, which axis of the input carries the examples, or none (the input is shared by all examples, as
weights are). Only paths through which a gradient passes count. A tensor that is needed both ways, or an op
without a rule, means that examples mix, as far as can be told: an honest answer, never a guess.
"""

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import tensorflow as tf

from tfjac.graph import _private
from tfjac.graph.examples import example_rules
from tfjac.graph.examples.example_rules import SHARED, Axis, ExampleAxis, NoRule, Wanted
from tfjac.graph.examples.open_sizes import sizes_to_check
from tfjac.graph.facts import calls_functions, facts_of, is_constant, reads_variable
from tfjac.graph.paths.dependence import Dependence, differentiable_inputs
from tfjac.graph.reading.symbolic_sizes import SymbolicSizes
from tfjac.graph.reading.traversal import Inherited, ancestors
from tfjac.types import Tensor


class ExamplesMix(ValueError):
    """Examples depend on one another, or may: `op` is where, `reason` says why. Made by `examples_mix_at`.

    Inside the body of a loop or branch, `within` is the loop or branch, an op of the graph that was analysed.
    """

    op, within, reason = None, None, ""
    __init__ = Exception.__init__  # without one of its own, autograph passes the error on as what it is


def examples_mix_at(op: tf.Operation, reason: str) -> ExamplesMix:
    """Return the error that names `op` as where examples mix."""
    error = ExamplesMix(f"examples mix at op {op.name!r} of type {op.type}: {reason}")
    error.op, error.within, error.reason = op, op, reason
    return error


@dataclasses.dataclass
class ExampleAnalysis:
    """The result of `analyse_examples`.

    Attributes:
        dependence: the `Dependence` on the sources.
        path: the ops from the sources to the results, in topological order.
        axes: for the `ref()` of each tensor on the path, its `ExampleAxis` or `SHARED`.
        input_axes: for the name of each op on the path that carries examples, the axis of every input, on the path or
            not.
        assumed: pairs of a tensor and its `ExampleAxis` whose size is left open by the trace, for the caller to check
            when the graph runs (`jacobians.shapes.check_when_run`).
        insides: for the name of each loop and conditional on the path that carries examples, what its rule found out
            about its bodies (`control_flow.LoopInside`, a list of `control_flow.BranchInside`).
    """

    dependence: Dependence
    path: list[tf.Operation]
    axes: dict[Any, Axis]
    input_axes: dict[str, list[Axis]]
    assumed: list[tuple[Tensor, ExampleAxis]]
    insides: dict[str, Any]

    def axis(self, tensor: Tensor) -> Axis:
        """Return the `ExampleAxis` of `tensor`, `SHARED`, or None where it is not on the path."""
        return self.axes.get(tensor.ref())

    def carries(self, tensor: Tensor) -> bool:
        """Return whether `tensor` is on the path and carries the examples."""
        return isinstance(self.axis(tensor), ExampleAxis)


def analyse_examples(
    sources: Any,
    targets: Sequence[Tensor],
    axes: Sequence[Axis] | None = None,
    num_examples: int | None = None,
    by_value: bool = False,
    proved: Iterable[Tensor] = (),
    takes_rows_of_weights: bool = False,
    as_if_apart: bool = False,
) -> ExampleAnalysis:
    """Find the example axis of every tensor between `sources` and `targets`.

    Args:
        sources: tensors that the Jacobian is taken with respect to, or the handles of variables; or a `Dependence` on
            them.
        targets: list of tensors `[n, ...]`.
        axes: for each target its `ExampleAxis` or `SHARED`, where that is not axis 0 for all.
        num_examples: the static number of examples, where the targets' shapes do not tell.
        by_value: whether every path counts by which a value depends on another, not only those of gradients.
        proved: tensors that are known to hold all examples, whatever their size.
        takes_rows_of_weights: whether what is computed from variables alone may have a row for each example at one op,
            and be used whole at another. It then counts as `SHARED`; `input_axes` tell the two apart.
        as_if_apart: whether what has a row for each example may be used whole, too, as by a mean over the batch. The
            `Dependence` that is returned then leads from the sources no further than to such rows.

    Raises:
        ExamplesMix: where a slice of a target depends on other slices, or where this cannot be decided.
    """
    dependence = sources if isinstance(sources, Dependence) else Dependence(sources, by_value)
    path = dependence.path(targets)
    if axes is None:
        axes = [ExampleAxis(0)] * len(targets)
        num_examples = next((y.shape[0] for y in targets if y.shape[0] is not None), num_examples)
    wanted = WantedAxes(dependence, num_examples, takes_rows_of_weights=takes_rows_of_weights, as_if_apart=as_if_apart)
    for target, axis in zip(targets, axes):
        wanted.want(target.op, target, axis)
    for op in reversed(path):
        wanted.propagate(op)
    wanted.check_sizes(path, proved)
    if as_if_apart:
        dependence = Dependence(dependence.sources, by_value, stops=wanted.with_examples())
    return ExampleAnalysis(dependence, path, wanted.axes, wanted.input_axes, wanted.assumed, wanted.insides)


def data_of(target: Tensor, captured: bool = False) -> list[Tensor]:
    """List the tensors that data enter the graph of `target` by: parameters of the function, and what reads a pipeline.

    Args:
        captured: whether eager values that the function captured are data, and arrays in the code; else constants.
    """
    eager, graph = tf.__internal__.EagerTensor, target.graph
    held = [] if captured else _private.captures_of(graph)
    constant = {inner.ref() for outer, inner in held if isinstance(outer, eager)}
    found = []
    for op in ancestors([target]):
        reads_only_resources = all(x.dtype in (tf.resource, tf.variant) for x in op.inputs)
        is_array = captured and any(x.dtype.is_floating and (x.shape.num_elements() or 0) > 1 for x in op.outputs)
        of_variables = reads_variable(op) or facts_of(op).looks_at == "shapes"
        if not reads_only_resources or (is_constant(op) and not is_array) or of_variables:
            continue
        found += [x for x in op.outputs if x.dtype not in (tf.resource, tf.variant) and x.ref() not in constant]
    return found


def shared_values(sources: Any, targets: Sequence[Tensor]) -> list[Tensor]:
    """List the values through which alone examples depend on one another, as a mean over the batch is one.

    Each is computed from the data of many examples and from the sources, and all examples use it whole. With these
    values given, examples are apart.

    Args:
        sources, targets: as in `analyse_examples`, with the examples along axis 0 of each target.

    Returns:
        A list of different tensors.

    Raises:
        ExamplesMix: where examples depend on one another in another way, or where this cannot be decided.
    """
    dependence = sources if isinstance(sources, Dependence) else Dependence(sources)
    num_examples = next((y.shape[0] for y in targets if y.shape[0] is not None), None)
    wanted = WantedAxes(dependence, num_examples, stops_at_shared=True)
    for target in targets:
        wanted.want(target.op, target, ExampleAxis(0))
    for op in reversed(dependence.path(targets)):
        wanted.propagate(op)
    return list({value.ref(): value for value in wanted.shared}.values())


class WantedAxes(Wanted):
    """The example axes asked for so far, walking backwards.

    Attributes:
        dependence: the `Dependence` on the sources.
        num_examples: the static number of examples, or None.
        by_value: whether all dependence counts, not only that of gradients.
        reaches: function from a tensor to whether the sources reach it in the way that counts.
        depends_on_no_data: function from a tensor to whether it is computed from variables and constants alone.
        symbolic_sizes: what the graph knows of sizes that the trace leaves open.
        takes_rows_of_weights, as_if_apart: as in `analyse_examples`.
        shared: the tensors that all examples use whole, though data are in them; noted, and not walked through, only if
            the walk stops at them.
    """

    def __init__(
        self,
        dependence: Dependence,
        num_examples: int | None,
        stops_at_shared: bool = False,
        takes_rows_of_weights: bool = False,
        as_if_apart: bool = False,
    ) -> None:
        self.stops_at_shared, self.takes_rows_of_weights = stops_at_shared, takes_rows_of_weights
        self.as_if_apart = as_if_apart
        self.dependence, self.num_examples, self.by_value = dependence, num_examples, dependence.by_value
        self.depends_on_no_data: Callable[[Tensor], bool] = Inherited(self._made_of_no_data)
        self.reaches: Callable[[Tensor], bool] = dependence.reaches
        self.symbolic_sizes, self.shapes, self.insides = SymbolicSizes(), {}, {}
        self.axes: dict[Any, Axis] = {}
        self.input_axes: dict[str, list[Axis]] = {}
        self.shared: list[Tensor] = []
        self.assumed: list[tuple[Tensor, ExampleAxis]] = []
        self.meetings: dict[str, list[tuple[Tensor, ExampleAxis]]] = {}

    def shape(self, tensor: Tensor) -> list[int | Any] | None:
        """Static shape of `tensor` as a list, with what its consumers imply filled in; None where unknown."""
        if tensor.ref() in self.shapes:
            return self.shapes[tensor.ref()]
        return None if tensor.shape.rank is None else tensor.shape.as_list()

    def meet(self, op: tf.Operation, carriers: list[tuple[Tensor, ExampleAxis]]) -> None:
        """Note that `op` broadcasts these together along the axis of the examples: pairs `(tensor, ExampleAxis)`."""
        self.meetings[op.name] = carriers

    def assume(self, op: tf.Operation, tensor: Tensor, axis: ExampleAxis) -> None:
        """Note that the rule of `op`, if that is on the path, holds where `tensor` has the examples along `axis`."""
        if op.outputs[0].ref() in self.axes:
            self.assumed.append((tensor, axis))

    def check_sizes(
        self, path: Sequence[tf.Operation], proved: Iterable[Tensor] = (), resizing: Iterable[str] = ()
    ) -> None:
        """Add to what is assumed the sizes of what is broadcast together."""
        self.assumed += sizes_to_check(path, self, proved, {*self.insides, *resizing})

    def carriers(self, tensor: Tensor, axis: ExampleAxis) -> list[tuple[Tensor, ExampleAxis]]:
        """List the inputs that the examples of `tensor` come from: pairs of a tensor and its `ExampleAxis`."""
        axes = example_rules.own_input_axes(tensor.op, axis, self)
        if any(met is tensor for met, _ in self.meetings.get(tensor.op.name, ())):  # it may have more rows than these
            return []
        return [(given, found) for given, found in zip(tensor.op.inputs, axes) if found not in (None, SHARED)]

    def analyse_body(
        self, sources: Sequence[Tensor], targets: Sequence[Tensor], axes: Sequence[Axis]
    ) -> ExampleAnalysis:
        """`analyse_examples` for the body of an op of this graph."""
        return analyse_examples(self.dependence.of_body(sources), targets, axes, self.num_examples)

    def keeps_apart(self, sources: Sequence[tuple[Tensor, Axis]], target: Tensor, axis: ExampleAxis) -> bool:
        """Return whether values of slices of `target` come from the same slices of the sources alone, in a body.

        Args:
            sources: pairs of a tensor and the `ExampleAxis` (or `SHARED`) that it must turn out to have.
            target: tensor of the same graph.
            axis: its `ExampleAxis`.
        """
        try:
            given = [tensor for tensor, _ in sources]
            values = Dependence(given, by_value=True, by_size=self.dependence.by_size)
            analysis = analyse_examples(values, [target], [axis], self.num_examples, proved=given)
        except ExamplesMix:
            return False
        # Sources have a row for each example, so what is made of them has, too; only a guess at more proves nothing.
        if axis.inner is not None and any(guess.inner is None for _, guess in analysis.assumed):
            return False
        found = [(analysis.axis(tensor), known) for tensor, known in sources if analysis.axis(tensor) is not None]
        return all(one == other for one, other in found)

    def propagate(self, op: tf.Operation) -> None:
        wanted = {
            index: self.axes[output.ref()] for index, output in enumerate(op.outputs) if output.ref() in self.axes
        }
        if not wanted:
            return
        if all(axis is SHARED for axis in wanted.values()):
            inputs: list[Axis] = [SHARED] * len(op.inputs)
        else:
            inputs = self.input_axes[op.name] = self._from_rule(op, wanted)
        for index in range(len(op.inputs)) if self.by_value else differentiable_inputs(op):
            tensor, axis = op.inputs[index], inputs[index]
            if axis is None:
                continue
            if axis is not SHARED and axis.inner is None and tensor.dtype != tf.variant:  # a list shows in its elements
                self.assumed.append((tensor, axis))
            if not self.reaches(tensor):
                continue
            if self.stops_at_shared and axis is SHARED and self._may_hold_data(tensor):
                self.shared.append(tensor)
            else:
                self.want(op, tensor, axis)

    def _from_rule(self, op: tf.Operation, wanted: dict[int, Axis]) -> list[Axis]:
        if _takes_rows(op) and self._is_of_weights(op.inputs[0]):
            return [SHARED] * len(op.inputs)  # of a table's elements, each example reads those of the slice alone
        try:
            return example_rules.input_axes(op, wanted, self)
        except NoRule as missing:
            weights = [tensor for tensor in op.inputs if self.reaches(tensor)]
            of_tensors = not calls_functions(op) and not any(tensor.dtype == tf.variant for tensor in weights)
            if of_tensors and all(map(self._is_of_weights, weights)):
                return [SHARED] * len(op.inputs)  # weights alone have no examples that could mix
            raise examples_mix_at(op, str(missing)) from None
        except ExamplesMix as inside:
            inside.within = op
            raise

    def _is_of_weights(self, tensor: Tensor) -> bool:
        """Return whether `tensor` is computed from variables and numbers in the code; small arrays may be data."""
        captured = _private.captured_constants(tensor.graph)
        return self.depends_on_no_data(tensor) and not any(op.name in captured for op in ancestors([tensor]))

    def _may_hold_data(self, tensor: Tensor) -> bool:
        """Return whether data may be in `tensor`: numbers in the code are taken for data if they are several."""
        constants = (op.outputs[0] for op in ancestors([tensor]) if is_constant(op))
        several = any(each.dtype.is_floating and (each.shape.num_elements() or 0) > 1 for each in constants)
        return several or not self._is_of_weights(tensor)

    def _made_of_no_data(self, op: tf.Operation, inputs_are: Sequence[bool]) -> list[bool]:
        """Whether the outputs of `op` are computed from variables and constants alone, given whether its inputs are.

        A tensor that is differentiated with respect to is data, also as a constant: TensorFlow captures small ones so.
        """
        leaf = op.outputs[0].dtype == tf.resource or (is_constant(op) and not self.reaches(op.outputs[0]))
        return [all(inputs_are) if op.inputs else leaf for _ in op.outputs]

    def want(self, op: tf.Operation, tensor: Tensor, axis: Axis) -> None:
        """Note that `op` uses `tensor` this way."""
        known = self.axes.setdefault(tensor.ref(), axis)
        if known == axis or self._agree_when_run(tensor, known, axis):
            return
        if self._has_rows_of_weights(tensor, {known, axis}):
            self.axes[tensor.ref()] = SHARED
        elif self.as_if_apart and SHARED in (known, axis):
            self.axes[tensor.ref()] = axis if known is SHARED else known
        else:
            raise examples_mix_at(
                op, f"it uses {tensor.name!r} {describe(axis)}, which is used {describe(known)} elsewhere"
            )

    def with_examples(self) -> list[Tensor]:
        return [tensor.deref() for tensor, axis in self.axes.items() if axis is not SHARED]

    def _has_rows_of_weights(self, tensor: Tensor, axes: set[Axis]) -> bool:
        """Whether a tensor that is used whole and by rows is of variables alone, with a row for each example."""
        both = self.takes_rows_of_weights and axes == {SHARED, ExampleAxis(0)} and self.num_examples is not None
        return both and tensor.shape[0] == self.num_examples and not self._may_hold_data(tensor)

    def _agree_when_run(self, tensor: Tensor, known: Axis, axis: Axis) -> bool:
        """Take the known size over one that is left open, if that is all that two uses differ in."""
        if SHARED in (known, axis) or None not in (known.inner, axis.inner):
            return False
        closed = known if axis.inner is None else axis
        if dataclasses.replace(known, inner=None) != dataclasses.replace(axis, inner=None):
            return False
        self.axes[tensor.ref()] = closed
        self.assumed.append((tensor, closed))
        return True


def _takes_rows(op: tf.Operation) -> bool:
    """Whether `op` is a slice with other rows than what it slices."""
    return facts_of(op).takes in ("a slice", "a strided slice") and op.inputs[0].shape[:1] != op.outputs[0].shape[:1]


def describe(axis: Axis) -> str:
    """Say in words how a tensor is used."""
    return "whole, for all examples" if axis is SHARED else f"per example along axis {axis.axis}"
