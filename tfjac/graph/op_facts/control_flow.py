"""Calls, loops, conditionals, and what runs a branch of several."""

import dataclasses
from collections.abc import Container, Iterable, Mapping
from typing import Any, NoReturn

import tensorflow as tf

from tfjac.graph import _private
from tfjac.graph.copying.bodies import Body, bodies_of, opened, without_identities
from tfjac.graph.examples.example_rules import SHARED, Axis, NoRule, Wanted
from tfjac.graph.examples.row_rules import Rows, WantedRows
from tfjac.graph.facts import declare, facts_of, is_conditional
from tfjac.graph.gradients.mending import Gradient
from tfjac.graph.reading.statefulness import culprit_in
from tfjac.graph.reading.traversal import ancestors
from tfjac.types import Tensor


@dataclasses.dataclass
class LoopInside:
    """What happens to examples inside a loop.

    Attributes:
        body, condition: the two functions of the loop.
        state: for the index of each loop variable that changes from step to step and that carries examples, its axis.
        writes: for the index of each of these that is a list, the ops that write to it in a step, last one first.
        invariant: for the index of each loop variable that stays the same and that the sources reach, its axis, or
            `SHARED` for weights.
    """

    body: Body
    condition: Body
    state: dict[int, Axis]
    writes: dict[int, list[tf.Operation]]
    invariant: dict[int, Axis]


@dataclasses.dataclass
class BranchInside:
    """What happens to examples inside a branch.

    Attributes:
        body: the function.
        inputs: for the index of each input that the sources reach, its axis or `SHARED`.
    """

    body: Body
    inputs: dict[int, Axis]


def _loop(op: tf.Operation, outputs: Mapping[int, Axis], wanted: Wanted) -> list[Axis]:
    """The axes of the loop variables that the body maps to themselves, grown from the wanted ones.

    Whether another step is run may depend on all examples, as no gradient passes through that decision; where values
    count, it may not.
    """
    (body,), (condition,) = bodies_of(op, "body"), bodies_of(op, "cond")
    for first, after, output in zip(op.inputs, body.outputs, op.outputs):
        if output.shape.rank is None:  # as in a function that was loaded
            output.set_shape(first.shape.most_specific_compatible_shape(after.shape))
    same = {k for k, output in enumerate(body.outputs) if output is body.inputs[k]}
    reached = _reached_in_loop(op, body, same, wanted)
    _check_sizes_and_end(op, condition, reached, wanted)
    state, invariant = {k: axis for k, axis in outputs.items() if k not in same}, {}
    while True:
        analysis = wanted.analyse_body(
            [body.inputs[k] for k in reached], [body.outputs[k] for k in state], list(state.values())
        )
        used = {k: analysis.axis(body.inputs[k]) for k in reached if analysis.axis(body.inputs[k]) is not None}
        grown = {k: axis for k, axis in used.items() if k not in same and k not in state}
        if not grown:
            break
        state |= grown
    for k, axis in used.items():
        if k in state and state[k] != axis:
            raise NoRule(f"a loop variable ({body.inputs[k].name}) has its examples along different axes in turn")
    invariant = {k: used.get(k, outputs.get(k)) for k in same if k in used or k in outputs}
    if any(k in used and k in outputs and used[k] != outputs[k] for k in same):
        raise NoRule("what it reads and what it passes on have their examples along different axes")
    if SHARED in state.values():
        raise NoRule("a weight changes from step to step of the loop")
    writes = {k: _writes(body, k) for k in state if op.inputs[k].dtype == tf.variant}
    if any(axis is SHARED and op.inputs[k].dtype == tf.variant for k, axis in invariant.items()):
        raise NoRule("it reads weights from a TensorArray; index the weights themselves with the counter")
    _check_can_run_again(body)
    _check_can_run_again(condition)
    wanted.insides[op.name] = LoopInside(body, condition, state, writes, invariant)
    return _axes_of_inputs({**invariant, **state}, reached, len(op.inputs))


def _reached_in_loop(op: tf.Operation, body: Body, same: set[int], wanted: Wanted) -> list[int]:
    """Indices of the loop variables that the sources reach before the loop or in one of its steps."""
    reached = [k for k, tensor in enumerate(op.inputs) if wanted.reaches(tensor)]
    while True:
        inside = wanted.dependence.of_body([body.inputs[k] for k in reached])
        further = [
            k for k, output in enumerate(body.outputs) if k not in reached and k not in same and inside.reaches(output)
        ]
        if not further:
            return sorted(reached)
        reached += further


def _check_sizes_and_end(op: tf.Operation, condition: Body, reached: list[int], wanted: Wanted) -> None:
    """Raise NoRule where values count, and those of examples decide whether the loop takes another step."""
    _check_sizes(op, wanted)
    given = [condition.inputs[k] for k in reached]
    if wanted.by_value and wanted.dependence.of_body(given).reaches(condition.outputs[0]):
        raise NoRule("whether the loop takes another step depends on the values of examples")


def _check_sizes(op: tf.Operation, wanted: Wanted) -> None:
    """Raise NoRule where sizes count, and one that values decide enters a body, which takes it for a number."""
    if any(map(wanted.dependence.decided_sizes, op.inputs)):
        raise NoRule("a size that values of examples decide enters it")


