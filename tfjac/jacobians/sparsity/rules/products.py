"""Products of tensors: matrices, batches of matrices, einsums, sparse and tridiagonal matrices."""

import math

import numpy as np
import scipy.sparse

from tfjac.graph import einsum_labels
from tfjac.jacobians.sparsity.index_sets import (
    axis_names,
    check_entries,
    collected,
    composed,
    linked,
    links,
    picked,
    union,
)
from tfjac.jacobians.sparsity.rules.elementwise import unless_spread
from tfjac.jacobians.sparsity.rules.index_set_rules import rule


@rule("MatMul")
def _matmul(step):
    transposed = step.op.get_attr("transpose_a"), step.op.get_attr("transpose_b")
    return _product(step, [list("ki" if transposed[0] else "ik"), list("jk" if transposed[1] else "kj")], list("ij"))


@rule("BatchMatMul", "BatchMatMulV2", "BatchMatMulV3")
def _batch_matmul(step):
    adjoint = step.op.get_attr("adj_x"), step.op.get_attr("adj_y")
    batch = axis_names(len(step.out_shape()) - 2)
    matrices = ["ki" if adjoint[0] else "ik", "jk" if adjoint[1] else "kj"]
    operands = [[*batch[len(batch) - len(step.shape(k)) + 2 :], *matrix] for k, matrix in enumerate(matrices)]
    return _product(step, operands, [*batch, "i", "j"])


@rule("Einsum")
def _einsum(step):
    operands, output = einsum_labels(step.op, [len(step.shape(k)) for k in range(len(step.op.inputs))])
    return _product(step, [list(labels) for labels in operands], list(output))


def _product(step, operands, output):
    """An output element depends on the elements with its labels; those that meet a fixed zero drop out.

    An axis of size 1 may be spread along one of the same label, and a label that is repeated takes a diagonal.
    """
    sizes: dict[str, int] = {}
    for k, labels in enumerate(operands):
        sizes |= {label: size for label, size in zip(labels, step.shape(k)) if size != 1 or label not in sizes}
    result, parts = list(dict.fromkeys(output)), []
    for k in step.carriers:
        own = list(dict.fromkeys(operands[k]))
        shape = [step.shape(k)[operands[k].index(label)] for label in own]
        pattern = step.patterns[k]
        if own != operands[k]:
            pattern = picked(pattern, _places(operands[k], step.shape(k), own, shape))
        own = unless_spread(own, shape, sizes)
        fixed = step.fixed(1 - k) if len(operands) == 2 and step.patterns[1 - k] is None else None
        if fixed is None or np.all(fixed):
            parts.append(linked(pattern, own, shape, result, [sizes[label] for label in result]))
        else:
            parts.append(_with_factor(pattern, own, shape, fixed, operands[1 - k], result, sizes))
    if result == output:
        return [union(parts)]
    places = _places(output, step.out_shape(), result, [sizes[label] for label in result])
    return [collected(union(parts), places, step.out_size())]


def _places(labels, shape, own, sizes):
    """The flat places, in an array with labels some of which are repeated, of the elements of its diagonal."""
    grid = dict(zip(own, np.meshgrid(*map(np.arange, sizes), indexing="ij")))
    return np.ravel_multi_index([grid[label] for label in labels], shape).reshape(-1)


def _with_factor(pattern, labels, shape, factor, factor_labels, output, sizes):
    """Go through the entries of a fixed factor, each along all places of the axes that it does not have.

    Args:
        pattern, labels, shape: of the other factor; a label of None belongs to an axis that is spread, of size 1.
        factor, factor_labels: the fixed factor; labels may be repeated, and axes of size 1 be spread.
        output, sizes: labels of the result, and the size of each label.
    """
    along = math.prod(size for label, size in sizes.items() if label not in factor_labels)
    check_entries(np.count_nonzero(factor) * along)
    found, kept = np.nonzero(factor), np.ones(np.count_nonzero(factor), bool)
    places: dict[str, np.ndarray] = {}
    for label, size, each in zip(factor_labels, np.shape(factor), found):
        if size == sizes[label]:
            kept &= places.setdefault(label, each) == each
    free = [label for label in dict.fromkeys([*labels, *output]) if label not in places and label is not None]
    grid = np.meshgrid(*(np.arange(sizes[label]) for label in free), indexing="ij")
    coordinates = {label: each.reshape(1, -1) for label, each in zip(free, grid)}
    coordinates |= {label: each[kept].reshape(-1, 1) for label, each in places.items()}
    entries = (np.count_nonzero(kept), math.prod(sizes[label] for label in free))

    def flat(of_labels, shape):
        axes = [np.broadcast_to(0 if label is None else coordinates[label], entries) for label in of_labels]
        return np.ravel_multi_index(axes, shape).reshape(-1) if axes else np.zeros(entries, np.int64).reshape(-1)

    out_shape = [sizes[label] for label in output]
    local = links(flat(output, out_shape), flat(labels, shape), (math.prod(out_shape), pattern.shape[0]))
    return composed(local, pattern)


@rule("SparseTensorDenseMatMul")
def _sparse_matmul(step):
    """Inputs indices, values, shape of a sparse matrix, and a dense one."""
    indices, shape = step.value(0), step.value(2)
    if step.op.get_attr("adjoint_a"):
        indices, shape = indices[:, ::-1], shape[::-1]
    rows, columns = indices.T
    width = step.out_shape()[1]
    parts = []
    if step.patterns[1] is not None:
        by_value = links(rows, np.arange(len(rows)), (shape[0], len(rows)))
        parts.append(composed(scipy.sparse.kron(by_value, np.ones([width, 1], bool), format="csr"), step.patterns[1]))
    if step.patterns[3] is not None:
        dense = step.patterns[3]
        if step.op.get_attr("adjoint_b"):
            dense = linked(step.patterns[3], ["j", "k"], step.shape(3), ["k", "j"], step.shape(3)[::-1])
        matrix = links(rows, columns, shape)
        local = scipy.sparse.kron(matrix, scipy.sparse.eye_array(width, dtype=bool), format="csr")
        parts.append(composed(local, dense))
    return [union(parts)]


@rule("TridiagonalMatMul")
def _tridiagonal_matmul(step):
    """Inputs superdiagonal, diagonal, subdiagonal [..., 1, i] and rhs [..., i, j]."""
    *batch, size, width = step.shape(3)
    labels = [*axis_names(len(batch)), "i", "j"]
    parts = [step.linked(k, [*labels[:-2], "unit", "i"], labels) for k in step.carriers if k < 3]
    if step.patterns[3] is not None:
        near = scipy.sparse.diags_array([np.ones(size, bool)] * 3, offsets=[-1, 0, 1], shape=(size, size), dtype=bool)
        eyes = [scipy.sparse.eye_array(int(np.prod(sizes)), dtype=bool) for sizes in (batch, [width])]
        local = scipy.sparse.kron(eyes[0], scipy.sparse.kron(near, eyes[1]), format="csr")
        parts.append(composed(local.astype(bool), step.patterns[3]))
    return [union(parts)]
