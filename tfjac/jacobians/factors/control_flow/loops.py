"""Loops: run once more forwards, keeping their states, then backwards step by step with one cotangent per output.

With s_t the loop variables before step t, s_{t+1} = f(s_t, w), and λ_t = ∂y/∂s_t [m, n, ...]:

    λ_t = λ_{t+1} · ∂f/∂s(s_t, w)        carried from step to step
    (a_t, d_t) at every use inside f     a factor for each weight, from the rules for the ops of f

The factors of all steps, side by side along t, are the factor of the loop: the weight work is one contraction after
the loop, whatever is asked of the Jacobian.
"""

from typing import Any

import tensorflow as tf

from tfjac.graph import (
    SHARED,
    Dependence,
    analyse_examples,
    axes,
    check_not_assigned_since,
    lean_function,
    shared_constants,
    transplant,
)
from tfjac.graph.op_types import LOOPS
from tfjac.jacobians.factors.control_flow.lists import ListCotangent
from tfjac.jacobians.factors.control_flow.stacking import Stack
from tfjac.jacobians.factors.control_flow.states import Loop, States, recorded_states, stacked, step_array
from tfjac.jacobians.factors.control_flow.sweep import Sweep, handler
from tfjac.jacobians.factors.weight_paths import columns_of_sources
from tfjac.jacobians.shapes import after, check_when_run
from tfjac.linear.factors.forms import Factor
from tfjac.linear.shapes import Size
from tfjac.types import Tensor


@handler(*LOOPS)
def _loop(op: tf.Operation, sweep: Sweep) -> None:
    check_not_assigned_since(op)
    loop = Loop(op, sweep.analysis.insides[op.name])
    cotangents, lists = _cotangents_behind(loop, sweep)
    _pass_on_what_stays(loop, sweep)
    if not cotangents and not lists:  # no step changes anything of the examples
        return
    states = recorded_states(loop)
    step = _Step(loop, sweep, lists)
    traced = step.trace(states, cotangents)
    final = _backwards(loop, states, cotangents, traced, step)
    _hand_over(loop, sweep, step, final, lists)


def _cotangents_behind(loop: Loop, sweep: Sweep) -> tuple:
    """Cotangents of the float states after the last step; and the `ListCotangent` of each list that is written."""
    m, outputs = sweep.num_outputs, loop.op.outputs
    floats = []
    for k in loop.float_states:
        known = sweep.cotangent(outputs[k])
        floats.append(tf.zeros([m, *axes(outputs[k])], outputs[k].dtype) if known is None else known)
    lists = {k: sweep.cotangent(outputs[k]) for k in loop.list_states}
    return floats, {k: known.settled(outputs[k]) for k, known in lists.items() if known is not None}


def _pass_on_what_stays(loop: Loop, sweep: Sweep) -> None:
    """Give the cotangents of loop variables that no step changes to the sweep around the loop."""
    for k in loop.inside.invariant:
        cotangent = sweep.cotangent(loop.op.outputs[k])
        if cotangent is not None:
            sweep.add(loop.op.inputs[k], cotangent)


