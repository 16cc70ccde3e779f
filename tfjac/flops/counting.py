"""Counting the floating-point operations of ops, into the bodies of loops and branches."""

import dataclasses

from tfjac.flops.formulas import OpenSize, formula_of
from tfjac.graph import (
    ancestors,
    bodies_of,
    layer_calls,
    layer_path,
    layer_scope,
    source_line,
    static_trip_count,
)
from tfjac.graph.op_types import CALLS, CHOICES, LOOPS


@dataclasses.dataclass(frozen=True)
class OpFlops:
    """What one op does in one of the passes.

    Attributes:
        name, type: those of the op.
        layer: path of the layer that it belongs to, "" outside layers; an op of the backward pass belongs to the layer
            whose gradient it is part of.
        call: number of the call of that layer, from 0; 0 where it is not known.
        source: the `SourceLine` of the program that made it, or None.
        backward: whether it is of the backward pass alone.
        times: how often it runs: once, or as often as the loops around it.
        flops: floating-point operations of all these times, None where they cannot be told.
        reason: why not, or what the number leaves out; "" where it is exact.
    """

    name: str
    type: str
    layer: str
    call: int
    source: object
    backward: bool
    times: int
    flops: int | None
    reason: str = ""


class Counter:
    """Counts the ops of one graph, and of the bodies in it; remembers how many steps its loops run."""

    def __init__(self):
        self._steps = {}

    def count(self, ops, backward, needed, times=1, reason=""):
        """Return the list of `OpFlops` of `ops`, those of bodies in place of the ops that run these.

        Args:
            ops: list of ops, inputs before consumers.
            backward: whether they are of the backward pass.
            needed: set of the `ref()` of the tensors that are used.
            times: how often each runs.
            reason: what is not known about that.
        """
        calls, counted = layer_calls(ops), []
        for op in ops:
            if op.type in LOOPS:
                counted += self._loop(op, backward, needed, times, reason)
            elif op.type in CHOICES:
                counted += self._choice(op, backward, times, reason)
            elif op.type in CALLS:
                counted += self._body(ancestors(bodies_of(op, "f")[0].outputs), backward, times, reason)
            else:
                counted.append(_counted(op, backward, calls.get(layer_scope(op), 0), times, reason))
        return counted

    def _loop(self, op, backward, needed, times, reason):
        """The steps of a loop, of what is needed of it, and its condition."""
        (body,), (condition,) = bodies_of(op, "body"), bodies_of(op, "cond")
        steps = static_trip_count(op, body, condition, self._steps)
        if steps is None:
            reason = f"in loop {op.name!r} of unknown length, counted as one step"
        else:
            self._steps[op.outputs[0].ref()] = steps  # its counter, which is the length of the loop that goes back
        live = _live(op, body, condition, needed)
        inside = times * (1 if steps is None else steps)
        again = times * (1 if steps is None else steps + 1)
        return [
            *self._body(ancestors([body.outputs[k] for k in live]), backward, inside, reason),
            *self._body(ancestors(condition.outputs), backward, again, reason),
        ]

    def _choice(self, op, backward, times, reason):
        """The branch with the most operations."""
        attributes = ("branches",) if "Case" in op.type else ("then_branch", "else_branch")
        bodies = [body for attribute in attributes for body in bodies_of(op, attribute)]
        reason = reason or f"in the costliest branch of {op.name!r}"
        branches = [self._body(ancestors(body.outputs), backward, times, reason) for body in bodies]
        return max(branches, key=lambda counted: sum(each.flops or 0 for each in counted), default=[])

    def _body(self, ops, backward, times, reason):
        return self.count(ops, backward, {x.ref() for op in ops for x in op.inputs}, times, reason)


def _live(op, body, condition, needed):
    """The variables of a loop that matter: those needed behind it, by its condition, or by others that are."""
    position = {tensor.ref(): k for k, tensor in enumerate(body.inputs)}
    read = {tensor.ref(): k for k, tensor in enumerate(condition.inputs)}
    live = {k for k, output in enumerate(op.outputs) if output.ref() in needed}
    live |= _read_by(condition.outputs, read)
    while True:
        more = live | _read_by([body.outputs[k] for k in live], position)
        if more == live:
            return sorted(live)
        live = more


def _read_by(outputs, position):
    tensors = [*outputs, *(tensor for op in ancestors(outputs) for tensor in op.inputs)]
    return {position[tensor.ref()] for tensor in tensors if tensor.ref() in position}


def _counted(op, backward, call, times, reason):
    formula, flops = formula_of(op), None
    try:
        flops = formula(op) * times if formula else None
        reason = reason if formula else "no formula"
    except OpenSize as size:
        reason = f"open {size}"
    exact = flops == 0
    return OpFlops(
        op.name, op.type, layer_path(op), call, source_line(op), backward, times, flops, "" if exact else reason
    )
