"""Products of matrices, in all their forms: MatMul, BatchMatMul, Einsum, and that with a sparse matrix."""

import tensorflow as tf

from tfjac.graph.examples.example_rules import SHARED, ExampleAxis, NoRule, aligned, known_shape
from tfjac.graph.examples.row_rules import gathered_from, summed_into
from tfjac.graph.facts import declare
from tfjac.graph.reading.symbolic_sizes import axes


def _matmul(op, axis, wanted):
    """[rows, k] · [k, columns]: rows come from the first input, columns from the second."""
    transposed = (op.get_attr("transpose_a"), op.get_attr("transpose_b"))
    return _matrix_product(op, axis, wanted, transposed, rank=2)


def _batch_matmul(op, axis, wanted):
    out = known_shape(wanted, op.outputs[0])
    if axis.axis >= len(out) - 2:
        return _matrix_product(op, axis, wanted, (op.get_attr("adj_x"), op.get_attr("adj_y")), rank=len(out))
    return aligned(op, axis, op.inputs, out, wanted)


def _matrix_product(op, axis, wanted, transposed, rank):
    """Examples along the rows of the output come from the first input, along its columns from the second.

    Fills in the size of the contracted axis where only the other input knows it.
    """
    carrier = axis.axis - (rank - 2)
    kept, contracted = _matrix_axes(carrier, transposed[carrier])
    _, contracted_of_other = _matrix_axes(1 - carrier, transposed[1 - carrier])
    shape, other = known_shape(wanted, op.inputs[carrier]), known_shape(wanted, op.inputs[1 - carrier])
    if shape[contracted] is None:
        shape[contracted] = other[contracted_of_other]
        wanted.shapes[op.inputs[carrier].ref()] = shape
    result = [SHARED, SHARED]
    result[carrier] = axis.moved(len(shape) + kept)
    return result


def _matrix_axes(side, transposed):
    """Return the kept and the contracted axis of the left (0) or right (1) matrix of a product, from the end."""
    kept_first = (side == 0) != transposed
    return (-2, -1) if kept_first else (-1, -2)


def _einsum(op, axis, wanted):
    shapes = [known_shape(wanted, tensor) for tensor in op.inputs]
    operands, output = einsum_labels(op, [len(shape) for shape in shapes])
    label, size = output[axis.axis], known_shape(wanted, op.outputs[0])[axis.axis]
    result = []
    for labels, shape, tensor in zip(operands, shapes, op.inputs):
        if labels.count(label) > 1:
            raise NoRule("its equation takes a diagonal over the examples")
        position = labels.find(label)
        one_for_all = position >= 0 and shape[position] == 1 and (size != 1 or wanted.depends_on_no_data(tensor))
        result.append(SHARED if position < 0 or one_for_all else axis.moved(position))
    if label.isdigit():  # of an ellipsis: others are not broadcast
        wanted.meet(op, [pair for pair in zip(op.inputs, result) if pair[1] is not SHARED])
    return result


def _sparse_matmul(op, axis, wanted):
    """[rows, k] · [k, columns]: examples are in the rows of the sparse matrix, or in the columns of the dense one."""
    dense, adjoint = op.inputs[3], op.get_attr("adjoint_b")
    if axis.axis == 1:
        return [SHARED, SHARED, SHARED, axis.moved(0 if adjoint else 1)]
    if wanted.reaches(dense) and not wanted.depends_on_no_data(dense):
        raise NoRule("it combines rows of its dense matrix")
    return [SHARED] * 4


def einsum_labels(op, ranks):
    """Return the labels of each operand and of the result of an `Einsum` op, an ellipsis spelt out in digits."""
    equation = op.get_attr("equation").decode()
    left, output = equation.split("->")
    operands = left.split(",")
    width = max((rank - len(labels) + 3 for labels, rank in zip(operands, ranks) if "..." in labels), default=0)
    digits = "0123456789"[:width]
    spelt = [labels.replace("...", digits[width - (rank - len(labels) + 3) :]) for labels, rank in zip(operands, ranks)]
    return spelt, output.replace("...", digits)


def _rows_of_sparse_matmul(op, rows, wanted):
    """Entry e takes row `column[e]` of the dense matrix to row `row[e]` of the output: a gather, then a sum."""
    if op.get_attr("adjoint_b"):
        raise NoRule("its dense factor is transposed")
    order = (1, 0) if op.get_attr("adjoint_a") else (0, 1)
    row, column = (op.inputs[0][:, k] for k in order)
    entries = summed_into(op.outputs[0], rows, row)
    return [(SHARED, None), (ExampleAxis(0), entries), (SHARED, None),
            (ExampleAxis(0), gathered_from(op.inputs[3], entries, column, op, wanted))]  # fmt: skip


def _product_sizes(known, output, given):
    (rows, inner), (other, columns) = given
    return [
        inner if output.op.get_attr("transpose_a") else rows,
        other if output.op.get_attr("transpose_b") else columns,
    ]


def _as_one_product(op, inputs, stacked):
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


def _einsum_of_slices(op, inputs, stacked):
    """TensorFlow takes no diagonals as a result, though the op gives them."""
    output = op.get_attr("equation").decode().split("->")[-1].replace(".", "")
    return inputs if len(set(output)) == len(output) else None


declare(
    "MatMul",
    linear="in each",
    multiplies=True,
    meets_weights=True,
    example_axis=_matmul,
    sizes=_product_sizes,
    shortcut=_as_one_product,
)
declare(
    "BatchMatMul BatchMatMulV2 BatchMatMulV3",
    linear="in each",
    multiplies=True,
    meets_weights=True,
    example_axis=_batch_matmul,
)
declare(
    "Einsum",
    linear="in each",
    multiplies=True,
    meets_weights=True,
    example_axis=_einsum,
    conversion=_einsum_of_slices,
)
declare("SparseTensorDenseMatMul", meets_weights=True, example_axis=_sparse_matmul, rows=_rows_of_sparse_matmul)
