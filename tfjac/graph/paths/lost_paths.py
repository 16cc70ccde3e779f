"""Values that reach a result by paths that no gradient follows: through NumPy, a rounding, a cast to an integer.

TensorFlow says nothing of them: the gradient behind such an op counts as zero, or as not there. Most are meant so: what
is compared, chosen, gathered by index or put behind `tf.stop_gradient` need not be differentiable. What is looked for
is a number that the result is computed with.
"""

import dataclasses
import typing
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import tensorflow as tf

from tfjac.graph import _private
from tfjac.graph.copying.bodies import bodies_of
from tfjac.graph.facts import facts_of, is_loop
from tfjac.graph.gradients import custom_gradients
from tfjac.graph.paths.dependence import Dependence, differentiable_inputs, valued_inputs
from tfjac.graph.reading.origins import source_line
from tfjac.graph.reading.python_values import leaves_tensorflow
from tfjac.graph.reading.traversal import Inherited, ancestors, carries_gradient, references
from tfjac.types import Tensor

_ON_PURPOSE = {"places", "stop"}
"""Kinds of ops that end a path on purpose, or give the places of what is true."""


@dataclasses.dataclass(frozen=True)
class LostPath:
    """A place between sources and a target that values pass, and no gradient.

    Attributes:
        op: the op at which the gradient stops.
        target: index of the target.
        whole: whether the target has no other path to any source, so that all of its gradient is lost.
    """

    op: tf.Operation
    target: int
    whole: bool

    @property
    def kind(self) -> str:
        """What stops gradients there: a key of `STOPS`."""
        return _kind(self.op)

    @property
    def reason(self) -> str:
        """Why the gradient stops there, a clause about the op."""
        return STOPS[self.kind][0]

    @property
    def remedy(self) -> str:
        """What to do about it, an imperative."""
        return STOPS[self.kind][1]

    def __str__(self) -> str:
        line = source_line(self.op)
        return f"op {self.op.name!r} of type {self.op.type}, {self.reason}" + (f" ({line})" if line else "")


def lost_paths(targets: Sequence[Tensor], sources: Any) -> "list[LostPath]":
    """List where gradients stop on the way of values from `sources` to `targets`.

    Args:
        targets: list of floating-point tensors of one graph, without function calls on the way (`inline_calls`).
        sources: handles of variables, or tensors, None for one that the graph never uses; or a `Dependence` on them.

    Returns:
        A list of `LostPath`. For a target with a gradient those through which some number passes that the target is
        computed with; comparisons, choices, indices and `tf.stop_gradient` are left out there. For a target that
        depends on the sources by value, and has no gradient at all, every op at which one stops.

    Cost: three walks over the graph.
    """
    gradient = sources if isinstance(sources, Dependence) else Dependence(sources)
    value, lost = Dependence(gradient.sources, by_value=True), _LostValues(gradient)
    found = []
    for index, target in enumerate(targets):
        whole = not gradient.reaches(target)
        ops = _stops(target, gradient, value) if whole else lost.reaching(target)
        found += [LostPath(op, index, whole) for op in ops]
    return found


def stops_of(source: int, targets: Sequence[Tensor], dependence: Dependence) -> "list[LostPath]":
    """List the ops at which the gradient of `targets` with respect to one source stops, where it has none.

    Args:
        source: index of the source.
        dependence: the `Dependence` on the sources.

    Returns:
        A list of `LostPath`, empty where the values of the targets do not depend on the source either.
    """
    alone = [each if index == source else None for index, each in enumerate(dependence.sources)]
    return [path for path in lost_paths(targets, alone) if path.whole]


def assignments_between(value: Any, targets: Sequence[Tensor]) -> "list[LostPath]":
    """List, as `LostPath`, where what depends on sources gets into a variable that `targets` are computed from.

    Args:
        value: the `Dependence` on the sources, by value.
        targets: list of tensors of the same graph.
    """
    read = [op.outputs[0] for op in ancestors(targets) if op.outputs and op.outputs[0].dtype == tf.resource]
    users = [op for handle in read for op in handle.consumers() if op.type.startswith("Assign")]
    return [LostPath(op, 0, True) for op in users if value.reaches(op.inputs[1])]


def unregistered(targets: Sequence[Tensor], dependence: Dependence) -> "list[LostPath]":
    """List, as `LostPath`, the ops on paths of gradients whose gradient is not registered: taking it raises."""
    ops = [op for op in dependence.path(targets) if not facts_of(op).bodies and not _private.has_gradient(op)]
    return [LostPath(op, 0, True) for op in ops]


