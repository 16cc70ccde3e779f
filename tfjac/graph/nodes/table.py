"""The nodes of a graph: every tensor that is computed in it, also inside of the functions that it calls."""

import collections
import dataclasses
import functools
import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, overload

import keras
import tensorflow as tf

from tfjac.graph import _private
from tfjac.graph.copying.bodies import without_identities
from tfjac.graph.copying.transplanting import needed_ops
from tfjac.graph.facts import facts_of, is_call, is_identity, reads_variable
from tfjac.graph.nodes.taps import Returned, returned_by_layer, tap_of
from tfjac.graph.reading.origins import layer_calls, layer_path, layer_scope, source_line
from tfjac.graph.reading.variables import handle_in, name_of_variable
from tfjac.tables import aligned
from tfjac.types import Tensor

_UNLISTED = {"constant", "handle", "nothing", "parameter", "read"}
"""Kinds of ops that are no nodes."""


@dataclasses.dataclass(frozen=True)
class Node:
    """A tensor of a graph.

    Attributes:
        name: the name of a tap; the path of the layer that returned the tensor; or the name of the op that computes it.
            Where a layer or op has several results, with the index of this one: `split:1`.
        kind: "tap", "layer" or "op"; "variable" for what a variable, as a selector, is read by.
        op_type: the type of the op, such as "Relu"; for a layer the name of its class.
        shape: a `tf.TensorShape`.
        dtype: a `tf.DType`.
        inside: the loop or branch that it stands in, "" outside of these.
        tensor: the symbolic tensor itself, of a graph that is read and never run.
        place: the ops in whose bodies it stands, one in another: their names, the attribute that names the body, and
            which body of several.
        returned: the `Returned` of a layer's result, else None.
    """

    name: str
    kind: str
    op_type: str
    shape: tf.TensorShape
    dtype: tf.DType
    inside: str
    tensor: tf.Tensor = dataclasses.field(repr=False, compare=False)
    place: tuple = dataclasses.field(repr=False, compare=False)
    returned: Returned | None = dataclasses.field(repr=False, compare=False)
    _origin: "_Origin" = dataclasses.field(repr=False, compare=False)

    @functools.cached_property
    def layer(self) -> str:
        """The path of the layer in which it is computed, "" outside of layers."""
        return self.returned.path if self.returned else self._origin.path(self.op)

    @functools.cached_property
    def call(self) -> int:
        """Which call of that layer it belongs to, from 0."""
        if self.returned:
            return self._origin.numbers[self.returned.id][self.returned.call]
        return self._origin.calls.get(layer_scope(self.op), 0)

    @functools.cached_property
    def source(self) -> Any:
        """The line of the program that made it, a `SourceLine`; None where it is not known."""
        return source_line(self.op)

    @property
    def handle(self) -> Tensor:
        """The handle, in the outermost function, of the variable that it is read from, where it is of that kind."""
        return self._origin.outermost(without_identities(self.op.inputs[0]))

    @property
    def key(self) -> tuple[Any, ...]:
        """What tells the tensor from every other: the functions around it, its op, and which result it is."""
        return (*self.place, self.tensor.op.name, self.tensor.value_index)

    @property
    def op(self) -> tf.Operation:
        """The op that computes it, of a graph that is read and never run."""
        return self.tensor.op

    def __str__(self) -> str:
        call = f"[{self.call}]" if self.kind == "layer" and self.call else ""
        return f"{self.kind} {self.name + call!r} of type {self.op_type}"


class Nodes(collections.abc.Sequence[Node]):
    """A table of `Node`s, in the order in which they are computed, which prints as one.

    Attributes:
        columns: the attributes of a node that are printed.
        reads: those that are not listed, what variables are read by.
    """

    columns = ("name", "kind", "op_type", "layer", "call", "shape", "dtype", "source", "inside")

    def __init__(self, nodes: Iterable[Node], reads: Iterable[Node] = ()) -> None:
        """Hold an iterable of nodes, and one of `reads`."""
        self._nodes, self.reads = tuple(nodes), tuple(reads)

    def __len__(self) -> int:
        return len(self._nodes)

    @overload
    def __getitem__(self, index: int) -> Node: ...
    @overload
    def __getitem__(self, index: slice) -> "Nodes": ...
    def __getitem__(self, index: int | slice) -> "Node | Nodes":
        return Nodes(self._nodes[index]) if isinstance(index, slice) else self._nodes[index]

    def where(self, **values: Any) -> "Nodes":
        """Return the nodes whose attributes have these values, such as `where(kind="layer", op_type="Conv2D")`."""
        return Nodes(node for node in self if all(getattr(node, key) == value for key, value in values.items()))

    def __str__(self) -> str:
        rows = [self.columns, *([_text(getattr(node, column)) for column in self.columns] for node in self)]
        return os.linesep.join(aligned(rows, indent=""))

    __repr__ = __str__


def _text(value: Any) -> str:
    if isinstance(value, tf.DType):
        return value.name
    return "" if value is None else str(value)


