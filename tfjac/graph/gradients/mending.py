"""Gradients in the place of TensorFlow's where these are wrong, or missing; or the refusal to take any.

Which ops have one stands among their facts, in `op_facts`. What they are is found by `tests.sweep`, which compares the
gradient of every op that has one with finite differences.
"""

import contextlib
import dataclasses
import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NoReturn

import tensorflow as tf

from tfjac._warn import warn
from tfjac.graph import _private
from tfjac.graph.facts import facts_by_type, facts_of, is_loop, types_where
from tfjac.graph.gradients import custom_gradients
from tfjac.graph.reading.static_values import static_value
from tfjac.graph.reading.traversal import between, carries_gradient, references
from tfjac.ops._library import register_gradient
from tfjac.types import Tensor


class Differentiated(tuple[tf.Operation, ...]):
    """The ops that are differentiated, inputs before consumers, each before those of its bodies."""

    @functools.cached_property
    def types(self) -> frozenset[str]:
        return frozenset(op.type for op in self)


def _always(op: tf.Operation, ops: Differentiated) -> bool:
    return True


@dataclasses.dataclass(frozen=True)
class Gradient:
    """What takes the place of TensorFlow's gradient of a type of ops.

    Attributes:
        function: `(op, *cotangents)`, which gives the gradients, one per input.
        when: function `(op, ops)` that returns whether it does so for `op`, given what is `Differentiated`.
        name: by which TensorFlow knows it; made of the type where left out.
        otherwise: the `Gradient` that may take that place where this one does not.
    """

    function: Callable
    when: Callable = _always
    name: str | None = None
    otherwise: "Gradient | None" = None

    def name_for(self, op_type: str) -> str:
        """Return the name by which TensorFlow knows the gradient of ops of this type."""
        return self.name or f"Tfjac{op_type}"

    def all(self) -> "list[Gradient]":
        """List this one and those that may take its place."""
        return [self, *(self.otherwise.all() if self.otherwise else [])]


def differentiated_as(
    expression: Callable, when: Callable[[tf.Operation, Differentiated], bool] = _always, **options: Any
) -> Gradient:
    """Return the `Gradient` of an expression `(op, *inputs)` that equals the outputs of `op`, with other options."""

    def of_expression(op: tf.Operation, *cotangents: Tensor | None) -> list[Tensor | None]:
        inputs = [tf.identity(tensor) for tensor in op.inputs]  # one may be read twice: each for itself
        outputs = tf.nest.flatten(expression(op, *inputs))
        pairs = [(y, u) for y, u in zip(outputs, cotangents) if u is not None]
        return tf.gradients([y for y, _ in pairs], inputs, grad_ys=[u for _, u in pairs])

    return Gradient(of_expression, when, **options)


def refused(because: str) -> Gradient:
    """Return the `Gradient` of ops that are differentiated wrongly, with nothing that takes its place.

    Args:
        because: what TensorFlow does. Where that is wrong for some inputs alone, it is a fact of `refused_inputs`.
    """

    def refuse(op: tf.Operation, *cotangents: Tensor | None) -> NoReturn:
        raise _refusal(op, because)

    return Gradient(refuse)


def _refuse_constant(op: tf.Operation, *cotangents: Tensor | None) -> NoReturn:
    raise LookupError(
        "No gradient passes through this op, which TensorFlow has as a constant: take first derivatives, in reverse "
        f"mode. Received: op {op.name!r} of type {op.type}"
    )


TAKEN_FOR_CONSTANT = Gradient(_refuse_constant)
"""That of ops that TensorFlow says nothing depends on."""


def register_all() -> None:
    """Register all gradients with TensorFlow at once: functions that were saved name them."""
    for op_type, facts in facts_by_type().items():
        for gradient in facts.gradient.all() if facts.gradient else ():
            name = gradient.name_for(op_type)
            register_gradient(name)(gradient.function)
            custom_gradients.OWN.add(name)


def listed() -> frozenset[str]:
    """Return the types of all ops that are not left to TensorFlow, a set."""
    return types_where(lambda facts: facts.gradient is not None or facts.refused_inputs is not None)


def mend(ops: Sequence[tf.Operation], sources: Iterable[Tensor] | None = None) -> None:
    """Have gradients through `ops` taken by what the facts say, in loops and branches too; custom gradients stay.

    Args:
        ops: those between `sources` and what is differentiated, inputs before consumers.
        sources: the tensors that it is differentiated by; None where they are not known.

    Raises:
        LookupError: for an op that TensorFlow differentiates wrongly by an input that gradients reach from the sources.
            Those that are refused whatever the input raise once a gradient passes.
    """
    passing = ops
    if sources is not None:
        reached = _reached(ops, references(sources))
        passing = [op for op in ops if references(op.inputs) & reached]
    differentiated = Differentiated(_with_bodies(passing))
    for op in differentiated:
        found = facts_of(op).gradient
        if found is None or _private.gradient_name(op) is not None:
            continue
        gradient = next((each for each in found.all() if each.when(op, differentiated)), None)
        if gradient is not None:
            _private.set_gradient(op, gradient.name_for(op.type))
    if sources is not None:
        _check_not_refused(ops, reached)


