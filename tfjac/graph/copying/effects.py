"""What a traced function does besides computing: draw random numbers, take the next batch, assign, print.

One that is evaluated again and again must be the same function each time. So what acts runs once, in the order of the
program, and what it gave is a constant from then on.
"""

from collections.abc import Callable, Sequence

import tensorflow as tf

from tfjac.graph import _private
from tfjac.graph.copying.transplanting import copy_ops
from tfjac.graph.facts import facts_of, functions_of_stateful, is_call, reads_variable
from tfjac.graph.gradients import custom_gradients
from tfjac.graph.reading import statefulness
from tfjac.graph.reading.traversal import ancestors, between, references
from tfjac.types import Tensor, TensorPairs


class Effects:
    """The ops of a function's graph that draw from a state or act on one.

    Ops that call Python with what depends on the variables are left out: they are evaluated each time.

    Args:
        graph: the graph of the function; no call on the way to the outputs draws inside.
        outputs: what the function returns, a list of tensors.
        handles: list of what it is a function of: handles of variables, and tensors.

    Attributes:
        drawn: list of tensors of the graph, what the outputs use of what these ops give.

    Raises:
        ValueError: for a loop or branch that depends on the variables and draws inside, and for random numbers whose
            distribution depends on them.
    """

    def __init__(self, graph: tf.Graph, outputs: Sequence[Tensor], handles: Sequence[Tensor]) -> None:
        used = {op.name for op in ancestors(outputs, reads=custom_gradients.inputs_read)}
        moving = {op.name for op in between(handles, outputs, custom_gradients.inputs_read)}
        ops = graph.get_operations()
        acting = [op for op in ops if _acts(op, op.name in used, op.name in moving)]
        touched = references(tensor for op in acting for tensor in op.inputs) - references(handles)
        reads = [op for op in ops if acting and reads_variable(op) and op.inputs[0].ref() in touched]
        sources = ancestors([tensor for op in (*acting, *reads) for tensor in op.inputs])
        names = {op.name for op in (*acting, *reads, *sources)}
        self._ops = [op for op in ops if op.name in names]
        self.drawn = [output for op in (*acting, *reads) if op.name in used for output in op.outputs]

    def __bool__(self) -> bool:
        """Whether there are any."""
        return bool(self._ops)

    def run(self, values: TensorPairs) -> list[Tensor]:
        """Run the ops in the current graph, and return what stands for `drawn`.

        Args:
            values: pairs of tensors of the graph, its placeholders among them, and what stands for them here.
        """
        mapping = {old.ref(): new for old, new in values}
        given = set(mapping)
        copy_ops([op for op in self._ops if not references(op.outputs) & given], mapping, _as_it_is)
        return [mapping[tensor.ref()] for tensor in self.drawn]


def calls_that_draw(targets: Sequence[Tensor]) -> list[tf.Operation]:
    """Return the calls of functions that `targets` are computed from, inside of which something is drawn: a list."""
    path = ancestors(targets, reads=custom_gradients.inputs_read)
    return [op for op in path if is_call(op) and _draws_inside(op)]


def _acts(op: tf.Operation, used: bool, moving: bool) -> bool:
    """Return whether `op` is to run once.

    Args:
        used: whether the outputs are computed from it.
        moving: whether they are, and it is computed from the variables.
    """
    if functions_of_stateful(op):
        if moving:
            statefulness.check_runs_again(op)
        return not used or (not moving and _draws_inside(op))
    if facts_of(op).kind == "python" and op.op_def.is_stateful:
        return not moving
    if moving and statefulness.draws(op) and _private.is_differentiable(op):
        raise ValueError(
            "What is drawn at random is drawn once, and so must not depend on the variables: draw from a distribution "
            f"without parameters, and transform that. Received: op {op.name!r} of type {op.type}"
        )
    return statefulness.draws(op) or facts_of(op).kind == "assertion"


def _draws_inside(op: tf.Operation) -> bool:
    bodies = (body for name in functions_of_stateful(op) for body in _private.function_bodies(op, name))
    return any(statefulness.culprit_in(body) is not None for body in bodies)


def _as_it_is(op: tf.Operation, inputs: Sequence[Tensor], copied: Callable[[], Sequence[Tensor]]) -> Sequence[Tensor]:
    """Copy a call as a call: inlined, it would lose what it does besides computing its results."""
    return _private.copy_op(op, inputs).outputs if functions_of_stateful(op) else copied()