class _Step:
    """One step backwards, traced once as a function of its own so that what it returns is known before the loop.

    Attributes:
        written: indices of the lists for which marks of overwritten elements are carried.
        sums: indices of the invariant floats whose cotangents are added up over the steps.
        reads: indices of the invariant lists, one for each pair of an index and a cotangent that a step gives.
        parts: pairs of a shared tensor of the body and the `Factor` that belongs to it, in the graph of the step.
    """

    def __init__(self, loop: Loop, sweep: Sweep, lists: dict) -> None:
        self.loop, self.sweep, self.lists = loop, sweep, lists
        self.written = list(lists)
        carried = [k for k, axis in loop.inside.invariant.items() if axis is not SHARED]
        self.sums = [k for k in carried if loop.op.inputs[k].dtype != tf.variant]
        self.list_inputs = [k for k in carried if loop.op.inputs[k].dtype == tf.variant]
        self.reads: list[int] = []
        self.parts: list[tuple[Tensor, Factor]] = []

    def trace(self, states: States, cotangents: Any) -> Any:
        """Return the step as a concrete function of recorded values, cotangents, and marks of overwritten elements."""
        body = self.loop.body
        return lean_function(self._step).get_concrete_function(
            [tf.TensorSpec(body.inputs[k].shape, body.inputs[k].dtype) for k in self.loop.recorded],
            [tf.TensorSpec(cotangent.shape, cotangent.dtype) for cotangent in cotangents],
            [tf.TensorSpec([self.lists[k].dense.shape[1]], tf.bool) for k in self.written],
        )

    def _step(self, values: Any, cotangents: Any, overwritten: Any) -> tuple:
        loop, body = self.loop, self.loop.body
        pairs = loop.values(body, loop.recorded, values)
        mapping = transplant(loop.targets, pairs)
        copied = {k: new for k, new in ((body.position(old), new) for old, new in pairs) if k is not None}
        seeds, axes_of_seeds, marks = self._seeds(mapping, cotangents, overwritten)
        sources = [copied[k] for k in [*loop.float_states, *loop.inside.invariant] if k in copied]
        n = self.sweep.n
        analysis = analyse_examples(
            sources, [seed for seed, _ in seeds], axes_of_seeds, n if isinstance(n, int) else None
        )
        inner = Sweep(analysis, n)
        checked = after(check_when_run(analysis.assumed, n), [seed for _, seed in seeds])
        for (tensor, _), cotangent in zip(seeds, checked):
            inner.add(tensor, cotangent)
        inner.run([copied[k] for k in [*loop.float_states, *self.sums] if k in copied])
        before = [
            tf.zeros_like(cotangent) if k not in copied else _or_zeros(inner.cotangent(copied[k]), cotangent)
            for k, cotangent in zip(loop.float_states, cotangents)
        ]
        for found, cotangent in zip(before, cotangents):
            found.set_shape(cotangent.shape)  # a copy of a step may know less of its shapes
        m = inner.num_outputs
        sums = [_or_zeros(inner.cotangent(copied[k]), None, m, copied[k]) for k in self.sums]
        reads = self._read(inner, copied)
        self.parts = self._parts_of_body(inner.parts, mapping, copied)
        return before, marks, sums, reads, [factor for _, factor in self.parts]

    def _seeds(self, mapping: dict, cotangents: Any, overwritten: Any) -> tuple:
        """Tensors of the step with their cotangents: the float states after it, and what it writes to lists."""
        loop = self.loop
        seeds = [(mapping[loop.body.outputs[k].ref()], seed) for k, seed in zip(loop.float_states, cotangents)]
        ways = [loop.inside.state[k] for k in loop.float_states]
        known = {k: ListCotangent(self.lists[k].dense, marks) for k, marks in zip(self.written, overwritten)}
        for k, write in loop.writes:
            if k in known:
                index, element = (mapping[tensor.ref()] for tensor in write.inputs[1:3])
                seeds.append((element, known[k].at(index)))
                ways.append(loop.inside.state[k])
                known[k] = known[k].before_write(index)
        return seeds, ways, [known[k].overwritten for k in self.written]

    def _read(self, inner: Any, copied: Any) -> list:
        self.reads, pairs = [], []
        for k in self.list_inputs:
            cotangent = inner.cotangent(copied[k])
            for indices, parts in cotangent.reads if cotangent is not None else []:
                self.reads.append(k)
                pairs.append((indices, parts))
        return pairs

    def _parts_of_body(self, parts: Any, mapping: dict, copied: Any) -> list:
        """Tie each factor to the tensor of the body that its weight copies, where that is the same in all steps.

        Else to the shared loop variables that the weight is computed from.
        """
        body, old_of = self.loop.body, {new.ref(): old.deref() for old, new in mapping.items()}
        same, computed = [], []
        for weight, factor in parts:
            old = old_of.get(weight.ref())
            if old is not None and not self.loop.changing(self.loop.needed([old], body)):
                same.append((old, factor))
            else:
                computed.append((weight, factor))
        shared = [k for k, axis in self.loop.inside.invariant.items() if axis is SHARED and k in copied]
        columns = columns_of_sources(computed, Dependence([copied[k] for k in shared]))
        return same + [(body.inputs[k], factor) for k, factors in zip(shared, columns) for factor in factors]


def _or_zeros(cotangent: Any, like: Any, m: Size | None = None, tensor: Any = None) -> Tensor:
    if cotangent is not None:
        return cotangent
    return tf.zeros_like(like) if like is not None else tf.zeros([m, *axes(tensor)], tensor.dtype)


