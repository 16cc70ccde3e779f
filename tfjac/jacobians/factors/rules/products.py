"""Products of one weight and one tensor of data, as a[n,t,g,i], d[n,m,t,g,o]: MatMul, BatchMatMul, Einsum, sparse."""

import itertools
from collections.abc import Sequence

import tensorflow as tf

from tfjac.graph import SHARED, ExampleAxis, axes, axis_labels
from tfjac.graph.op_types import CONTRACTIONS
from tfjac.jacobians.factors.rules.factor_rules import NoFactor, rule
from tfjac.jacobians.factors.uses import Use
from tfjac.jacobians.shapes import split_labels
from tfjac.linear.factors.forms import DenseFactor, Factor, OuterFactor
from tfjac.linear.shapes import product, reshaped, widened
from tfjac.types import Tensor


@rule(*CONTRACTIONS)
def _contraction(use: Use) -> Factor:
    operands, output = axis_labels(use.op) or ([], [])
    if len(operands) != 2 or any(len(set(labels)) < len(labels) for labels in operands):
        raise NoFactor("only einsums of two operands, without diagonals, are covered")
    adjoint = [use.op.get_attr(each.name) for each in use.op.op_def.attr if each.name in ("adj_x", "adj_y")]
    return product_factor(use, _without_broadcast(use, operands, output), output, adjoint or (False, False))


def _without_broadcast(use: Use, operands: Sequence, output: Sequence) -> list[list]:
    """Take the labels off axes of size 1 that are broadcast: the operands that `product_factor` takes.

    Raises:
        NoFactor: where it shows only at run time whether an axis of the weight meets one of the same size.
    """
    sizes = [dict(zip(labels, tensor.shape)) for labels, tensor in zip(operands, use.op.inputs)]
    for label in set(sizes[0]) & set(sizes[1]):
        first, second = (sizes_of[label] for sizes_of in sizes)
        if label.isdigit() and None in (first, second) and 1 not in (first, second):
            raise NoFactor("an axis that may be broadcast is of open size")
    long = {label for label, size in zip(output, use.output.shape) if size != 1}
    return [
        [None if sizes_of[label] == 1 and label in long else label for label in labels]
        for labels, sizes_of in zip(operands, sizes)
    ]


@rule("SparseTensorDenseMatMul")
def _sparse_matmul(use: Use) -> Factor:
    """The dense matrix as the weight; the sparse one is spelt out, with duplicate entries added up."""
    indices, values, shape, _ = use.op.inputs
    if use.weight_index != 3 or use.axis != ExampleAxis(0):
        raise NoFactor("only a dense weight, with the examples in the rows of the sparse matrix, is covered")
    x, d = tf.scatter_nd(indices, values, shape), use.split_cotangent()
    x = tf.transpose(x) if use.op.get_attr("adjoint_a") else tf.math.conj(x)
    a, d = x[:, None, None, :], d[:, :, None, None, :]
    if use.op.get_attr("adjoint_b"):
        return OuterFactor(tf.math.conj(a), tf.math.conj(d), "goi")
    return OuterFactor(a, d, "gio")


def product_factor(
    use: Use, operands: Sequence, output: Sequence, conjugated: Sequence[bool] = (False, False)
) -> Factor:
    """Return the factor of the weight in a product of two tensors, summed over the labels that the output lacks.

    Each label becomes part of one axis of the factor by where it occurs: weight and data only: i; weight and output
    only: o; all three: g; data and output only: t. A label of the data alone is summed beforehand.

    Args:
        operands: for each of the two inputs its labels, one per axis; None for an axis of size 1 that is broadcast.
        output: the labels of the output.
        conjugated: for each of the two inputs whether its complex conjugate is what is multiplied.
    """
    data = 1 - use.weight_index
    x, x_axis = use.op.inputs[data], use.input_axes[data]
    if x_axis is SHARED:
        raise NoFactor("no input of its own carries the examples")
    x = x if conjugated[0] != conjugated[1] else tf.math.conj(x)
    cotangent = tf.math.conj(use.split_cotangent()) if conjugated[use.weight_index] else use.split_cotangent()
    x, x_labels = use.split(x, x_axis), split_labels(list(operands[data]), x_axis)
    z_labels, one_for_all = split_labels(list(output), use.axis), (None, output[use.axis.axis])
    labelled = zip(operands[use.weight_index], axes(use.weight))
    sizes = {label: size for label, size in labelled if label not in one_for_all}
    alone = [k for k, label in enumerate(x_labels) if label not in sizes and label not in z_labels]
    if alone:
        x = tf.reduce_sum(widened(x), [1 + k for k in alone])
        x_labels = [label for k, label in enumerate(x_labels) if k not in alone]
    groups = {
        "g": [label for label in sizes if label in x_labels and label in z_labels],
        "i": [label for label in sizes if label in x_labels and label not in z_labels],
        "o": [label for label in sizes if label not in x_labels and label in z_labels],
        "t": [label for label in z_labels if label not in sizes],
    }
    if len(sizes) != sum(len(groups[name]) for name in "gio") or not set(groups["t"]) <= set(x_labels):
        raise NoFactor("an axis occurs in only one of the tensors")
    a = _arranged(x, x_labels, [groups["t"], groups["g"], groups["i"]], lead=1)
    d = _arranged(cotangent, z_labels, [groups["t"], groups["g"], groups["o"]], lead=2)
    g, i, o = (product([sizes[label] for label in groups[name]]) for name in "gio")
    for tensor, of_weight in ((a, [g, i]), (d, [g, o])):  # of data whose shape is computed it is not known
        known = [size if isinstance(size, int) else None for size in of_weight]
        tensor.set_shape(tensor.shape[:-2] + known)
    return _in_order_of_weight(a, d, groups, sizes)


def _arranged(tensor: Tensor, labels: Sequence, groups: Sequence, lead: int) -> Tensor:
    """Transpose the labelled axes into the order of `groups` and merge each group into one axis."""
    order = [lead + labels.index(label) for group in groups for label in group]
    order = [*range(lead), *order]
    if order != sorted(order):
        tensor = tf.transpose(tensor, order)
    sizes, position, merged = axes(tensor), lead, []
    for group in groups:
        merged.append(product(sizes[position : position + len(group)]))
        position += len(group)
    return reshaped(tensor, [*sizes[:lead], *merged])


def _in_order_of_weight(a: Tensor, d: Tensor, groups: dict[str, list], sizes: dict) -> Factor:
    """Order the columns by the axes of the weight: by a layout where g, i, o stay together, else by moving them."""
    letter = {label: name for name in "gio" for label in groups[name]}
    runs = [name for name, _ in itertools.groupby(letter[label] for label in sizes)]
    if len(set(runs)) == len(runs):
        return OuterFactor(a, d, "".join([name for name in "gio" if name not in runs] + runs))
    j = OuterFactor(a, d, "gio").dense()
    n, m, q = axes(j)
    labels = groups["g"] + groups["i"] + groups["o"]
    j = tf.reshape(j, [n, m, *(sizes[label] for label in labels)])
    j = tf.transpose(j, [0, 1, *(2 + labels.index(label) for label in sizes)])
    return DenseFactor(tf.reshape(j, [n, m, q]))