def _writes(body: Body, k: int) -> list[tf.Operation]:
    """The ops by which a step writes to list `k`, last one first.

    Raises:
        NoRule: where the step does anything else with the list.
    """
    writes, value = [], body.outputs[k]
    while facts_of(value.op).list == "item written":
        writes.append(value.op)
        value = without_identities(value.op.inputs[0])
    others = [tensor for j, tensor in enumerate(body.outputs) if j != k] + [
        tensor for op in writes for tensor in op.inputs[1:]
    ]
    if value is not body.inputs[k] or body.inputs[k].op in ancestors(others):
        raise NoRule("a TensorArray that the loop writes to is also read there, or passed on in another way")
    return writes


def _check_can_run_again(body: Body) -> None:
    culprit = culprit_in(body.outputs[0].graph)
    if culprit is not None:
        raise NoRule(
            f"inside, op {culprit.name!r} of type {culprit.type} gives other values, or acts twice, when it runs again"
        )


def _conditional(op: tf.Operation, outputs: Mapping[int, Axis], wanted: Wanted) -> list[Axis]:
    """Each branch by itself; they must use each input in the same way. No gradient passes through the choice."""
    if is_conditional(op):
        branches = bodies_of(op, "else_branch") + bodies_of(op, "then_branch")
    else:
        branches = bodies_of(op, "branches")
    _check_sizes(op, wanted)
    reached = [k for k, tensor in enumerate(op.inputs[1:]) if wanted.reaches(tensor)]
    inputs: dict[int, Axis] = {}
    insides = []
    for branch in branches:
        targets = [branch.outputs[k] for k in outputs]
        analysis = wanted.analyse_body([branch.inputs[k] for k in reached], targets, list(outputs.values()))
        used = {k: analysis.axis(branch.inputs[k]) for k in reached if analysis.axis(branch.inputs[k]) is not None}
        if any(inputs.setdefault(k, axis) != axis for k, axis in used.items()):
            raise NoRule("its branches use an input in different ways")
        _check_can_run_again(branch)
        insides.append(BranchInside(branch, used))
    if any(tensor.dtype == tf.variant for k, tensor in enumerate(op.outputs) if k in outputs) or any(
        axis is not SHARED and op.inputs[1 + k].dtype == tf.variant for k, axis in inputs.items()
    ):
        raise NoRule("a TensorArray goes through it")
    wanted.insides[op.name] = insides
    return [SHARED, *_axes_of_inputs(inputs, reached, len(op.inputs) - 1)]


def _axes_of_inputs(known: Mapping[int, Axis], reached: Container[int], count: int) -> list[Axis]:
    """The axis of each input: None where what is differentiated by enters only results that are not asked for."""
    return [known.get(k, None if k in reached else SHARED) for k in range(count)]


def _control_flow(op: tf.Operation, rows: Rows, wanted: WantedRows) -> NoReturn:
    raise NoRule("loops and conditionals are not covered where examples are groups of rows")


def _shapes_of_branches(op: tf.Operation) -> list[tf.TensorShape]:
    """For each output what all branches agree on of its shape; one of them may be all that the op itself shows."""
    shapes = [output.shape for output in op.outputs]
    for body in (body for attribute in facts_of(op).bodies for body in _private.function_bodies(op, attribute)):
        shapes = [one.most_specific_compatible_shape(other.shape) for one, other in zip(shapes, body.outputs)]
    return shapes


def _have_other_shapes(op: tf.Operation, ops: Iterable[tf.Operation]) -> bool:
    return any(not shape.is_fully_defined() for shape in _shapes_of_branches(op))


def _gradient_of_choice(op: tf.Operation, *cotangents: Tensor | None) -> Any:
    """TensorFlow's own, but of cotangents of whose shapes no more is known than all branches agree on.

    What comes after may know the shape of the branch that is taken; TensorFlow's gradient of the other one, which has
    another shape, then raises. The cotangent of a handle is left as it is: it has the shape of what the handle is of.
    """
    known_by_all = [
        u if u is None or output.dtype in (tf.variant, tf.resource) else opened(tf.convert_to_tensor(u), shape)
        for u, output, shape in zip(cotangents, op.outputs, _shapes_of_branches(op))
    ]
    return _private.gradient_of_type(op.type)(op, *known_by_all)


declare(
    "If StatelessIf Case StatelessCase",
    gradient=Gradient(_gradient_of_choice, when=_have_other_shapes),
)
declare("PartitionedCall StatefulPartitionedCall", kind="call", bodies=("f",), functions=("f",))
declare("While StatelessWhile", kind="loop", bodies=("body",), functions=("cond", "body"), axes_of_body=_loop)
declare(
    "If StatelessIf",
    kind="conditional",
    bodies=("then_branch", "else_branch"),
    functions=("then_branch", "else_branch"),
    axes_of_body=_conditional,
)
declare("Case StatelessCase", kind="case", axes_of_body=_conditional, bodies=("branches",), functions=("branches",))
declare("While StatelessWhile If StatelessIf Case StatelessCase", rows=_control_flow)
