"""The residuals as a graph of their own: the user's function called once, and its graph placed where it is needed."""

import copy
import hashlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import tensorflow as tf

from tfjac.graph import (
    Effects,
    call_converted,
    calls_that_draw,
    captures_of,
    copy_inside,
    fingerprint,
    handle_in,
    handle_spec,
    holds_bodies,
    inline_calls,
    numbers_in,
    transplant,
)
from tfjac.objective.tracing.callables import check_residuals, explained, residual_tensors
from tfjac.objective.variables import variable_name
from tfjac.types import Residuals, Tensor, Variable


def called(function: Residuals, variables: Sequence[Variable], args: Any, is_part: bool = False) -> list[Tensor]:
    """Return the residuals as a list of tensors of the graph being traced; no function called on the way draws inside.

    Args:
        function: callable of `args` that reads the variables and returns a tensor or a nest of them.
        variables: list of the variables that are minimised over.
        args: tuple of nests of tensors.
        is_part: as in `residual_tensors`.

    Raises:
        TypeError: for residuals that are no such function, do not return tensors, or ask for values.
        ValueError: for no residuals at all, and where they assign to one of the variables.
    """
    check_residuals(function, args)
    graph = tf.compat.v1.get_default_graph()
    before = len(graph.get_operations())
    with explained():
        tensors = residual_tensors(call_converted(function, *args), variables, is_part)
    _check_not_assigned(
        graph.get_operations()[before:], variables, [handle_in(graph, variable) for variable in variables]
    )
    return inline_calls(tensors, draw_again=True) if calls_that_draw(tensors) else tensors


def traceable(
    function: Residuals, variables: Sequence[Variable], reduce_retracing: bool = False, is_part: bool = False
) -> tf.types.experimental.GenericFunction:
    """Return `called`, of nests of tensors, as a `tf.function`.

    Args:
        function, variables: as in `called`.
        reduce_retracing: whether a trace for tensors of any size may follow those for a few sizes.
        is_part: as in `called`.
    """

    def traced(*args: Any) -> list[Tensor]:
        return called(function, variables, args, is_part)

    return tf.function(traced, autograph=False, reduce_retracing=reduce_retracing)


_READS = {"ReadVariableOp", "ResourceGather", "ResourceGatherNd"}

_SMALL = 8
"""Integers of a constant that may say what shape something has."""

_PYTHON = {"EagerPyFunc", "PyFunc", "PyFuncStateless"}


