"""Ops along some axes: linear algebra and Fourier transforms on the last ones, running sums, windows of channels."""

import math

import numpy as np
import scipy.sparse

from tfjac.jacobians.sparsity.index_sets import IndexSets, axis_names, composed, linked, links, union
from tfjac.jacobians.sparsity.rules.index_set_rules import Patterns, Step, rule
from tfjac.jacobians.sparsity.rules.labelled import unless_spread
from tfjac.types import Array

MATRICES = """
    BandedTriangularSolve Cholesky Eig LogMatrixDeterminant MatrixDeterminant MatrixInverse MatrixSolve
    MatrixSolveLs MatrixSquareRoot MatrixTriangularSolve Qr SelfAdjointEigV2 Svd TridiagonalSolve
    FFT2D IFFT2D RFFT2D IRFFT2D
"""
TRAILING = {
    **dict.fromkeys(["FFT", "IFFT", "IRFFT", "RFFT", "TopKV2"], 1),
    **dict.fromkeys(MATRICES.split(), 2),
    **dict.fromkeys(["FFT3D", "IFFT3D"], 3),
}
"""On how many of the last axes an op works."""


@rule(*TRAILING)
def _within_batch(step: Step) -> Patterns:
    """Batch axes may be broadcast; those of an output are as many as those of the widest input."""
    ranks = [max(len(step.shape(k)) - TRAILING[step.op.type], 0) for k in range(len(step.op.inputs))]
    labels = axis_names(max(ranks))
    result: Patterns = [None] * len(step.op.outputs)
    for index in step.wanted:
        out_shape = step.out_shape(index)
        inner = [f"new{k}" for k in range(len(out_shape) - len(labels))]
        sizes = dict(zip(labels, out_shape))
        parts = []
        for k in step.carriers:
            own = labels[len(labels) - ranks[k] :]
            own = unless_spread(own, step.shape(k), sizes) + [None] * (len(step.shape(k)) - len(own))
            parts.append(step.linked(k, own, [*labels, *inner], index))
        result[index] = union(parts)
    return result


@rule("SparseTensorDenseMatMul")
def _sparse_matmul(step: Step) -> Patterns:
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
def _tridiagonal_matmul(step: Step) -> Patterns:
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


@rule("L2Loss")
def _to_scalar(step: Step) -> Patterns:
    return [step.linked(0, axis_names(len(step.shape(0))), [])]


@rule("Cumsum", "Cumprod", "CumulativeLogsumexp")
def _cumulative(step: Step) -> Patterns:
    size = step.shape(0)[_axis(step)]
    running = np.tri(size, k=-1 if step.op.get_attr("exclusive") else 0, dtype=bool)
    return [_along(step, _axis(step), running.T if step.op.get_attr("reverse") else running)]


def _axis(step: Step) -> int:
    return int(step.value(1)) % len(step.shape(0))


@rule("LRN")
def _local_response(step: Step) -> Patterns:
    """Each channel is divided by what it and its neighbours amount to."""
    radius, channels = step.op.get_attr("depth_radius"), step.shape(0)[-1]
    distance = np.subtract.outer(np.arange(channels), np.arange(channels))
    return [_along(step, len(step.shape(0)) - 1, np.abs(distance) <= radius)]


@rule("Cross")
def _cross(step: Step) -> Patterns:
    """Of three numbers, each comes of the other two."""
    return [union([_along(step, len(step.shape(k)) - 1, ~np.eye(3, dtype=bool), k) for k in step.carriers])]


def _along(step: Step, axis: int, local: Array, k: int = 0) -> IndexSets:
    """Each place along an axis of input k depends on the places where the boolean matrix `local` has an entry."""
    shape = step.shape(k)
    before, after = (scipy.sparse.eye_array(math.prod(part), dtype=bool) for part in (shape[:axis], shape[axis + 1 :]))
    whole = scipy.sparse.kron(before, scipy.sparse.kron(local, after), format="csr")
    return composed(whole.astype(bool), step.patterns[k])