def _backwards(loop: Loop, states: States, cotangents: Any, traced: Any, step: Any) -> tuple:
    """Run the steps from the last to the first; return what `_Step` gives, added up or stacked over the steps."""
    lengths = [axes(step.lists[k].dense)[1] for k in step.written]
    marks = [
        tf.zeros([length], tf.bool) if step.lists[k].overwritten is None else step.lists[k].overwritten
        for k, length in zip(step.written, lengths)
    ]
    m = _num_outputs(cotangents, step)
    sums = [tf.zeros([m, *axes(loop.op.inputs[k])], loop.op.inputs[k].dtype) for k in step.sums]
    before, _, added, read_shapes, of_factors = traced.structured_outputs
    reads = [[step_array(part.dtype, part.shape, loop.bound) for part in pair] for pair in read_shapes]
    stacks = [Stack(factor, loop.bound, step.sweep.n, m) for _, factor in step.parts]
    held = [stack.begin() for stack in stacks]

    def run(t: Tensor, cotangents: Any, marks: Any, sums: Any, reads: Any, held: Any) -> tuple:
        values = [array.read(t) for array in states.arrays]
        before, marks, new, read, factors = traced(values, cotangents, marks)
        sums = [old + part for old, part in zip(sums, new)]
        reads = [[array.write(t, part) for array, part in zip(pair, parts)] for pair, parts in zip(reads, read)]
        held = [stack.add(t, each, factor) for stack, each, factor in zip(stacks, held, factors)]
        return t - 1, list(before), list(marks), sums, reads, held

    initial = (tf.convert_to_tensor(states.steps) - 1, cotangents, marks, sums, reads, held)
    shapes = (
        tf.TensorShape([]),
        list(map(_common_shape, cotangents, before)),
        [mark.shape for mark in marks],
        list(map(_common_shape, sums, added)),
        tf.nest.map_structure(lambda array: tf.TensorShape([]), reads),
        [list(map(_common_shape, each, factor.tensors())) for each, factor in zip(held, of_factors)],
    )
    run = shared_constants()(run)
    results = tf.while_loop(lambda t, *_: t >= 0, run, initial, shapes, maximum_iterations=loop.bound)
    _, cotangents, marks, sums, reads, held = results
    for tensor in [*cotangents, *sums]:
        tensor.set_shape([m if isinstance(m, int) else None, *tensor.shape[1:]])
    factors = [stack.end(each) for stack, each in zip(stacks, held)]
    return cotangents, marks, sums, reads, factors


def _num_outputs(cotangents: Any, step: _Step) -> Size:
    return axes(cotangents[0] if cotangents else step.lists[step.written[0]].dense)[0]


def _common_shape(held: Any, step: Any) -> tf.TensorShape:
    """The shape of what is held and of what a step gives, open where one of them is; an array has none."""
    if isinstance(held, tf.TensorArray):
        return tf.TensorShape([])
    return held.shape.most_specific_common_supertype([step.shape])


def _hand_over(loop: Loop, sweep: Sweep, step: Any, final: Any, lists: dict) -> None:
    """Give the cotangents before the first step, and the factors, to the sweep around the loop."""
    op = loop.op
    cotangents, marks, sums, reads, factors = final
    for k, cotangent in zip(loop.float_states, cotangents):
        cotangent.set_shape([cotangent.shape[0], *op.inputs[k].shape])
        sweep.add(op.inputs[k], cotangent)
    for k, overwritten in zip(step.written, marks):
        sweep.add(op.inputs[k], ListCotangent(lists[k].dense, overwritten))
    for k, cotangent in zip(step.sums, sums):
        cotangent.set_shape([cotangent.shape[0], *op.inputs[k].shape])
        sweep.add(op.inputs[k], cotangent)
    for k, (indices, parts) in zip(step.reads, reads):
        axis, sizes = loop.inside.invariant[k], [_num_outputs(cotangents, step), *parts.element_shape[1:]]
        if sizes[2 + axis.axis] is None and (axis.outer, axis.inner) == (1, 1):
            sizes[2 + axis.axis] = sweep.n
        indices, parts = indices.stack(), stacked(parts, sizes)
        rank = parts.shape.rank
        moved = tf.transpose(parts, [1, 0, *range(2, rank)])
        merged = tf.reshape(moved, [axes(moved)[0], axes(moved)[1] * axes(moved)[2], *axes(moved)[3:]])
        sweep.add(op.inputs[k], ListCotangent(reads=[(tf.reshape(indices, [-1]), merged)]))
    weights = [weight for weight, _ in step.parts]
    with op.graph.as_default():  # which the sweep may be nested in
        mapping = transplant(weights, loop.values(loop.body, [], []))
    sweep.parts += [(mapping[weight.ref()], factor) for weight, factor in zip(weights, factors)]