def _stops(target: Tensor, gradient: Dependence, value: Dependence) -> list[tf.Operation]:
    """The ops on the way of values from the sources to `target` that gradients reach and do not pass."""
    path = value.path([target])
    used = references([target, *(tensor for op in path for tensor in op.inputs)])
    reached = [op for op in path if any(map(gradient.reaches, op.inputs))]
    return [op for op in reached if any(x.ref() in used and not gradient.reaches(x) for x in op.outputs)]


class _Carried(typing.NamedTuple):
    """Ops whose numbers a tensor is computed with, though no gradient passes there.

    `plain` are those of them that have met nothing since then but ops that act on elements or move them.
    """

    lost: frozenset = frozenset()
    plain: frozenset = frozenset()


class _LostValues:
    """The lost numbers that each tensor of a graph is computed with."""

    def __init__(self, gradient: Dependence, given: Any = ()) -> None:
        """Start a walk.

        Args:
            gradient: the `Dependence` on the sources.
            given: pairs of a parameter of the function that the graph belongs to, and the lost ops that it carries.
        """
        self._gradient, self._given = gradient, {tensor.ref(): _Carried(lost) for tensor, lost in given}
        self._carried = Inherited(self._of_outputs)

    def reaching(self, tensor: Tensor) -> list[tf.Operation]:
        """Return the ops at which a gradient stops whose numbers `tensor` is computed with, by name."""
        return sorted(self._carried(tensor).lost, key=lambda op: op.name)

    def _of_outputs(self, op: tf.Operation, carried: Any) -> "list[_Carried]":
        if facts_of(op).bodies:
            return [_Carried(lost) for lost in self._behind_bodies(op, [each.lost for each in carried])]
        if not op.inputs:
            return [self._given.get(output.ref(), _Carried()) for output in op.outputs]
        if facts_of(op).kind in _ON_PURPOSE:
            return [_Carried() for _ in op.outputs]
        cleared = self._cleared(op, carried)
        return [self._of_output(op, output, carried, cleared) for output in op.outputs]

    def _of_output(self, op: tf.Operation, output: Tensor, carried: Any, cleared: Any) -> "_Carried":
        if output.dtype in (tf.bool, tf.string):
            return _Carried()
        inputs = [index for index in self._numbers_read(op) if _passes_numbers(op, op.inputs[index], output)]
        own = frozenset([op] if self._stops_at(op, output) else [])
        lost = own.union(*(carried[index].lost for index in inputs)) - cleared
        keeps = _keeps_numbers_apart(op)
        plain = own.union(*(carried[index].plain for index in inputs)) - cleared if keeps else own
        return _Carried(lost, plain)

    def _numbers_read(self, op: tf.Operation) -> Any:
        """The inputs that count; for a custom gradient, whose forward pass is its own affair, the arguments alone."""
        return custom_gradients.receivers(op) if custom_gradients.is_custom(op) else valued_inputs(op)

    def _stops_at(self, op: tf.Operation, output: Tensor) -> bool:
        """Whether a gradient that reaches `op` stops at this output, by no choice of the user."""
        if custom_gradients.is_custom(op) or not any(self._gradient.reaches(op.inputs[k]) for k in valued_inputs(op)):
            return False
        passes = carries_gradient(output.dtype) and len(differentiable_inputs(op)) > 0
        return not passes or leaves_tensorflow(op)

    def _cleared(self, op: tf.Operation, carried: Any) -> Any:
        """The lost ops that `op` makes good: a fraction x - floor(x), and sign(x) times what has a gradient.

        The derivative of what they give is right wherever there is one, and they are written to be differentiated.
        """
        cleared: frozenset[tf.Operation] = frozenset()
        if facts_of(op).arithmetic == "difference":
            for lost, other in ((carried[0], op.inputs[1]), (carried[1], op.inputs[0])):
                beside = {tensor.ref() for tensor in self._upwards(other, _moves_or_shifts)}
                cleared |= {stop for stop in lost.plain & _those(_rounds, lost) if self._is_of(stop, beside)}
        if facts_of(op).multiplies and len(op.inputs) == 2:  # an einsum may be of one
            for lost, other in ((carried[0], op.inputs[1]), (carried[1], op.inputs[0])):
                if self._gradient.reaches(other):
                    cleared |= _those(_is_sign, lost)
        return cleared

    def _is_of(self, stop: tf.Operation, tensors: Iterable[Tensor]) -> bool:
        """Whether what `stop` rounds was computed element by element from one of `tensors`, given by `ref()`."""
        above = self._upwards(stop.inputs[0], _keeps_numbers_apart)
        return any(tensor.ref() in tensors for tensor in above)

    def _upwards(self, tensor: Tensor, passes: Callable) -> list:
        """List `tensor` and what ops for which `passes` holds made it of, while one input alone has a gradient."""
        found = [tensor]
        while passes(tensor.op):
            live = [each for each in tensor.op.inputs if self._gradient.reaches(each)]
            if len(live) != 1:
                break
            (tensor,) = live
            found.append(tensor)
        return found

    def _behind_bodies(self, op: tf.Operation, lost: Any) -> Any:
        """What the outputs of a loop, branch or call carry, given what the inputs do."""
        outputs: list[frozenset] = [frozenset() for _ in op.outputs]
        for body in (body for attribute in facts_of(op).bodies for body in bodies_of(op, attribute)):
            first = len(op.inputs) - len(body.inputs)
            live = [self._gradient.reaches(tensor) for tensor in op.inputs[first:]]
            given, before = lost[first:], None
            while (live, given) != before:
                before = live, given
                gradient = Dependence([tensor if alive else None for tensor, alive in zip(body.inputs, live)])
                inside = _LostValues(gradient, zip(body.inputs, given))
                found = [frozenset(inside.reaching(output)) for output in body.outputs]
                if is_loop(op):
                    live = [alive or gradient.reaches(output) for alive, output in zip(live, body.outputs)]
                    given = [one | other for one, other in zip(given, found)]
            outputs = [one | other for one, other in zip(outputs, found)]
        return outputs