@contextlib.contextmanager
def unmended(graph: tf.Graph) -> Iterator[None]:
    """Have gradients in `graph` taken as TensorFlow takes them, for as long as the context lasts.

    Those of functions of Python are the same, but for their errors, and stay.
    """
    ops = _with_bodies(graph.get_operations())
    mended = [(op, name) for op in ops if facts_of(op).kind != "python" and (name := _mended_by(op)) is not None]
    for op, _ in mended:
        _private.clear_gradient(op)
    try:
        yield
    finally:
        for op, name in mended:
            _private.set_gradient(op, name)


def _mended_by(op: tf.Operation) -> str | None:
    """Return the name of the gradient that took the place of TensorFlow's, None where none did."""
    found, name = facts_of(op).gradient, _private.gradient_name(op)
    return name if found is not None and name in [each.name_for(op.type) for each in found.all()] else None


def _with_bodies(ops: Iterable[tf.Operation]) -> Iterator[tf.Operation]:
    for op in ops:
        yield op
        for body in _bodies(op):
            yield from _with_bodies(body.get_operations())


def _bodies(op: tf.Operation) -> list[tf.Graph]:
    return [body for attribute in facts_of(op).bodies for body in _private.function_bodies(op, attribute)]


def _check_not_refused(ops: Sequence[tf.Operation], reached: set) -> None:
    """Check `ops`, and those of their bodies, given what `_reached` returns of them."""
    for op in ops:
        refused_inputs = facts_of(op).refused_inputs
        if refused_inputs is not None:
            because, inputs = refused_inputs
            if any(op.inputs[k].ref() in reached for k in inputs):
                raise _refusal(op, because)
        for body in _bodies(op):
            inner = body.get_operations()
            _check_not_refused(inner, _reached(inner, _parameters_reached(op, body, reached)))


def _reached(ops: Iterable[tf.Operation], sources: set) -> set:
    """The `ref()` of the tensors to which gradients of what `ops` compute pass on the way to the sources."""
    reached = set(sources)
    for op in ops:
        if references(op.inputs) & reached and _private.is_differentiable(op):
            reached |= references(output for output in op.outputs if carries_gradient(output.dtype))
    return reached


def _parameters_reached(op: tf.Operation, body: tf.Graph, reached: set) -> set:
    """The `ref()` of the parameters of a body of `op` that stand for what is reached, in a loop after any step."""
    given = op.inputs[len(op.inputs) - len(body.inputs) :]
    inner = {own.ref() for own, outer in zip(body.inputs, given) if outer.ref() in reached}
    before = None
    while is_loop(op) and inner != before:
        before, after = inner, _reached(body.get_operations(), inner)
        inner = inner | {own.ref() for own, result in zip(body.inputs, body.outputs) if result.ref() in after}
    return inner


def _refusal(op: tf.Operation, because: str) -> LookupError:
    return LookupError(
        f"TensorFlow's gradient of this op is wrong: {because}. Write it in other ops, or give it a gradient by "
        "tf.custom_gradient; or take what it computes as fixed, by tf.stop_gradient. "
        f"Received: op {op.name!r} of type {op.type}"
    )


def check_loops(ys: Sequence[Tensor], sources: Sequence[Tensor]) -> None:
    """Warn where a tape records a gradient that goes back through a loop; refuse loops that XLA cannot go back through.

    A loop is given more outputs when its gradient is taken: what it saves of each step. A tape, inside of a
    `tf.function`, knows of the loop as it was, and of a part of the second derivative alone. `tf.gradients` knows all.
    XLA has to know how many steps it saves.

    Raises:
        ValueError: for a loop of no known number of steps, in a function that XLA compiles.
    """
    taped, compiled = _private.is_taped(), _private.compiled_by_xla(tf.compat.v1.get_default_graph())
    loops = [op for op in between(sources, ys) if is_loop(op)] if taped or compiled else []
    endless = next((op for op in loops if compiled and static_value(op.inputs[1]) == -1), None)
    if endless is not None:
        raise ValueError(
            "XLA must know how many steps of a loop to keep for its gradient: give tf.while_loop its "
            f"maximum_iterations. Received: loop {endless.name!r}, without them"
        )
    if taped and loops:
        warn(
            f"tfjac: a gradient tape records a gradient through the loop {loops[0].name!r}, and TensorFlow's tapes "
            "lose a part of the derivatives of such gradients: differentiate the result by tf.gradients or tfjac.vjp, "
            "not by the tape, or compute it outside of the tape.",
        )


def times(tensor: Tensor, slope: Tensor) -> Tensor:
    """Return tangents or cotangents times a slope: zero where one of them is, though the other be infinite.

    Its own derivatives are those of a product, also where the slope is zero: that of x² at zero has a slope.
    """
    zero = tf.equal(slope, 0)
    product = tf.math.multiply_no_nan(slope, tf.math.multiply_no_nan(tensor, tf.cast(~zero, tensor.dtype)))
    return product + tf.math.multiply_no_nan(tensor, tf.where(zero, slope, tf.zeros([], slope.dtype)))


def slopes_of(op: tf.Operation, ones: Tensor) -> list[Tensor | None]:
    """Return the derivative of the only output of `op` by each input, element by element; None where there is none.

    Args:
        op: an op that acts element by element, and was given to `mend`.
        ones: ones like the output.
    """
    found = _private.gradient_function(op)(op, ones)
    return list(found) if isinstance(found, (list, tuple)) else [found]
