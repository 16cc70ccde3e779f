"""Ops that read by index: gathers of rows, and with tuples of indices."""

import tensorflow as tf

from tfjac.graph.examples.example_rules import SHARED, Axis, ExampleAxis, NoRule, Wanted, known_shape
from tfjac.graph.examples.row_rules import InputRows, Rows, WantedRows, gathered_from, of_rows
from tfjac.graph.facts import declare, reads_variable
from tfjac.graph.op_facts.elementwise import GREATER, SELECT_V2
from tfjac.graph.op_facts.joining import PACK
from tfjac.graph.op_facts.sizes import RANGE
from tfjac.graph.reading.static_values import static_value
from tfjac.graph.reading.symbolic_sizes import Given, Sizes, SymbolicSizes
from tfjac.types import Tensor

# --------------------------------------------------------------------------------------------- the axis of the examples


def _gather(op: tf.Operation, axis: ExampleAxis, wanted: Wanted) -> list[Axis]:
    """params[..., indices, ...]: examples are in the indices, or in an axis of params not gathered along."""
    params, indices = op.inputs[:2]
    batch_dims = op.get_attr("batch_dims")
    along = 0 if reads_variable(op) else static_value(op.inputs[2])
    if along is None or indices.shape.rank is None:
        raise NoRule("the axis it gathers along is unknown until it runs")
    rest = [SHARED] * (len(op.inputs) - 2)
    along = int(along) % (params.shape.rank or 1) if not reads_variable(op) else 0
    if axis.axis < batch_dims:
        return [axis, axis, *rest]
    if (
        along == axis.axis == 0
        and not wanted.depends_on_no_data(params)
        and _counts_all_rows(indices, params, wanted.symbolic_sizes)
    ):
        return [axis, SHARED, *rest]
    if along <= axis.axis < along + indices.shape.rank - batch_dims:
        return [SHARED, axis.moved(axis.axis - along + batch_dims), *rest]
    return [
        axis.moved(axis.axis if axis.axis < along else axis.axis - indices.shape.rank + batch_dims + 1),
        SHARED,
        *rest,
    ]


def _gather_nd(op: tf.Operation, axis: ExampleAxis, wanted: Wanted) -> list[Axis]:
    """params[indices[..., :], ...]: examples are in the indices, in an axis of params behind these, or are counted."""
    indices = op.inputs[1]
    depth, positions = depth_of(indices, wanted)
    if axis.axis >= positions:
        return [axis.moved(axis.axis - positions + depth), SHARED]
    return [axis if _counts_rows(indices) else SHARED, axis]


def depth_of(indices: Tensor, wanted: Wanted) -> tuple[int, int]:
    """How many axes the indices go into, and how many axes of positions they have."""
    shape = known_shape(wanted, indices)
    if shape[-1] is None:
        raise NoRule("how deep it indexes is unknown until it runs")
    return shape[-1], len(shape) - 1


def _counts_rows(indices: Tensor) -> bool:
    """Whether the indices are `tf.stack([tf.range(n), ...], axis=-1)`: row k reads from row k."""
    if indices.op.type != PACK:
        return False
    return indices.op.get_attr("axis") % 2 == 1 and _counts(indices.op.inputs[0])


def _counts(indices: Tensor) -> bool:
    """Whether the indices are those of a `tf.range(n)`."""
    if indices.op.type != RANGE:
        return False
    start, _, step = indices.op.inputs
    return bool(static_value(start) == 0 and static_value(step) == 1)


def _counts_all_rows(indices: Tensor, params: Tensor, known: SymbolicSizes) -> bool:
    """Whether the indices are `tf.range(tf.shape(params)[0])`, as of a `tf.vectorized_map` of an open batch.

    There they are a choice between these and 0, for all of which there is one row alone.
    """
    sizes = []
    if indices.op.type == SELECT_V2:
        several, indices, _ = indices.op.inputs
        if several.op.type != GREATER or static_value(several.op.inputs[1]) != 1:
            return False
        sizes = [several.op.inputs[0]]
    if params.shape.rank is None or not _counts(indices):
        return False
    rows = known.sizes(params)[:1]
    return all(known.entries(size) == rows for size in [*sizes, indices.op.inputs[1]])


def _reverse_sequence(op: tf.Operation, axis: ExampleAxis, wanted: Wanted) -> list[Axis]:
    if op.get_attr("seq_dim") == axis.axis:
        raise NoRule("it reverses along the axis of the examples")
    return [axis, axis.moved(0) if op.get_attr("batch_dim") == axis.axis else SHARED]


# ----------------------------------------------------------------------------------------------------------------- rows


def _rows_of_gather(op: tf.Operation, rows: Rows, wanted: WantedRows) -> InputRows | None:
    """Row e of the output comes from row `indices[e]`, of other rows; or of a table that all share."""
    params, indices, along = op.inputs
    whole_rows = tf.get_static_value(along) == 0 and not op.get_attr("batch_dims")
    if not whole_rows or not wanted.reaches(params) or wanted.is_weight(params):
        return None
    return [(ExampleAxis(0), gathered_from(params, rows, indices, op, wanted)), (SHARED, None), (SHARED, None)]


def _rows_of_gather_nd(op: tf.Operation, rows: Rows, wanted: WantedRows) -> InputRows | None:
    params, indices = op.inputs
    if not wanted.reaches(params) or wanted.is_weight(params):
        raise NoRule("it picks from a table that all examples share")
    return [(ExampleAxis(0), gathered_from(params, rows, of_rows(indices), op, wanted)), (SHARED, None)]


def _gathered_sizes(known: SymbolicSizes, output: Tensor, given: Given) -> Sizes:
    """Those of the indices in place of the axis that is picked from."""
    (params, indices, _), along = given, static_value(output.op.inputs[2])
    if along is None or output.op.get_attr("batch_dims"):
        return None
    return [*params[: int(along)], *indices, *params[int(along) :][1:]]


# ---------------------------------------------------------------------------------------------------------------- facts

declare(
    "GatherV2",
    elements="copied",
    linear="in the first",
    takes="rows by index",
    meets_weights=True,
    example_axis=_gather,
    rows=_rows_of_gather,
    sizes=_gathered_sizes,
)
declare(
    "ResourceGather",
    kind="gather from a variable",
    repeatable=True,
    takes="rows by index",
    meets_weights=True,
    example_axis=_gather,
)
declare(
    "GatherNd",
    elements="copied",
    linear="in the first",
    meets_weights=True,
    example_axis=_gather_nd,
    rows=_rows_of_gather_nd,
)
declare("ResourceGatherNd", kind="gather from a variable", repeatable=True, example_axis=_gather_nd)
declare("ReverseSequence", example_axis=_reverse_sequence)
