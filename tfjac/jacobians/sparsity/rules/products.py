"""Products of tensors: matrices, batches of matrices, einsums, sparse and tridiagonal matrices."""

import numpy as np
import scipy.sparse

from tfjac.graph import einsum_labels
from tfjac.jacobians.sparsity.index_sets import axis_names, links, union
from tfjac.jacobians.sparsity.rules.registry import NoRule, rule


@rule("MatMul")
def _matmul(step):
    transposed = step.op.get_attr("transpose_a"), step.op.get_attr("transpose_b")
    return _product(step, [list("ki" if transposed[0] else "ik"), list("jk" if transposed[1] else "kj")], list("ij"))


@rule("BatchMatMul", "BatchMatMulV2", "BatchMatMulV3")
def _batch_matmul(step):
    adjoint = step.op.get_attr("adj_x"), step.op.get_attr("adj_y")
    batch = axis_names(len(step.out_shape()) - 2)
    operands = []
    for k, matrix in enumerate(["ki" if adjoint[0] else "ik", "jk" if adjoint[1] else "kj"]):
        own = batch[len(batch) - len(step.shape(k)) + 2 :]
        whole = step.out_shape()[len(batch) - len(own) : len(batch)]
        own = [label if size == full else None for label, size, full in zip(own, step.shape(k), whole)]
        operands.append([*own, *matrix])
    return _product(step, operands, [*batch, "i", "j"])


@rule("Einsum")
def _einsum(step):
    operands, output = einsum_labels(step.op, [len(step.shape(k)) for k in range(len(step.op.inputs))])
    if any(len(set(labels)) < len(labels) for labels in [*operands, output]):
        raise NoRule("its equation takes a diagonal")
    return _product(step, [list(labels) for labels in operands], list(output))


def _product(step, operands, output):
    """An output element depends on the elements with its labels; those that meet a fixed zero drop out."""
    parts = []
    for k in step.carriers:
        others = [other for other in range(len(operands)) if other != k]
        fixed = step.fixed(step.op.inputs[others[0]]) if len(others) == 1 and step.patterns[others[0]] is None else None
        if fixed is None or np.all(fixed):
            parts.append(step.linked(k, operands[k], output))
        else:
            parts.append(_with_matrix(step, k, operands[k], fixed, operands[others[0]], output))
    return [union(parts)]


def _with_matrix(step, k, labels, matrix, matrix_labels, output):
    """Go through the entries of a fixed factor, each along all places of the axes that it does not have."""
    places = dict(zip(matrix_labels, np.nonzero(matrix)))
    sizes = dict(zip([*labels, *output], [*step.shape(k), *step.out_shape()]))
    free = [label for label in dict.fromkeys([*labels, *output]) if label not in places or label is None]
    grid = np.meshgrid(*(np.arange(sizes[label]) for label in free), indexing="ij")
    coordinates = {label: each.reshape(1, -1) for label, each in zip(free, grid)}
    coordinates |= {label: each.reshape(-1, 1) for label, each in places.items() if label is not None}
    entries = (len(places[matrix_labels[0]]), grid[0].size if free else 1)

    def flat(of_labels, shape):
        axes = [
            np.broadcast_to(0 if size == 1 else coordinates[label], entries) for label, size in zip(of_labels, shape)
        ]
        return np.ravel_multi_index(axes, shape).reshape(-1)

    rows, columns = flat(output, step.out_shape()), flat(labels, step.shape(k))
    local = links(rows, columns, (step.op.outputs[0].shape.num_elements(), step.patterns[k].shape[0]))
    return local @ step.patterns[k]


@rule("SparseTensorDenseMatMul")
def _sparse_matmul(step):
    """Inputs indices, values, shape of a sparse matrix, and a dense one."""
    indices, shape = step.value(0), step.value(2)
    if step.op.get_attr("adjoint_b"):
        raise NoRule("its dense factor is transposed")
    order = [1, 0] if step.op.get_attr("adjoint_a") else [0, 1]
    rows, columns = indices[:, order[0]], indices[:, order[1]]
    width = step.out_shape()[1]
    parts = []
    if step.patterns[1] is not None:
        by_value = links(rows, np.arange(len(rows)), (shape[order[0]], len(rows)))
        parts.append(scipy.sparse.kron(by_value, np.ones([width, 1], bool), format="csr") @ step.patterns[1])
    if step.patterns[3] is not None:
        matrix = links(rows, columns, (shape[order[0]], shape[order[1]]))
        local = scipy.sparse.kron(matrix, scipy.sparse.eye_array(width, dtype=bool), format="csr")
        parts.append(local @ step.patterns[3])
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
        parts.append(local.astype(bool) @ step.patterns[3])
    return [union(parts)]
