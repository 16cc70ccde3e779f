"""The results of a batch again, for a slice of its examples at a time: so no more is kept than a slice needs.

A graph that was traced for the whole batch is copied into the body of a loop. There the examples come in by slices.
What is drawn at random, such as the mask of a dropout, stays what it was, and is sliced, too. What all examples share
stays what it is for the whole batch, as the number of examples that a mean divides by.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from tfjac.graph import (
    SHARED,
    Dependence,
    ExampleAnalysis,
    ExampleAxis,
    ExamplesMix,
    analyse_examples,
    ancestors,
    axes,
    bodies_of,
    compiled_by_xla,
    inline_calls,
    ops_inside,
    replay,
    source_in,
    static_trip_count,
    static_value,
    while_loop,
)
from tfjac.graph.facts import facts_of, is_branching, is_loop
from tfjac.graph.gradients import custom_gradients
from tfjac.jacobians.shapes import Size, inner_size, product
from tfjac.types import Tensor, Variable

BYTES, FEWEST, MOST = 2**24, 128, 1024
"""What the values of a slice may take, forwards; and the number of examples of a slice, whatever they take."""

_STEPS = 64
"""Of a loop that is open."""


class Batch(NamedTuple):
    """What is known of the batch of a training step.

    Attributes:
        data: list of pairs of the tensors that the examples enter by, and their `ExampleAxis`.
        expected: the expected number of examples; None if it is not known.
    """

    data: list
    expected: float | None


class _NotSliced(Exception):
    """The graph cannot be copied for a slice."""


class Slices:
    """Results of a batch as a function of some of its examples.

    Args:
        y: tensor `[n, ...]` of the graph that is traced, no example of which depends on another.
        variables: list of variables that it is computed from.
        batch: the `Batch`.

    Attributes:
        size: number of examples of a slice, an integer or a scalar tensor.
        count: number of slices.
    """

    def __init__(self, y: Tensor, variables: Sequence[Variable], batch: Batch) -> None:
        sources = [source_in(y.graph, variable) for variable in variables]
        (self._y,), self._variables = inline_calls([y], [each for each in sources if each is not None]), variables
        try:
            analysis = analyse_examples(Dependence(sources), [self._y])
        except ExamplesMix as mix:
            raise _NotSliced from mix
        self._n = axes(self._y)[0]
        self._divide(analysis, batch.expected)
        self._sliced = {tensor.ref(): (tensor, axis) for tensor, axis in batch.data}
        self._kept: dict[Any, Tensor] = {}
        for op in analysis.path:
            self._read(op, analysis)
        self._resized = self._static_shapes(analysis)
        self._path = [(x, axis) for x, axis in _tensors(analysis) if x.shape.is_fully_defined()]

    def _divide(self, analysis: ExampleAnalysis, expected: float | None) -> None:
        """Choose how many slices there are, and of how many examples."""
        most = examples_at_once(analysis)
        has_bodies = any(is_loop(op) or is_branching(op) for op in analysis.path)
        static = isinstance(self._n, int)
        if static and has_bodies:
            raise _NotSliced  # of loops TensorFlow keeps sizes that were known
        if any(_is_counted(inside) for op in analysis.path for inside in ops_inside(op)):
            raise _NotSliced  # the number of examples may be a factor there, and would be that of a slice
        if (self._n if static else expected or 0) <= most or not (has_bodies or _takes_windows(analysis)):
            raise _NotSliced
        self.count: Size = -(-self._n // most) if static else tf.maximum(1, -(-self._n // most))
        self.size: Size = -(-self._n // self.count)

    def _read(self, op: tf.Operation, analysis: ExampleAnalysis) -> None:
        """Note what enters the path of the weights at `op`: by slices if it carries the examples, else as it is."""
        if len(custom_gradients.inputs_read(op)) != len(op.inputs):
            raise _NotSliced  # its backward reads what no rule knows the examples of
        for tensor, axis in zip(op.inputs, analysis.input_axes.get(op.name, ())):
            if analysis.axis(tensor) is not None or tensor.dtype == tf.resource:
                continue
            if tensor.dtype == tf.variant:
                if not all(given.dtype.is_integer for given in tensor.op.inputs):
                    raise _NotSliced  # a list that holds something, other than one that is made of sizes
                continue
            if isinstance(axis, ExampleAxis):
                if axis.outer != 1:
                    raise _NotSliced
                self._sliced[tensor.ref()] = tensor, axis
            elif tensor.dtype.is_floating or tensor.dtype.is_complex:
                self._kept[tensor.ref()] = tensor

    def _static_shapes(self, analysis: ExampleAnalysis) -> list[tuple[Tensor, list[int]]]:
        """Pairs of a shape that is written in the graph, with the number of examples in it, and that of a slice."""
        found: dict[Any, tuple[Tensor, list[int]]] = {}
        for tensor, axis in _tensors(analysis):
            if not tensor.shape.is_fully_defined():
                continue
            for given in tensor.op.inputs:
                value = static_value(given) if given.dtype.is_integer and given.shape.rank == 1 else None
                if value is None or value.tolist() != tensor.shape.as_list():
                    continue
                small = self._shape_of(tensor, axis)
                if found.setdefault(given.ref(), (given, small))[1] != small:
                    raise _NotSliced
        return list(found.values())

    def _shape_of(self, tensor: Tensor, axis: ExampleAxis) -> list[int]:
        """The static shape of `tensor` in a slice."""
        sizes = tensor.shape.as_list()
        rows, rest = divmod(sizes[axis.axis], self._n)
        if rest:
            raise _NotSliced
        return [*sizes[: axis.axis], rows * self.size, *sizes[axis.axis + 1 :]]

    def at(self, start: Tensor) -> Tensor:
        """Return the results of `size` examples from `start` on, in the graph that is traced now."""
        pairs = [(x, self._slice(x, axis, start)) for x, axis in self._sliced.values()]
        pairs += [(x, x) for x in self._kept.values()]
        pairs += [(shape, tf.constant(small, shape.dtype)) for shape, small in self._resized]
        on_path = [x for x, _ in self._path]
        y, *copies = replay([self._y, *on_path], pairs, reread=self._variables)
        for copy, (tensor, axis) in zip(copies, self._path):
            if isinstance(self._n, int) and copy.shape.as_list() != self._shape_of(tensor, axis):
                raise _NotSliced  # a number of the graph stands for the whole batch
        return y

    def _slice(self, tensor: Tensor, axis: ExampleAxis, start: Tensor) -> Tensor:
        inner = inner_size(tensor, axis, self._n)
        begin, size = [0] * tensor.shape.rank, axes(tensor)
        begin[axis.axis], size[axis.axis] = start * inner, self.size * inner
        return tf.slice(tensor, begin, size)


def summed_over_slices(
    y: Tensor,
    variables: Sequence[Variable],
    batch: Batch,
    compute: Callable[[Tensor, Tensor], tuple[list[Tensor], Tensor]],
    specs: Sequence[tf.TensorSpec],
    of_example: tf.TensorSpec,
) -> tuple[list[Tensor], Tensor] | None:
    """Return what `compute` gives for all examples, added up over slices of the batch, one after another.

    Args:
        y, variables, batch: as of `Slices`.
        compute: function from the results `[s, ...]` of a slice, and whether each counts, `[s]`, to a list of sums, and
            a tensor with a row for each example `[s, ...]`. An example that does not count must add nothing.
        specs: list of `tf.TensorSpec` of the sums.
        of_example: `tf.TensorSpec` of a row.

    Returns:
        The sums, and the rows `[n, ...]`; None where the graph cannot be copied for slices, or need not be.
    """
    if compiled_by_xla(y.graph):
        return None
    try:
        slices = Slices(y, variables, batch)
        n = axes(y)[0]

        def step(number: Tensor, rows: Tensor, *sums: Tensor) -> list[Tensor]:
            start = tf.minimum(number * slices.size, n - slices.size)  # the last ends with the batch
            places = start + tf.range(slices.size)
            parts, some = compute(slices.at(start), places >= number * slices.size)
            rows = tf.tensor_scatter_nd_update(rows, places[:, None], some)
            return [number + 1, tf.ensure_shape(rows, [y.shape[0], *of_example.shape]), *map(tf.add, sums, parts)]

        rows = tf.zeros([n, *of_example.shape], of_example.dtype)
        sums = [tf.zeros(spec.shape, spec.dtype) for spec in specs]
        _, rows, *sums = while_loop(
            lambda number, *_: number < slices.count, step, [tf.constant(0), rows, *sums], parallel_iterations=1
        )
    except _NotSliced:
        return None
    return sums, rows


def examples_at_once(analysis: ExampleAnalysis) -> int:
    """Return how many examples a slice has: as many as `BYTES` hold the values of, between `FEWEST` and `MOST`."""
    return max(FEWEST, min(MOST, BYTES // max(_bytes_forwards(analysis), 1)))


def _bytes_forwards(analysis: ExampleAnalysis) -> int:
    """The bytes of the values of an example on the path."""
    carried = (tensor for op in analysis.path if op.name in analysis.input_axes for tensor in op.outputs)
    return sum(map(_bytes_of_example, carried)) + sum(map(_bytes_of_loop, analysis.path))


def _is_counted(op: tf.Operation) -> bool:
    """Whether an integer becomes a number to compute with at `op`."""
    if op.type != "Cast":
        return False
    given, made = op.inputs[0].dtype, op.outputs[0].dtype
    return given.is_integer and (made.is_floating or made.is_complex)


def _takes_windows(analysis: ExampleAnalysis) -> bool:
    """Whether what the windows of convolutions see takes more than the values forwards.

    Else a second forward pass does not pay: it is a third of a plain step, and saves little beside the activations.
    """
    return sum(map(_bytes_of_windows, analysis.path)) > _bytes_forwards(analysis)


def _bytes_of_windows(op: tf.Operation) -> int:
    """The bytes of what the windows of a convolution see in an example; 0 for other ops."""
    if facts_of(op).maps != "made":
        return 0
    transposed = len(op.inputs) == 3
    kernel = op.inputs[1].shape
    small, large = (op.inputs[2], op.outputs[0]) if transposed else (op.outputs[0], op.inputs[0])
    places = _bytes_of_example(small) // (small.shape[-1] or 1)
    window = product(kernel[:-2].as_list()) if kernel.is_fully_defined() else 1
    return places * window * (large.shape[-1] or 1) if window > 1 else 0


def _bytes_of_example(tensor: Tensor) -> int:
    """The bytes of a row; of each axis that is open one element is counted."""
    if not tensor.dtype.is_floating or tensor.shape.rank is None:
        return 0
    return product(size or 1 for size in tensor.shape[1:].as_list()) * tensor.dtype.size


def _bytes_of_loop(op: tf.Operation) -> int:
    if not is_loop(op):
        return 0
    (body,), (condition,) = bodies_of(op, "body"), bodies_of(op, "cond")
    steps = static_trip_count(op, body, condition) or _STEPS
    inside = (tensor for each in ancestors(body.outputs) for tensor in each.outputs)
    return steps * sum(map(_bytes_of_example, inside))


def _tensors(analysis: ExampleAnalysis) -> list[tuple[Tensor, ExampleAxis]]:
    """Pairs of the tensors of the path that carry the examples, and their axes."""
    pairs = ((x, analysis.axis(x)) for op in analysis.path for x in op.outputs if x.dtype != tf.variant)
    return [(x, axis) for x, axis in pairs if axis is not SHARED and axis is not None]