class TracedResiduals:
    """The residuals as a function of data and of what the variables hold, in the form of a graph.

    The user's function has been called to make it. What it read of Python meanwhile, be it numbers, attributes or
    globals, is in the graph; tensors that it captured from around it are data, as its arguments are.

    Args:
        concrete: `tf.ConcreteFunction`, a trace of a `traceable` function.
        variables: list of the variables that are minimised over.
        num_values: how many of the first data are what is minimised over, in place of what variables hold.

    Attributes:
        handles: list of the handles of all variables that it reads.
        positions: for each of `variables`, where it is among these (None for one that is not read).
    """

    def __init__(self, concrete: Any, variables: Sequence[Variable], num_values: int = 0) -> None:
        self._concrete, self._graph, self._outputs = concrete, concrete.graph, list(concrete.graph.outputs)
        captures = captures_of(self._graph)
        tensors = [pair for pair in captures if _kind(pair[1]) == "tensor"]
        self._read = [pair for pair in captures if _kind(pair[1]) == "variable"]
        self._others = [pair for pair in captures if _kind(pair[1]) == "other"]
        self._inputs = [*self._graph.inputs[: -len(captures) or None], *(inner for _, inner in tensors)]
        self._captured = [outer for outer, _ in tensors]
        self.handles = [outer for outer, _ in self._read]
        handles = [handle_in(self._graph, variable) for variable in variables]
        self.positions = [_index(handle, [inner for _, inner in self._read]) for handle in handles]
        moved = [*self._inputs[:num_values], *(handle for handle in handles if handle is not None)]
        self._effects = Effects(self._graph, self._outputs, moved)
        self._known: dict[int, Tensor] = {}

    def knowing(self, data: Sequence[Tensor]) -> "TracedResiduals":
        """Return the same with the integers and booleans of `data` known: what is traced from it is for these alone.

        They say which elements are taken, so that the structure of the Jacobian follows from them.

        Args:
            data: list of eager tensors like `specs`.
        """
        other = copy.copy(self)
        other._known = {k: each for k, each in enumerate(data) if each.dtype.is_integer or each.dtype.is_bool}
        return other

    def agrees(self, data: Sequence[Tensor]) -> bool:
        """Return whether what is traced from it may be given `data`, a list of tensors like `specs`."""
        return all(_is_same(each, data[k]) for k, each in self._known.items())

    def check_compiles(self) -> None:
        """Refuse residuals that call Python when they run, which XLA cannot compile.

        Raises:
            ValueError: naming the op.
        """
        called = self.first_op(_PYTHON)
        if called is not None:
            raise ValueError(
                "The residuals call Python when they run, as tfjac.external, tf.py_function and tf.numpy_function do, "
                "which XLA cannot compile: leave jit_compile=True off. "
                f"Received: op {called.name!r} of type {called.op}"
            )

    def first_op(self, types: Iterable[str]) -> Any:
        """Return the definition of an op of one of these types, in a function that is called too, or None."""
        definition = self._graph.as_graph_def()
        bodies = [function.node_def for function in definition.library.function]
        return next((op for ops in (definition.node, *bodies) for op in ops if op.op in types), None)

    def data(self, args: Any) -> list[Tensor]:
        """Return the data of a call, a list of tensors like `specs`: those of `args`, and those that were captured."""
        return [*tf.nest.flatten(args, expand_composites=True), *self._captured]

    @property
    def num_tensors(self) -> int:
        """How many tensors the function returned."""
        return len(self._outputs)

    @property
    def shapes(self) -> list[tf.TensorShape]:
        return [tensor.shape for tensor in self._outputs]

    @property
    def num_rows(self) -> float:
        """How many residuals there are; infinity where that is not known."""
        sizes = [shape.num_elements() for shape in self.shapes]
        return float("inf") if None in sizes else sum(sizes)

    @property
    def num_numbers(self) -> float:
        """How many numbers there are in all tensors from data to residuals; infinity where that is not known."""
        return numbers_in(self._graph)

    @property
    def specs(self) -> list[tf.TensorSpec]:
        """List of `tf.TensorSpec`, what data are like."""
        return [_spec(tensor) for tensor in self._inputs]

    @property
    def drawn_specs(self) -> list[tf.TensorSpec]:
        """List of `tf.TensorSpec`, what is drawn is like."""
        return [_spec(tensor) for tensor in self._effects.drawn]

    @property
    def handle_specs(self) -> list[tf.TensorSpec]:
        """List of `tf.TensorSpec`, what the variables hold."""
        return [handle_spec(inner) for _, inner in self._read]

    def read(self) -> list[Tensor]:
        """Return what the variables in `handles` hold, a list of eager tensors."""
        pairs = zip(self.handles, self.handle_specs)
        return [tf.raw_ops.ReadVariableOp(resource=handle, dtype=spec.dtype) for handle, spec in pairs]

    def read_traced(self) -> list[Tensor]:
        """Return what the variables in `handles` hold, a list of tensors of the current graph with derivatives."""
        variables = {id(variable.handle): variable for variable in self._graph.variables}
        return [variables[id(handle)].read_value() for handle in self.handles]

    def draw(self, data: Sequence[Tensor]) -> list[Tensor]:
        """Run in the current graph what the residuals draw from a state, or act on, and return what they use of it.

        Args:
            data: list of tensors like `specs`.
        """
        return self._effects.run(self._given(data, self.handles)) if self._effects else []

    def place(
        self, data: Sequence[Tensor], drawn: Sequence[Tensor], handles: list[Tensor] | None = None
    ) -> list[Tensor]:
        """Return the residuals, a list of tensors of the current graph, at what the variables hold at this point.

        Args:
            data: list of tensors like `specs`.
            drawn: what `draw` returned.
            handles: list of the handles of variables to read in place of those in `handles`.
        """
        return self._placed(self._given(data, self.handles if handles is None else handles), drawn)

    def constants(self, rows: int) -> list[Tensor]:
        """List the constants of the graph that have so many rows, but for what may be a shape, or axes."""
        outputs = [op.outputs[0] for op in self._graph.get_operations() if op.type == "Const"]
        found = [tensor for tensor in outputs if tensor.shape.rank and tensor.shape[0] == rows]
        return [each for each in found if not (each.dtype.is_integer and each.shape.num_elements() <= _SMALL)]

    def place_at(
        self, data: Sequence[Tensor], drawn: Sequence[Tensor], values: list[Tensor], constants: Sequence[Tensor] = ()
    ) -> list[Tensor]:
        """Return the residuals where variables in `handles` held `values`, as a function of these tensors.

        Args:
            data, drawn: as in `place`.
            values: list of tensors, or None for variables that are read as they are.
            constants: pairs of one of `constants` and the tensor that stands for it.

        Raises:
            ValueError: where an op takes a variable as it is, rather than what it holds.
        """
        standing = [handle if value is None else value for handle, value in zip(self.handles, values)]
        return self._placed([*self._given(data, standing), *constants], drawn, _with_values)

    def _placed(self, given: list, drawn: Sequence[Tensor], edit: Callable | None = None) -> list[Tensor]:
        mapping = transplant(self._outputs, [*given, *zip(self._effects.drawn, drawn)], edit)
        return [mapping[output.ref()] for output in self._outputs]

    def can_stand_at_values(self) -> bool:
        """Return whether each op that takes a variable reads what it holds, so that `place_at` does for all of them."""
        handles = {inner.ref() for _, inner in self._read}
        return all(
            op.type in _READS
            for op in self._graph.get_operations()
            if any(tensor.ref() in handles for tensor in op.inputs)
        )

    def fingerprint(self) -> tuple:
        """Return what is the same for residuals that come out the same: a hash of the graph, and what it refers to.

        Data are no part of it. Variables and their like are known by identity, as long as this object is kept.
        """
        return fingerprint(self._concrete), *(id(outer) for outer, _ in (*self._read, *self._others))

    def known_numbers(self) -> bytes:
        """Return a hash of the data that are known, which the fingerprint leaves out."""
        arrays = [each.numpy() for each in self._known.values()]
        written = b"".join(f"{array.dtype}{array.shape}".encode() + array.tobytes() for array in arrays)
        return hashlib.blake2b(written, digest_size=32).digest()

    def _given(self, data: Sequence[Tensor], handles: list[Tensor]) -> list:
        capture = tf.compat.v1.get_default_graph().capture
        outer = [*handles, *(outer for outer, _ in self._others)]
        inner = [inner for _, inner in (*self._read, *self._others)]
        data = [capture(self._known[k]) if k in self._known else each for k, each in enumerate(data)]
        return [*zip(self._inputs, data), *zip(inner, map(capture, outer))]


