"""What tracing knows of the tensors of a graph: values and shapes that are the same in every run, whatever xs are."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tfjac.graph import captured_tensor, references, shape_only
from tfjac.graph.copying.constants import Value, outputs_of
from tfjac.graph.facts import facts_of, is_parameter
from tfjac.jacobians.sparsity.rules.index_set_rules import has_rule
from tfjac.types import Tensor


class Known:
    """The values and shapes of the tensors of one graph, where they are the same in every run.

    A value is known where it is made of constants, and of eager tensors that the graph captured. What an x is, and
    what is computed from it, is never known: an eager tensor that is an x, too, is a constant in the graph.
    """

    def __init__(
        self,
        graph: tf.Graph,
        xs: Sequence[Tensor] = (),
        parameters: Iterable[tuple[Tensor, Value | None, list[int] | None]] = (),
        enclosing: "Known | None" = None,
    ) -> None:
        """Start with nothing but what is given.

        Args:
            xs: tensors of the graph that are xs, or stand for them; and eager ones.
            parameters: triples of an input of the graph, its value or None, and its shape or None.
            enclosing: the `Known` of the graph that this one captures tensors of, or None.
        """
        self._enclosing = enclosing
        self._eager: list[Tensor] = [x for x in xs if not tf.is_symbolic_tensor(x)] + (
            enclosing._eager if enclosing else []
        )
        here = [x for x in xs if tf.is_symbolic_tensor(x)] + [captured_tensor(graph, x) for x in self._eager]
        self._moving = references(x for x in here if x is not None)
        self._values = dict.fromkeys(self._moving)
        self._shapes: dict[Any, list[int] | None] = {}
        for tensor, value, shape in parameters:
            self._values[tensor.ref()], self._shapes[tensor.ref()] = value, shape
            if value is None:
                self._moving.add(tensor.ref())

    def __call__(self, tensor: Tensor) -> Value | Any:
        """Return the value of `tensor` as an array, or None where it is open."""
        for op in _unvisited(tensor, lambda each: each.ref() in self._values):
            self._values.update(zip(references_of(op.outputs), self._values_of(op)))
        return self._values[tensor.ref()]

    def entries(self, tensor: Tensor) -> list[Any]:
        """Return the elements of a vector (or scalar) one by one as a list, None for each that is open."""
        value = self(tensor)
        if value is not None:
            return list(np.reshape(value, -1))
        facts = facts_of(tensor.op)
        if facts.joins is not None:
            parts = tensor.op.inputs if facts.joins == "all inputs" else tensor.op.inputs[:-1]
            return [entry for part in parts for entry in self.entries(part)]
        if facts.elements == "in order" or facts.kind == "cast":
            return self.entries(tensor.op.inputs[0])
        return [None] * int(np.prod(self.shape(tensor)))

    def shape(self, tensor: Tensor) -> list[int] | Any:
        """Return the sizes of the axes of `tensor`, a list; None where one is not known, or it holds no numbers."""
        if not _holds_numbers(tensor.dtype):
            return None
        for op in _unvisited(tensor, self._has_shape):
            self._shapes.update(zip(references_of(op.outputs), self._shapes_of(op)))
        shape = self._shapes[tensor.ref()] if tensor.ref() in self._shapes else tensor.shape.as_list()
        return _ensured_shape(tensor) if shape is None else shape

    def learn(self, tensor: Tensor, value: Value | None, shape: list[int] | None) -> None:
        """Note what is found in another way; None is nothing."""
        if value is not None:
            self._values[tensor.ref()] = value
            self._moving.discard(tensor.ref())
        if shape is not None:
            self._shapes[tensor.ref()] = shape

    def of_body(self, parameters: Iterable[tuple[Tensor, Value | None, list[int] | None]]) -> "Known":
        """Return what is known of the body of a loop or branch.

        Args:
            parameters: triples of an input of the body, its value or None, and its shape or None.
        """
        parameters = list(parameters)
        return Known(parameters[0][0].graph, parameters=parameters, enclosing=self)

    def _has_shape(self, tensor: Tensor) -> bool:
        return tensor.ref() in self._shapes or tensor.shape.is_fully_defined()

    def _values_of(self, op: tf.Operation) -> list[Value | None]:
        if not shape_only(op) and references(op.inputs) & self._moving:
            self._moving |= references(op.outputs)
        elif facts_of(op).list == "made of a tensor":
            return [self._values[op.inputs[0].ref()]]  # a list is known as the tensor of its items
        elif facts_of(op).list == "item read":
            items, position = (self._values[each.ref()] for each in op.inputs[:2])
            return [None if items is None or position is None else items[position]]
        elif all(_holds_numbers(output.dtype) for output in op.outputs):
            if is_parameter(op):
                return [self._of_capture(op.outputs[0])]
            if shape_only(op):
                inputs = [_ones(self.shape(each), each.dtype) for each in op.inputs]
            else:
                inputs = [self._values[each.ref()] for each in op.inputs]
            found = outputs_of(op, inputs) if op.inputs else None
            if found is not None:
                return found
            static = [tf.get_static_value(output) for output in op.outputs]
            return [None if value is None else np.asarray(value) for value in static]
        return [None] * len(op.outputs)

    def _of_capture(self, placeholder: Tensor) -> Value | None:
        outer = _captured_by(placeholder)
        if outer is None:
            return None
        if not tf.is_symbolic_tensor(outer):
            return outer.numpy()
        return self._enclosing(outer) if self._enclosing else None

    def _shapes_of(self, op: tf.Operation) -> list[list[int] | None]:
        """By running the op on ones, if its rule says that values of floats have no say in the shape."""
        if is_parameter(op):
            outer = _captured_by(op.outputs[0])
            known = outer is not None and tf.is_symbolic_tensor(outer)
            return [self._enclosing.shape(outer) if known and self._enclosing else None]
        found = None
        if has_rule(op.type):
            inputs = [self._value_or_ones(each) for each in op.inputs]
            if facts_of(op).takes == "a strided slice":
                inputs[1:3] = self._ends_of_slice(op)
            found = outputs_of(op, inputs)
        if found is not None:
            return [list(np.shape(value)) for value in found]
        values = [self(output) for output in op.outputs]
        return [None if value is None else list(value.shape) for value in values]

    def _ends_of_slice(self, op: tf.Operation) -> list[Value | None]:
        """Begin and end, with a place of its own choice where one element is taken at an open place."""
        begin, end = (self.entries(each) for each in op.inputs[1:3])
        for k in range(len(begin)):
            if begin[k] is None and op.get_attr("shrink_axis_mask") >> k & 1:
                begin[k], end[k] = 0, 1
        return [None if None in entries else np.array(entries, np.int32) for entries in (begin, end)]

    def _value_or_ones(self, tensor: Tensor) -> Value | None:
        value = self(tensor)
        if value is None and (tensor.dtype.is_floating or tensor.dtype.is_complex):
            return _ones(self.shape(tensor), tensor.dtype)
        return value


def references_of(tensors: Iterable[Tensor]) -> list:
    """The `ref()` of each of `tensors`, in order."""
    return [tensor.ref() for tensor in tensors]


def _unvisited(tensor: Tensor, is_known: Callable[[Tensor], bool]) -> Iterator[tf.Operation]:
    """The ops that `tensor` is computed from, up to tensors that are known, inputs before consumers."""
    stack = [tensor]
    while stack:
        pending = [] if is_known(stack[-1]) else [each for each in stack[-1].op.inputs if not is_known(each)]
        stack.extend(pending)
        if not pending and not is_known(tensor := stack.pop()):
            yield tensor.op


def _ensured_shape(tensor: Tensor) -> list[int] | None:
    """The shape that a `tf.ensure_shape` of the tensor says that it has, or None."""
    ensured = [op.outputs[0].shape for op in tensor.consumers() if op.type == "EnsureShape"]
    return next((shape.as_list() for shape in ensured if shape.is_fully_defined()), None)


def _captured_by(placeholder: Tensor) -> Tensor | None:
    """What the graph of a placeholder captured as it, or None."""
    captures = getattr(placeholder.graph, "captures", ())
    return next((outer for outer, inner in captures if inner is placeholder), None)


def _ones(shape: Sequence[int] | None, dtype: tf.DType) -> Value | None:
    return None if shape is None or not _holds_numbers(dtype) else np.ones(shape, dtype.as_numpy_dtype)


def _holds_numbers(dtype: tf.DType) -> bool:
    return dtype not in (tf.resource, tf.variant, tf.string)