def _those(holds: Callable, carried: Any) -> frozenset:
    return frozenset(op for op in carried.lost if holds(op))


def _keeps_numbers_apart(op: tf.Operation) -> bool:
    """Whether `op` acts on elements, or moves them."""
    return facts_of(op).elementwise is not None or facts_of(op).elements is not None


def _moves_or_shifts(op: tf.Operation) -> bool:
    return facts_of(op).shifts or facts_of(op).elements is not None


def _rounds(op: tf.Operation) -> bool:
    return facts_of(op).steps == "rounding" or facts_of(op).kind == "cast"


def _is_sign(op: tf.Operation) -> bool:
    return facts_of(op).steps == "sign"


def _passes_numbers(op: tf.Operation, tensor: Tensor, output: Tensor) -> bool:
    """Whether numbers of an input enter an output: integers choose floats, as by index; only a cast makes them one."""
    return facts_of(op).kind == "cast" or not tensor.dtype.is_integer or output.dtype.is_integer


def _kind(op: tf.Operation) -> str:
    """Say what stops gradients at `op`."""
    if facts_of(op).kind == "python":
        return "python"
    if facts_of(op).kind == "stop":
        return "stop_gradient"
    if facts_of(op).steps is not None:
        return "piecewise constant"
    if op.type.startswith("Assign"):
        return "assignment"
    if not _private.has_gradient(op):
        return "not registered"
    if op.outputs[0].dtype == tf.bool:
        return "comparison"
    if any(output.dtype.is_integer for output in op.outputs):
        return "integer"
    return "no gradient"


_REMEDY = "compute it by differentiable ops, or give it a gradient by tf.custom_gradient"
STOPS = {
    "python": (
        "Python code that leaves TensorFlow",
        "compute it by TensorFlow's ops, or give it a gradient by tf.custom_gradient",
    ),
    "stop_gradient": ("which stops gradients", "leave tf.stop_gradient out if it is not meant"),
    "piecewise constant": ("whose derivative is zero wherever there is one", _REMEDY),
    "assignment": (
        "which assigns to a variable: gradients do not pass through what a variable holds",
        "use the assigned value itself further on, not the variable",
    ),
    "not registered": ("whose gradient is not registered: TensorFlow raises LookupError", _REMEDY),
    "comparison": ("whose result is true or false", _REMEDY),
    "integer": ("whose result is an integer", "keep it in floating point, or give it a gradient by tf.custom_gradient"),
    "no gradient": ("which has no gradient", _REMEDY),
}
"""What stops gradients: why, a clause about an op; and what to do about it."""


def stops_in_bodies(targets: Sequence[Tensor], dependence: Dependence) -> list[LostPath]:
    """List, as `LostPath`, where results of a body on the way from the sources to `targets` lose all of their gradient.

    Args:
        targets: list of tensors of one graph, without function calls on the way.
        dependence: the `Dependence` on the sources.
    """
    found = []
    for op in dependence.path(targets):
        for body in (body for attribute in facts_of(op).bodies for body in bodies_of(op, attribute)):
            given = op.inputs[len(op.inputs) - len(body.inputs) :]
            inside = Dependence([own if dependence.reaches(outer) else None for own, outer in zip(body.inputs, given)])
            results = [output for output in body.outputs if carries_gradient(output.dtype)]
            found += [path for path in lost_paths(results, inside) if path.whole]
            found += stops_in_bodies(results, inside)
    return found
