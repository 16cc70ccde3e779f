"""Making a graph readable: function calls replaced by their bodies, custom gradients traced."""

from collections.abc import Callable, Iterable, Sequence

import tensorflow as tf

from tfjac.graph.copying import (
    cudnn,
    mapped_gradients,  # noqa: F401 (it registers one)
)
from tfjac.graph.copying.constants import Constants, Value, outputs_of
from tfjac.graph.copying.rebuilding import is_rebuilt, rebuilt
from tfjac.graph.copying.transplanting import copy_ops, function_run, transplant
from tfjac.graph.facts import is_call
from tfjac.graph.gradients import custom_gradients, mending
from tfjac.graph.reading import statefulness
from tfjac.graph.reading.statefulness import check_not_assigned_since
from tfjac.graph.reading.traversal import ancestors, between, references
from tfjac.types import Copies, Tensor


def inline_calls(
    targets: Sequence[Tensor], depends_on: Sequence[Tensor] | None = None, draw_again: bool = False
) -> list[Tensor]:
    """Return tensors equal to `targets` whose graph calls no function on the way, nor makes a choice that is fixed.

    The bodies of nested `tf.function` calls, and of reloaded SavedModels, are copied in place, recursively: left
    alone, a loaded function has no Python gradient, and nothing can be read through any of them. Loops and branches
    stay what they are. Custom gradients are traced, see `custom_gradients`. Ops that TensorFlow differentiates wrongly
    get a right gradient, see `gradients`.

    Args:
        targets: list of tensors of one graph.
        depends_on: where given, only calls that depend on one of these tensors are inlined.
        draw_again: whether random numbers that a call draws may be drawn again. So they may where the targets
            themselves are not seen, and all is computed from what is returned here.

    Returns:
        A list of tensors like `targets`; the same tensors where there is no call. Costs one copy of the ops between
        the first call and the targets; ops with side effects keep running once, in the original call.

    Raises:
        ValueError: where a variable that a call reads is assigned in it or after it, as the copy would read the new
            value; and where a call draws random numbers, unless `draw_again`.
        LookupError: for an op whose gradient is wrong in TensorFlow, where none takes its place.
    """
    path = _path(depends_on, targets)
    calls = [op for op in path if function_run(op, op.inputs) is not None or cudnn.is_layer_of_cudnn(op)]
    for call in filter(is_call, calls):
        check_not_assigned_since(call)
        statefulness.check_gives_the_same(call, draw_again)
    folding = _Folding(depends_on)
    places = folding.of_open_size(path)
    mapping: Copies = {}
    copy_ops([*places, *_from_the_first_on([*places, *calls], path)], mapping, folding.rewritten)
    inlined = [mapping.get(target.ref(), target) for target in targets]
    mending.mend(_path(depends_on, inlined) if mapping else path, depends_on)
    return inlined


class _Folding:
    """Ops of constants alone, run where TensorFlow would leave the size of what they give open: `tf.where` of a mask.

    Args:
        sources: what is not constant, list of tensors of the current graph; None where that is not known.
    """

    def __init__(self, sources: Sequence[Tensor] | None) -> None:
        self._value_of = sources and Constants(tf.compat.v1.get_default_graph(), sources)

    def of_open_size(self, path: Sequence[tf.Operation]) -> list[tf.Operation]:
        """List the ops that `path` reads constants of open size from."""
        names = {op.name for op in path}
        read = {tensor.op.name: tensor.op for op in path for tensor in op.inputs if tensor.op.name not in names}
        return [op for op in read.values() if op.inputs and self._folded(op, op.inputs)]

    def rewritten(
        self, op: tf.Operation, inputs: Sequence[Tensor], copied: Callable[[], Sequence[Tensor]]
    ) -> Sequence[Tensor]:
        """What stands for `op`: a loop or branch with custom gradients is rewritten, behind a call too.

        TensorFlow differentiates a plain copy through a body that it makes again, which the Python functions do not
        know.
        """
        folded = self._folded(op, inputs)
        if folded is not None:
            return [tf.constant(value) for value in folded]
        fixed = function_run(op, inputs) is not None
        if not fixed and op.graph is tf.compat.v1.get_default_graph() and is_rebuilt(op):
            return rebuilt(op, inputs, transplant)
        return copied()

    def _folded(self, op: tf.Operation, inputs: Sequence[Tensor]) -> list[Value] | None:
        is_open = any(not output.shape.is_fully_defined() for output in op.outputs)
        if not is_open or not self._value_of or not inputs:
            return None
        return outputs_of(op, [self._value_of(tensor) for tensor in inputs])


def _path(sources: Sequence[Tensor] | None, targets: Sequence[Tensor]) -> list[tf.Operation]:
    reads = custom_gradients.inputs_read
    return ancestors(targets, reads=reads) if sources is None else between(sources, targets, reads)


def _from_the_first_on(changing: Sequence[tf.Operation], path: Iterable[tf.Operation]) -> list[tf.Operation]:
    """The ops of `path` that are, or depend on, one of those that something else will stand for."""
    names, ops = {op.name for op in changing}, []
    reached = references(output for op in changing for output in op.outputs)
    for op in path if changing else ():
        if op.name in names or any(tensor.ref() in reached for tensor in custom_gradients.inputs_read(op)):
            reached |= references(op.outputs)
            ops.append(op)
    return ops
