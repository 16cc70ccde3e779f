"""A loop taken apart: the roles of its variables, and its states when it is run forwards once more."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from tfjac.graph import ancestors, compiled_by_xla, examples_mix_at, static_trip_count, transplant
from tfjac.linear.shapes import Size
from tfjac.types import Tensor


class Loop:
    """A loop op and the roles of its variables, by index.

    Attributes:
        float_states, list_states: variables that carry examples and change from step to step.
        writes: pairs of a list state and an op that writes to it in a step, last one first.
        targets: tensors of the body that a step backwards is taken from.
        recorded: variables whose value before each step is kept.
        steps: the number of steps where the graph fixes it, else None.
        bound: the number of steps, or an upper bound that XLA can work out; None where arrays grow.
    """

    def __init__(self, op: tf.Operation, inside: Any) -> None:
        self.op, self.inside, self.body = op, inside, inside.body
        self.float_states = [k for k in inside.state if k not in inside.writes]
        self.list_states = list(inside.writes)
        self.writes = [(k, write) for k, writes in inside.writes.items() for write in writes]
        written = [tensor for _, write in self.writes for tensor in write.inputs[1:]]
        self.targets = [self.body.outputs[k] for k in self.float_states] + written
        self.recorded = self.changing(self.needed(self.targets, self.body))
        self.run_on = self._closed(self.recorded + self.needed(inside.condition.outputs, inside.condition))
        self.steps = static_trip_count(op, self.body, inside.condition)
        self.bound = self.steps if self.steps is not None else self._bound_for_xla()
        lists = [k for k in self.run_on if op.inputs[k].dtype == tf.variant]
        if lists:
            raise examples_mix_at(op, "the loop reads a TensorArray that it writes to")

    def _bound_for_xla(self) -> Any:
        if not compiled_by_xla(tf.compat.v1.get_default_graph()):
            return None
        bound = self.op.inputs[1]
        if tf.get_static_value(bound) == -1:
            raise ValueError(
                "Under XLA a loop that is differentiated must have a largest number of steps. Pass maximum_iterations "
                f"to tf.while_loop, or compile without jit_compile. Received: {self.op.name!r} without one"
            )
        return bound

    @staticmethod
    def needed(targets: Any, function: Any) -> list[int]:
        """Indices of the parameters of a function of the loop that tensors in it depend on."""
        ops = {op.name for op in ancestors(targets)}
        return [k for k, tensor in enumerate(function.inputs) if tensor.op.name in ops]

    def changing(self, variables: Sequence[int]) -> list[int]:
        """Those of `variables` that a step does not just pass on."""
        return [k for k in variables if self.body.outputs[k] is not self.body.inputs[k]]

    def _closed(self, variables: Sequence[int]) -> list[int]:
        """The changing ones of `variables`, and what these depend on from step to step."""
        closed = set(self.changing(variables))
        while True:
            further = self.changing(self.needed([self.body.outputs[k] for k in closed], self.body))
            if closed.issuperset(further):
                return sorted(closed)
            closed |= set(further)

    def values(self, function: Any, variables: Sequence[int], tensors: Any) -> list:
        """Pairs of each parameter of a function of the loop and what stands for it: of `variables`, `tensors`."""
        given = dict(zip(variables, tensors))
        same = [k for k, output in enumerate(self.body.outputs) if output is self.body.inputs[k]]
        graph = tf.compat.v1.get_default_graph()
        pairs = [(function.inputs[k], tensor) for k, tensor in given.items()]
        return pairs + [(function.inputs[k], graph.capture(self.op.inputs[k])) for k in same]


@dataclasses.dataclass
class States:
    """What the loop, run forwards, leaves behind: the number of steps, and an array per recorded variable."""

    steps: int | tf.Tensor
    arrays: list


def recorded_states(loop: "Loop") -> "States":
    """Run the loop forwards, keeping the recorded variables as they are before each step."""
    body, variables = loop.body, loop.run_on
    arrays = [step_array(body.inputs[k].dtype, body.inputs[k].shape, loop.bound) for k in loop.recorded]

    def again(step: Any, values: Any, arrays: Any) -> Tensor:
        function = loop.inside.condition
        (decision,) = function.outputs
        return transplant([decision], loop.values(function, variables, values))[decision.ref()]

    def run(step: Any, values: Any, arrays: Any) -> tuple:
        given = dict(zip(variables, values))
        arrays = [array.write(step, given[k]) for array, k in zip(arrays, loop.recorded)]
        outputs = [body.outputs[k] for k in variables]
        mapping = transplant(outputs, loop.values(body, variables, values))
        return step + 1, [mapping[output.ref()] for output in outputs], arrays

    initial = (tf.constant(0), [loop.op.inputs[k] for k in variables], arrays)
    shapes = (
        tf.TensorShape([]),
        [body.inputs[k].shape for k in variables],
        [tf.TensorShape([]) for _ in arrays],
    )
    steps, _, arrays = tf.while_loop(again, run, initial, shapes, maximum_iterations=loop.bound)
    return States(steps if loop.steps is None else loop.steps, arrays)


def step_array(dtype: tf.DType, shape: tf.TensorShape, bound: Size | None) -> tf.TensorArray:
    """An array that keeps one tensor per step; it grows where the number of steps has no bound."""
    size = 0 if bound is None else bound
    return tf.TensorArray(dtype, size, dynamic_size=bound is None, clear_after_read=False, element_shape=shape)


def stacked(array: tf.TensorArray, sizes: Sequence[Size | None]) -> Tensor:
    """Return what an array keeps, `[step, *sizes]`; of no step, too, of which no element tells the sizes.

    Args:
        array: one by `step_array`.
        sizes: of an element; None for those that are not known before there is one.
    """
    if compiled_by_xla(array.flow.graph):  # there all sizes are known; those that are given as tensors would not be
        return array.stack()
    shape = [-1 if size is None else size for size in sizes]
    steps = tf.raw_ops.TensorListStack(input_handle=array.flow, element_shape=shape, element_dtype=array.dtype)
    return tf.ensure_shape(steps, [None, *(size if isinstance(size, int) else None for size in sizes)])
