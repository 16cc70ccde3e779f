"""Custom gradients: what a Python function computes backwards, made a part of the graph.

`tf.custom_gradient` leaves an op whose gradient is a Python function, and that function holds tensors of the graph in
which it was made. Taken for a copy of the op elsewhere, it would go back through the tensors of the original; and
nothing shows what it does to the cotangents of different examples. So it is traced once, where it was made, into a
function of the graph, the *backward* of the op, which stands among the attributes of the op and travels with it. A copy
of the op is *closed*: all that the backward reads is an input of it.
"""

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import tensorflow as tf

from tfjac.graph import _private
from tfjac.graph.facts import facts_of, is_call, is_identities
from tfjac.graph.gradients.marks import copy_mark
from tfjac.types import Tensor

CLOSED = "TfjacClosedGradient"
"""The gradient of closed copies, registered in `copying`."""

MAPPED = "TfjacMappedGradient"
"""The gradient of what `tf.vectorized_map` makes of an op with a custom one, and leaves without; likewise."""

_BACKWARD, _RECEIVERS, _OUTPUTS = "_tfjac_backward", "_tfjac_receivers", "_tfjac_outputs"
"""Attributes: the traced function, the inputs that it has gradients for, how many outputs it takes cotangents of."""
_FAILURE = "_tfjac_untraced"
"""The attribute that says why there are none of these."""

_MADE_BY_DECORATOR = "CustomGradient-"
"""What the names begin with under which `tf.custom_gradient` registers a gradient, one for each op."""

OWN: set[str] = set()
"""Names of gradients that the package gives ops, see `gradients`: they count as those of the type."""


@dataclasses.dataclass(frozen=True)
class Backward:
    """The backward of an op, as a part of a graph.

    Attributes:
        cotangents: for each output its placeholder, or None where it has no gradient.
        gradients: for each input the result, or None where no gradient passes.
        captures: pairs of what it reads besides, a tensor outside, and the placeholder inside.
        graph: the graph of the function.
    """

    cotangents: list[Tensor | None]
    gradients: list[Tensor | None]
    captures: list[tuple[Tensor, Tensor]]
    graph: tf.Graph

    @property
    def targets(self) -> list[Tensor]:
        """The gradients that there are."""
        return [gradient for gradient in self.gradients if gradient is not None]


def custom_gradient(function: Callable) -> Callable[[Tensor], Tensor]:
    """Return what `tf.custom_gradient` does for a function of one tensor, but forgotten with the graph it is used in.

    It is not asked for afterwards: a copy of its op in another graph is closed.
    """
    decorated = tf.custom_gradient(function)

    def call(x: Tensor) -> Tensor:
        result = decorated(x)
        if tf.is_symbolic_tensor(result):
            _forget_with_graph(result.op)
        return result

    return call


def forget_all_with_graph(graph: tf.Graph) -> None:
    """Have the custom gradients that `tf.custom_gradient` made in a graph, its loops and branches be forgotten with it.

    The graph must be one that the caller alone has.
    """
    for op in graph.get_operations():
        if is_identities(op) and (_name(op) or "").startswith(_MADE_BY_DECORATOR):
            _forget_with_graph(op)
        for body in (body for name in facts_of(op).bodies for body in _private.function_bodies(op, name)):
            if not is_call(op):  # what is called may be another's
                forget_all_with_graph(body)


def _forget_with_graph(op: tf.Operation) -> None:
    gradient = _private.gradient_function(op)
    _private.forget_with(gradient, _name(op))
    _private.keep_with(op.graph, gradient)


def is_custom(op: tf.Operation) -> bool:
    """Return whether the gradient of `op` is another than that of its type: a user's Python function, or its copy."""
    return _name(op) not in (None, *OWN) and not is_call(op) and op.type != "SymbolicGradient"


def is_closed(op: tf.Operation) -> bool:
    return _name(op) == CLOSED


def receivers(op: tf.Operation) -> Sequence[int]:
    """Return the indices of the inputs to which the gradient of `op` passes, where it is custom and was traced."""
    found = _private.integers_attribute(op, _RECEIVERS)
    return range(len(op.inputs)) if found is None else found


def is_open(op: tf.Operation) -> bool:
    """Return whether a copy of `op` must be closed: its gradient is a Python function, which could be traced."""
    return is_custom(op) and not is_closed(op) and reason_untraced(op) is None


def inputs_read(op: tf.Operation) -> Sequence[Tensor]:
    """Return what `op` reads, forwards or backwards, of its own graph."""
    if not is_open(op):
        return op.inputs
    return [
        *op.inputs,
        *(tensor for tensor in captured(op) if tf.is_symbolic_tensor(tensor) and tensor.graph is op.graph),
    ]


def captured(op: tf.Operation) -> list[Tensor]:
    """Return what the backward of an op that is not closed reads besides cotangents, as its own graph knows it."""
    return [_known_to(op.graph, tensor) for tensor, _ in backward_of(op).captures]


