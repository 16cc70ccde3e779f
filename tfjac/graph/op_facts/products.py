"""Products of matrices, in all their forms: MatMul, BatchMatMul, Einsum, and that with a sparse matrix."""

from collections.abc import Callable, Sequence

import tensorflow as tf

from tfjac.graph.examples.example_rules import SHARED, Axis, ExampleAxis, NoRule, Wanted
from tfjac.graph.examples.index_maps import AxisLabels, Labels, ShapeOf, ValueOf, by_labels, from_the_right
from tfjac.graph.examples.row_rules import InputRows, Rows, WantedRows, gathered_from, summed_into
from tfjac.graph.facts import declare
from tfjac.graph.reading.symbolic_sizes import axes
from tfjac.types import Tensor


def _matrices(left: str, right: str) -> Callable:
    """[..., i, k] · [..., k, j], broadcast in front; the attributes `left` and `right` say which is transposed."""

    def labels(op: tf.Operation, shape: ShapeOf, value_of: ValueOf) -> AxisLabels:
        batches = [from_the_right(len(shape(k)) - 2) for k in range(2)]
        matrices = [list("ki" if op.get_attr(left) else "ik"), list("jk" if op.get_attr(right) else "kj")]
        return [batch + matrix for batch, matrix in zip(batches, matrices)], [*max(batches, key=len), "i", "j"]

    return labels


def _einsum(op: tf.Operation, shape: ShapeOf, value_of: ValueOf) -> AxisLabels:
    """The labels of its equation, an ellipsis spelt out in numbers."""
    left, output = op.get_attr("equation").decode().split("->")
    operands = [(labels, from_the_right(len(shape(k)) - len(labels) + 3)) for k, labels in enumerate(left.split(","))]
    broadcast = max((of_ellipsis for labels, of_ellipsis in operands if "..." in labels), key=len, default=[])
    return [_spelt(*pair) for pair in operands], _spelt(output, broadcast)


def _spelt(labels: str, of_ellipsis: Labels) -> Labels:
    first, dots, last = labels.partition("...")
    return [*first, *(of_ellipsis if dots else ()), *last]


def _sparse_matmul(op: tf.Operation, axis: ExampleAxis, wanted: Wanted) -> list[Axis]:
    """[rows, k] · [k, columns]: examples are in the rows of the sparse matrix, or in the columns of the dense one."""
    dense, adjoint = op.inputs[3], op.get_attr("adjoint_b")
    if axis.axis == 1:
        return [SHARED, SHARED, SHARED, axis.moved(0 if adjoint else 1)]
    if wanted.reaches(dense) and not wanted.depends_on_no_data(dense):
        raise NoRule("it combines rows of its dense matrix")
    return [SHARED] * 4


def _rows_of_sparse_matmul(op: tf.Operation, rows: Rows, wanted: WantedRows) -> InputRows | None:
    """Entry e takes row `column[e]` of the dense matrix to row `row[e]` of the output: a gather, then a sum."""
    if op.get_attr("adjoint_b"):
        raise NoRule("its dense factor is transposed")
    order = (1, 0) if op.get_attr("adjoint_a") else (0, 1)
    row, column = (op.inputs[0][:, k] for k in order)
    entries = summed_into(op.outputs[0], rows, row)
    return [(SHARED, None), (ExampleAxis(0), entries), (SHARED, None),
            (ExampleAxis(0), gathered_from(op.inputs[3], entries, column, op, wanted))]  # fmt: skip


def _as_one_product(op: tf.Operation, inputs: Sequence[Tensor], stacked: Sequence[bool]) -> Sequence[Tensor] | None:
    """All slices below one another, or side by side. TensorFlow leaves a size open that no empty matrix tells."""
    a, b = inputs
    if all(stacked):
        return None
    if op.get_attr("transpose_a"):
        a = tf.linalg.matrix_transpose(a)
    if op.get_attr("transpose_b"):
        b = tf.linalg.matrix_transpose(b)
    if stacked[0]:
        c, rows, inner = axes(a)
        return [tf.reshape(tf.reshape(a, [c * rows, inner]) @ b, [c, rows, axes(b)[1]])]
    c, inner, columns = axes(b)
    side_by_side = tf.reshape(tf.transpose(b, [1, 0, 2]), [inner, c * columns])
    return [tf.transpose(tf.reshape(a @ side_by_side, [axes(a)[0], c, columns]), [1, 0, 2])]


def _einsum_of_slices(op: tf.Operation, inputs: Sequence[Tensor], stacked: Sequence[bool]) -> Sequence[Tensor] | None:
    """TensorFlow takes no diagonals as a result, though the op gives them."""
    output = op.get_attr("equation").decode().split("->")[-1].replace(".", "")
    return inputs if len(set(output)) == len(output) else None


declare(
    "MatMul",
    linear="in each",
    multiplies=True,
    meets_weights=True,
    **by_labels(_matrices("transpose_a", "transpose_b")),
    shortcut=_as_one_product,
)
declare(
    "BatchMatMul BatchMatMulV2 BatchMatMulV3",
    linear="in each",
    multiplies=True,
    meets_weights=True,
    **by_labels(_matrices("adj_x", "adj_y")),
)
declare(
    "Einsum",
    linear="in each",
    multiplies=True,
    meets_weights=True,
    **by_labels(_einsum),
    conversion=_einsum_of_slices,
)
declare("SparseTensorDenseMatMul", meets_weights=True, example_axis=_sparse_matmul, rows=_rows_of_sparse_matmul)
declare("SparseTensorDenseMatMul", sized_by=(2,))