def nodes_in(graph: tf.Graph, targets: Sequence[Tensor]) -> Nodes:
    """Return the `Nodes` of a function that its `targets` are computed from, or what it does.

    Args:
        graph: its graph.
    """
    numbers: dict[str, dict[str, int]] = {}
    repeated: collections.Counter[str] = collections.Counter()
    nodes, reads = [], []
    names = {id(handle_in(graph, each)): name_of_variable(each) for each in getattr(graph, "variables", ())}
    for node in _nodes_of(graph, targets, (), "", _Origin(numbers)):
        if node.kind == "variable":
            reads.append(dataclasses.replace(node, name=names.get(id(node.handle), node.name)))
            continue
        if node.returned:
            calls = numbers.setdefault(node.returned.id, {})
            calls.setdefault(node.returned.call, len(calls))
        elif node.kind == "op":  # two calls of one function have ops of the same names
            repeated[node.name] += 1
            if repeated[node.name] > 1:
                node = dataclasses.replace(node, name=f"{node.name}_{repeated[node.name] - 1}")
        nodes.append(node)
    return Nodes(nodes, reads)


def node_of_layer(layer: keras.Layer, tensor: Tensor, output: int | str) -> Node:
    """Return the `Node` for a tensor that a Keras layer returns, where its graph is not read: index `output` or ""."""
    returned = Returned(layer.name, type(layer).__name__, str(id(layer)), "0", str(output))
    name = layer.name + (f":{output}" if returned.output else "")
    origin = _Origin({returned.id: {"0": 0}})
    return Node(name, "layer", returned.type, tensor.shape, tensor.dtype, "", tensor, (), returned, origin)


def _nodes_of(
    graph: tf.Graph, targets: Sequence[Tensor], place: tuple, inside: str, origin: "_Origin"
) -> Iterator[Node]:
    """Yield the nodes of a function, those of the functions that its ops call before the results of these."""
    ops = needed_ops(graph, targets)
    origin = dataclasses.replace(origin, ops=ops)
    for op in ops:
        for attribute in facts_of(op).bodies:
            within = inside if is_call(op) else origin.name_of(op)
            for index, body in enumerate(_private.function_bodies(op, attribute)):
                around = dataclasses.replace(origin, around=(*origin.around, op))
                yield from _nodes_of(body, body.outputs, (*place, (op.name, attribute, index)), within, around)
        if reads_variable(op):
            yield dataclasses.replace(_node(op.outputs[0], place, inside, origin), kind="variable")
        if facts_of(op).kind not in _UNLISTED and not is_call(op) and not _passes_on_what_is_unlisted(op):
            for output in op.outputs:
                if output.dtype not in (tf.resource, tf.variant):
                    yield _node(output, place, inside, origin)


def _node(tensor: Tensor, place: tuple, inside: str, origin: "_Origin") -> Node:
    op, name, returned = tensor.op, tap_of(tensor.op), returned_by_layer(tensor.op)
    kind, op_type = "tap" if name else "layer" if returned else "op", op.type
    if returned:
        name, op_type = returned.path + (f":{returned.output}" if returned.output else ""), returned.type
    if not name:
        name = origin.name_of(op) + (f":{tensor.value_index}" if len(op.outputs) > 1 else "")
    return Node(name, kind, op_type, tensor.shape, tensor.dtype, inside, tensor, place, returned, origin)


def _passes_on_what_is_unlisted(op: tf.Operation) -> bool:
    if not is_identity(op) or tap_of(op) or returned_by_layer(op):
        return False
    return facts_of(op.inputs[0].op).kind in _UNLISTED


@dataclasses.dataclass(frozen=True)
class _Origin:
    """What the layers and calls of the nodes of one function are found with, when they are asked for.

    Attributes:
        numbers: dict from the id of a layer to one from its calls, as in `Returned`, to their numbers from 0.
        around: the ops around it, whose body it is.
        ops: its ops, in order.
    """

    numbers: dict[str, dict[str, int]]
    around: tuple[tf.Operation, ...] = ()
    ops: Sequence[tf.Operation] = dataclasses.field(default=(), repr=False)

    def name_of(self, op: tf.Operation) -> str:
        """Return the name of `op` with the scopes around its function, which the names in loops begin with already."""
        scopes = [os.path.dirname(each.name) if is_call(each) else each.name for each in self._around(op)]
        return "/".join(part for part in (*scopes, op.name) if part)

    def path(self, op: tf.Operation) -> str:
        """Return the path of the layer that made `op`."""
        return "/".join(path for path in map(layer_path, (*self._around(op), op)) if path)

    def outermost(self, tensor: Tensor) -> Tensor:
        """Return what `tensor`, of the innermost function, is outside of all functions, where it is passed to them."""
        for op in reversed(self.around):
            inputs = [id(given) for given in tensor.graph.inputs]
            if id(tensor) not in inputs:
                break
            passed = op.inputs[len(op.inputs) - len(inputs) :]  # all but the predicate of a conditional
            tensor = without_identities(passed[inputs.index(id(tensor))])
        return tensor

    def _around(self, op: tf.Operation) -> tuple[tf.Operation, ...]:
        """The ops around a function whose names the name of `op` does not begin with."""
        named = [k for k, each in enumerate(self.around, 1) if op.name.startswith(f"{each.name}/")]
        return self.around[named[-1] if named else 0 :]

    @functools.cached_property
    def calls(self) -> dict[str, int]:
        """The numbers of calls by scope."""
        return layer_calls(self.ops)