def reason_untraced(op: tf.Operation) -> str | None:
    """Return why the Python function of a custom gradient cannot be traced, None where it can; traces it, once.

    It may not be there, as in a SavedModel saved without custom gradients, or belong to another graph, as where that is
    loaded by the process that saved it; or it raises, as that of the second derivative of `tf.recompute_grad` does.
    """
    if _private.integers_attribute(op, _RECEIVERS) is None and _private.text_attribute(op, _FAILURE) is None:
        try:
            _trace(op)
        except Exception as failure:  # the user's own, which is raised again where the gradient is taken
            _private.set_text_attribute(op, _FAILURE, f"{type(failure).__name__}: {failure}")
    return _private.text_attribute(op, _FAILURE)


def backward_of(op: tf.Operation) -> Backward:
    """Return the `Backward` of an op with a custom gradient that could be traced."""
    (graph,) = _private.function_bodies(op, _BACKWARD)
    (count,) = _private.integers_attribute(op, _OUTPUTS)
    placeholders = list(graph.inputs)
    cotangents = [placeholders.pop(0) if _has_cotangent(output) else None for output in op.outputs[:count]]
    reads = op.inputs[len(op.inputs) - len(placeholders) :] if is_closed(op) else [outer for outer, _ in graph.captures]
    gradients = [None] * len(op.inputs)
    for index, gradient in zip(_private.integers_attribute(op, _RECEIVERS), graph.outputs):
        gradients[index] = gradient
    return Backward(cotangents + [None] * (len(op.outputs) - count), gradients, list(zip(reads, placeholders)), graph)


def close(
    op: tf.Operation, values: Sequence[Tensor], inputs: Sequence[Tensor], reads: Sequence[Tensor]
) -> list[Tensor]:
    """Add a closed op in the current graph that stands for `op`, and return its outputs.

    Args:
        op: an op with a custom gradient.
        values: list of tensors, the outputs of `op` here, to which no gradient passes.
        inputs: list of tensors, the inputs of `op` here.
        reads: list of tensors, what its backward captured (`captured`) here.
    """
    forwards_itself = is_identities(op)
    arguments = list(inputs) if forwards_itself else [*values, *inputs]
    closed = tf.raw_ops.IdentityN(input=[*arguments, *reads], name=op.name)
    _private.copy_traceback(op, closed[0].op)
    copy_mark(op, closed[0].op)
    shift = 0 if forwards_itself else len(values)
    receivers = [shift + index for index in _private.integers_attribute(op, _RECEIVERS)]
    for tensor, original in zip(closed, [*arguments, *reads]):
        _private.copy_handle_data(original, tensor)
    (function,) = _private.functions_named(op, _BACKWARD)
    _annotate(closed[0].op, function, receivers, len(values))
    _private.set_gradient(closed[0].op, CLOSED)
    return closed[: len(values)]


def _trace(op: tf.Operation) -> None:
    """Trace the Python function of a custom gradient, in the graph where it was made, into a function of that graph."""
    function, receivers = _private.gradient_function(op), list[int]()

    def backward(*cotangents: Tensor) -> list[Tensor]:
        given = iter(cotangents)
        gradients = function(op, *(next(given) if _has_cotangent(output) else None for output in op.outputs))
        gradients = gradients if isinstance(gradients, (list, tuple)) else [gradients]
        receivers.extend(index for index, gradient in enumerate(gradients) if gradient is not None)
        return [tf.convert_to_tensor(gradient) for gradient in gradients if gradient is not None]

    specs = [tf.TensorSpec(output.shape, output.dtype) for output in op.outputs if _has_cotangent(output)]
    with op.graph.as_default():
        traced = _private.trace(backward, specs)
    graphs = _graphs_around(op.graph)
    for read, _ in _private.captures_of(traced.graph):
        if tf.is_symbolic_tensor(read) and not any(read.graph is graph for graph in graphs):
            raise ValueError(f"it reads tensor {read.name!r} of another graph; was the function saved without it?")
    _annotate(op, traced, receivers, len(op.outputs))


def _graphs_around(graph: tf.Graph | None) -> list[tf.Graph]:
    """List a graph and those that it is nested in, whose tensors can be read in it."""
    found = []
    while graph is not None:
        found.append(graph)
        graph = _private.outer_graph(graph)
    return found


def _annotate(op: tf.Operation, function: Any, receivers: Iterable[int], outputs: int) -> None:
    _private.set_function_attribute(op, _BACKWARD, function)
    _private.set_integers_attribute(op, _RECEIVERS, receivers)
    _private.set_integers_attribute(op, _OUTPUTS, [outputs])


def _name(op: tf.Operation) -> str | Any:
    name = _private.gradient_name(op)
    original = _private.mapped_from(op) if name is None and is_identities(op) else None
    if original is not None and is_custom(original):
        _private.set_gradient(op, MAPPED)
        return MAPPED
    return name


def _has_cotangent(output: Tensor) -> bool:
    return output.dtype.is_floating or output.dtype.is_complex


def _known_to(graph: tf.Graph, tensor: Tensor) -> Tensor:
    """Return the placeholder that stands for `tensor` in `graph` where there is one."""
    inner = _private.captured_placeholder(graph, tensor) if _private.is_function_graph(graph) else None
    return tensor if inner is None else inner
