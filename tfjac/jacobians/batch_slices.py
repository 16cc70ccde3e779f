"""The results of a batch again, for a slice of its examples at a time: so no more is kept than a slice needs.

A graph that was traced for the whole batch is copied into the body of a loop. There the examples come in by slices.
What is drawn at random, such as the mask of a dropout, stays what it was, and is sliced, too. What all examples share
stays what it is for the whole batch, as the number of examples that a mean divides by.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

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
    replay,
    source_in,
    static_trip_count,
    while_loop,
)
from tfjac.graph.facts import facts_of, is_branching, is_loop
from tfjac.jacobians.slice_bodies import NotSliced
from tfjac.jacobians.slice_inputs import SliceInputs
from tfjac.linear.shapes import Size, product
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
            raise NotSliced from mix
        self._n = axes(self._y)[0]
        self._divide(analysis, batch.expected)
        self._entering = SliceInputs(analysis, self._n, batch.data)
        self._path = [(x, axis) for x, axis in _tensors(analysis) if x.shape.is_fully_defined()]

    def _divide(self, analysis: ExampleAnalysis, expected: float | None) -> None:
        """Choose how many slices there are, and of how many examples."""
        most = examples_at_once(analysis)
        has_bodies = any(is_loop(op) or is_branching(op) for op in analysis.path)
        static = isinstance(self._n, int)
        if static and has_bodies:
            raise NotSliced  # of loops TensorFlow keeps sizes that were known
        if (self._n if static else expected or 0) <= most or not (has_bodies or _takes_windows(analysis)):
            raise NotSliced
        self.count: Size = -(-self._n // most) if static else tf.maximum(1, -(-self._n // most))
        self.size: Size = -(-self._n // self.count)

    def _shape_of(self, tensor: Tensor, axis: ExampleAxis) -> list[int]:
        """The static shape of `tensor` in a slice."""
        sizes = tensor.shape.as_list()
        rows, rest = divmod(sizes[axis.axis], self._n)
        if rest:
            raise NotSliced
        return [*sizes[: axis.axis], rows * self.size, *sizes[axis.axis + 1 :]]

    def at(self, start: Tensor) -> Tensor:
        """Return the results of `size` examples from `start` on, in the graph that is traced now."""
        on_path = [x for x, _ in self._path]
        y, *copies = replay([self._y, *on_path], self._entering.pairs(start, self.size), reread=self._variables)
        for copy, (tensor, axis) in zip(copies, self._path):
            if isinstance(self._n, int) and copy.shape.as_list() != self._shape_of(tensor, axis):
                raise NotSliced  # a number of the graph stands for the whole batch
        return y


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
    except NotSliced:
        return None
    return sums, rows


def examples_at_once(analysis: ExampleAnalysis) -> int:
    """Return how many examples a slice has: as many as `BYTES` hold the values of, between `FEWEST` and `MOST`."""
    return max(FEWEST, min(MOST, BYTES // max(_bytes_forwards(analysis), 1)))


def _bytes_forwards(analysis: ExampleAnalysis) -> int:
    """The bytes of the values of an example on the path."""
    carried = (tensor for op in analysis.path if op.name in analysis.input_axes for tensor in op.outputs)
    return sum(map(_bytes_of_example, carried)) + sum(map(_bytes_of_loop, analysis.path))


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
