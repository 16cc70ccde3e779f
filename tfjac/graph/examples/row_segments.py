"""Which segment each row of each tensor belongs to, found backwards from results that have one entry per segment.

A batch of graphs is kept as one long list of nodes and one of edges. Most ops work on each row by itself, and the
rules for examples (`example_rules`) hold with rows in place of examples. The others move rows, and take with them
which segment a row contributes to (`row_rules`): it is read off the ids and indices of the graph itself.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from tfjac.graph.examples.example_axis import SHARED, ExampleAnalysis, WantedAxes, examples_mix_at
from tfjac.graph.examples.example_rules import Axis, ExampleAxis, NoRule
from tfjac.graph.examples.row_rules import InputRows, Rows, input_rows, merged, moves_rows
from tfjac.graph.facts import facts_of, is_parameter
from tfjac.graph.paths.dependence import Dependence
from tfjac.graph.reading.traversal import Inherited
from tfjac.types import Tensor


@dataclasses.dataclass
class SegmentAnalysis(ExampleAnalysis):
    """An `ExampleAnalysis` in which rows stand for examples.

    Attributes:
        rows: for the `ref()` of each tensor that carries rows, on the path or assumed to, its `Rows`.
        agreements: pairs of an op and a boolean scalar tensor, whether no row there is part of two segments, for the
            caller to check when the graph runs.
    """

    rows: dict[Any, Rows | Any]
    agreements: list[tuple[tf.Operation, Tensor]]

    def rows_of(self, tensor: Tensor) -> Rows:
        return self.rows[tensor.ref()]


def analyse_segments(sources: Any, targets: Sequence[Tensor], num_segments: int | Tensor) -> SegmentAnalysis:
    """Find the rows of every tensor between `sources` and `targets`, and the segment of each.

    Args:
        sources: tensors that the Jacobian is taken with respect to, or the handles of variables; or a `Dependence` on
            them.
        targets: list of tensors `[segments, ...]`.
        num_segments: their number, an integer or a scalar tensor.

    Returns:
        A `SegmentAnalysis`. Ops that find the ids of the segments are added to the graph.

    Raises:
        ExamplesMix: where rows are combined other than by gathers and segments, or where this cannot be decided.
    """
    dependence = sources if isinstance(sources, Dependence) else Dependence(sources)
    path = dependence.path(targets)
    wanted = _WantedRows(dependence)
    segments = Rows(tf.range(num_segments), is_segments=True)
    for target in targets:
        wanted.want(target.op, target, ExampleAxis(0))
        wanted.place(target, segments)
    for op in reversed(path):
        wanted.propagate(op)
    wanted.check_sizes(path, resizing=wanted.moving)
    axes = (wanted.axes, wanted.input_axes, wanted.assumed)
    rows = {**wanted.assumed_rows, **wanted.rows}
    return SegmentAnalysis(dependence, path, *axes, {}, rows, wanted.agreements)


class _WantedRows(WantedAxes):
    """The axes and rows asked for so far, walking backwards."""

    def __init__(self, dependence: Dependence) -> None:
        super().__init__(dependence, None)
        self.rows: dict[Any, Rows] = {}
        self.assumed_rows: dict[Any, Rows | None] = {}
        self.moving: set[str] = set()
        self.agreements: list[tuple[tf.Operation, Tensor]] = []
        self._is_fed = Inherited(_depends_on_fed)

    def propagate(self, op: tf.Operation) -> None:
        wanted = {k: self.axes[output.ref()] for k, output in enumerate(op.outputs) if output.ref() in self.axes}
        carrying = [op.outputs[k] for k, axis in wanted.items() if axis is not SHARED]
        if not carrying:
            for tensor in op.inputs if wanted else ():
                if self.reaches(tensor):
                    self.want(op, tensor, SHARED)
            return
        pairs = self._inputs(op, wanted, carrying)
        self.input_axes[op.name] = [axis for axis, _ in pairs]
        for tensor, (axis, rows) in zip(op.inputs, pairs):
            if axis is None or not self.reaches(tensor):
                continue
            self.want(op, tensor, axis)
            if axis is not SHARED:
                self.place(tensor, rows)
                if axis.inner is None:
                    self.assumed.append((tensor, axis))

    def _inputs(self, op: tf.Operation, wanted: dict[int, Axis], carrying: Sequence[Tensor]) -> InputRows:
        """The axis of each input, and its rows."""
        rows = self.rows[carrying[0].ref()]
        if any(self.rows[other.ref()] is not rows for other in carrying) and not moves_rows(op):
            raise examples_mix_at(op, "its outputs belong to different sets of rows")
        self.num_examples = rows.ids.shape[0]
        try:
            moved = input_rows(op, self.axes[carrying[0].ref()], rows, self)
        except NoRule as missing:
            raise examples_mix_at(op, str(missing)) from None
        if moved:
            self.moving.add(op.name)
        return moved or [(axis, None if axis is SHARED else rows) for axis in self._from_rule(op, wanted)]

    def place(self, tensor: Tensor, rows: Rows) -> None:
        known = self.rows.setdefault(tensor.ref(), rows)
        if known is not rows:
            self.rows[tensor.ref()], agree = merged(known, rows)
            self.must_agree(agree, tensor.op)

    def assume(self, op: tf.Operation, tensor: Tensor, axis: ExampleAxis) -> None:
        """The same, with rows of the output of `op` in place of examples."""
        super().assume(op, tensor, axis)
        self.assumed_rows[tensor.ref()] = self.rows.get(op.outputs[0].ref())

    def must_agree(self, agree: Tensor, op: tf.Operation) -> None:
        """Note that no segment depends on another only where all of `agree`, about rows at `op`, holds."""
        self.agreements.append((op, tf.reduce_all(agree)))

    def is_weight(self, tensor: Tensor) -> bool:
        """Return whether `tensor` is made of the sources alone, as the table of an embedding is.

        Else it has rows of data: it was multiplied by something else, or depends on an input.
        """
        for op in self.dependence.path([tensor]):
            others = [part for part in op.inputs if part.dtype.is_floating and not self.reaches(part)]
            if others and (facts_of(op).meets_weights or any(map(self._is_fed, others))):
                return False
        return True


def _depends_on_fed(op: tf.Operation, inputs_do: Sequence[bool]) -> list[bool]:
    """Whether the outputs of `op` depend on floating-point data that the graph is fed, given whether its inputs do."""
    fed = is_parameter(op) and op.outputs[0].dtype.is_floating
    return [fed or any(inputs_do) for _ in op.outputs]