def _with_values(op: tf.Operation, inputs: list[Tensor], copied: Callable) -> Any:
    """The edit of a copy in which values stand for handles of variables: what reads these uses the values."""
    values = [new for old, new in zip(op.inputs, inputs) if old.dtype == tf.resource and new.dtype != tf.resource]
    if not values:
        return copied()
    if holds_bodies(op):
        return copy_inside(op, inputs, lambda attribute, index: _with_values)
    if op.type == "ReadVariableOp":
        return values
    if op.type == "ResourceGather":
        return [tf.gather(*values, inputs[1], batch_dims=op.get_attr("batch_dims"))]
    if op.type == "ResourceGatherNd":
        return [tf.gather_nd(*values, inputs[1])]
    raise ValueError(
        "For derivatives of a minimum, for many fits at once, and for variables on manifolds, residuals must read what "
        f"variables hold, as x = tf.identity(variable) does. Received: op {op.name!r} of type {op.type}"
    )


def _is_same(one: Any, other: Any) -> bool:
    return one is other or (not tf.is_symbolic_tensor(other) and bool(tf.reduce_all(tf.equal(one, other))))


def _kind(placeholder: Tensor) -> str:
    if placeholder.dtype not in (tf.resource, tf.variant):
        return "tensor"
    return "other" if handle_spec(placeholder) is None else "variable"


def _index(tensor: Tensor, tensors: list[Tensor]) -> int | None:
    return next((index for index, each in enumerate(tensors) if each is tensor), None)


def _spec(tensor: Tensor) -> tf.TensorSpec:
    return tf.TensorSpec(tensor.shape, tensor.dtype)


def _check_not_assigned(ops: Any, variables: Sequence[Variable], handles: Any) -> None:
    names = {handle.ref(): variable_name(v) for v, handle in zip(variables, handles) if handle is not None}
    for op in ops:
        if op.type.startswith("Assign") and op.inputs[0].ref() in names:
            raise ValueError(
                "The residuals must not assign to a variable that they are minimised over: where they are evaluated is "
                "for the steps to say. Assign before the minimisation, or compute with a tensor instead. "
                f"Received: op {op.name!r} of type {op.type}, which assigns to {names[op.inputs[0].ref()]!r}"
            )
