"""Loops: run once more, with the tangents of what a step changes beside it.

A gradient of a gradient of a loop keeps all values of all steps, twice. This keeps none.
"""

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from tfjac.graph import Dependence, bodies_of, check_not_assigned_since, transplant
from tfjac.graph.op_types import LOOPS
from tfjac.graph.reading.statefulness import check_runs_again
from tfjac.jacobians.tangents.lists import element_of, zeros_like_list
from tfjac.jacobians.tangents.rules import NoTangents, Step, carried, check, check_path, rule, spread
from tfjac.types import Tensor


class _Loop:
    """A loop, and what is known of its variables, by index.

    Attributes:
        op, body, condition: the loop and its functions.
        changing: those that a step changes; the others are what they were before the loop.
        reached: those that depend on parameters, before some step or after the last; `moving` are the changing ones.
    """

    def __init__(self, op: tf.Operation, carriers: Sequence[int]) -> None:
        self.op = op
        ((self.body,), (self.condition,)) = bodies_of(op, "body"), bodies_of(op, "cond")
        pairs = list(zip(self.body.inputs, self.body.outputs))
        self.changing = [k for k, (given, result) in enumerate(pairs) if given is not result]
        self.reached = sorted(carriers)
        while True:
            further = [k for k in self.changing if k in self.reached or self.dependence.reaches(self.body.outputs[k])]
            if set(further) <= set(self.reached):
                break
            self.reached = sorted({*self.reached, *further})
        self.moving = [k for k in self.changing if k in self.reached]

    @property
    def dependence(self) -> Dependence:
        """The `Dependence` on what is reached, in the body."""
        return Dependence([self.body.inputs[k] for k in self.reached])

    def given(self, function: Any, values: Sequence[Tensor]) -> list[tuple[Tensor, Tensor]]:
        """Pair each parameter of a function of the loop with what it is here: if it changes, one of `values`."""
        graph, of_step = tf.compat.v1.get_default_graph(), dict(zip(self.changing, values))
        outside = {k: each for k, each in enumerate(self.op.inputs) if k not in of_step}
        return [
            (own, of_step[k] if k in of_step else graph.capture(outside[k])) for k, own in enumerate(function.inputs)
        ]


@check(*LOOPS)
def _check(op: tf.Operation, dependence: Dependence, most: int) -> None:
    try:
        check_runs_again(op)
        check_not_assigned_since(op)
    except ValueError:
        raise NoTangents from None
    loop = _Loop(op, [k for k, each in enumerate(op.inputs) if dependence.reaches(each)])
    for k in loop.moving:
        given, result = loop.body.inputs[k], loop.body.outputs[k]
        if given.dtype == tf.variant:
            element_of(given, result)
        elif given.dtype == tf.resource or not given.shape.is_fully_defined() or given.shape != result.shape:
            raise NoTangents
    inner = loop.dependence
    check_path(inner.path([loop.body.outputs[k] for k in loop.moving]), inner, most)


@rule(*LOOPS)
def _looped(step: Step) -> list[Tensor | Any]:
    loop = _Loop(step.op, step.carriers)
    values = [step.op.inputs[k] for k in loop.changing]
    shapes = [loop.body.inputs[k].shape for k in loop.changing]
    tangents = [_before(step, loop, k) for k in loop.moving]

    def again(values: Sequence[Tensor], _: Any) -> Tensor:
        (decision,) = loop.condition.outputs
        return transplant([decision], loop.given(loop.condition, values))[decision.ref()]

    def run(values: Sequence[Tensor], tangents: Sequence[Tensor]) -> tuple:
        return _one_step(step, loop, values, tangents)

    invariants = (shapes, [each.shape for each in tangents])
    _, last = tf.while_loop(again, run, (values, tangents), invariants)
    found = {k: step.tangents[k] for k in loop.reached} | dict(zip(loop.moving, last))
    return [found.get(k) for k in range(len(step.op.outputs))]


def _before(step: Step, loop: _Loop, k: int) -> Tensor:
    """Return the tangents of variable k before the first step."""
    handle = step.op.inputs[k]
    if handle.dtype != tf.variant:
        return step.full(k)
    if step.tangents[k] is not None:
        return step.tangents[k]
    return zeros_like_list(handle, step.count, *element_of(loop.body.inputs[k], loop.body.outputs[k]))


def _one_step(step: Step, loop: _Loop, values: Sequence[Tensor], tangents: Sequence[Tensor]) -> tuple:
    """Return what changes after a step, and the tangents of what moves."""
    pairs = loop.given(loop.body, values)
    wanted = [loop.body.outputs[k] for k in loop.changing]
    mapping = transplant(wanted, pairs)
    of_step = dict(zip(loop.moving, tangents))
    starts = {k: pairs[k][1] for k in loop.reached}
    seeds = {start.ref(): of_step[k] if k in of_step else step.tangents[k] for k, start in starts.items()}
    ends = {k: mapping[loop.body.outputs[k].ref()] for k in loop.changing}
    found = carried(Dependence(starts.values()).path([ends[k] for k in loop.moving]), seeds, step.count)
    return [ends[k] for k in loop.changing], [_after(step, found.get(ends[k].ref()), ends[k]) for k in loop.moving]


def _after(step: Step, tangents: Tensor | None, end: Tensor) -> Tensor:
    """Return the tangents of a variable after a step, at full size."""
    if end.dtype == tf.variant:
        if tangents is None:
            raise NoTangents
        return tangents
    shape = [step.count, *end.shape]
    return tf.zeros(shape, end.dtype) if tangents is None else spread(tangents, shape)
