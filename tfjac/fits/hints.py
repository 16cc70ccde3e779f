"""What keeps a large J from being sparse, in words: the op, and what to write instead."""

from typing import Any

from tfjac.jacobians.sparsity.dense_uses import dense_uses
from tfjac.types import Tensor

WIDEST = 64
"""Columns that an example may touch without a word: a few rows of tables."""

_ROWS = "read what an example needs by tf.gather(table, index) along axis 0, with one residual row for each example"

_INSTEAD = {
    (
        "GatherV2", "ResourceGather", "GatherNd", "ResourceGatherNd",
        "ScatterNd", "TensorScatterAdd", "TensorScatterUpdate", "UnsortedSegmentSum",
    ): (
        "give indices that are known before the fit, as constants or in args=, and not computed on the way"
    ),
    ("Cumsum", "CumulativeLogsumexp"): (
        "make the running sums the variable, a row for each point, and read their differences where a term is asked for"
    ),
    (
        "Sum", "Mean", "Max", "Min", "Prod", "EuclideanNorm", "L2Loss", "Softmax", "LogSoftmax", "TopKV2",
        "FFT", "FFT2D", "FFT3D", "IFFT", "IFFT2D", "IFFT3D", "RFFT", "RFFT2D", "RFFT3D", "IRFFT", "IRFFT2D", "IRFFT3D",
        "MatrixInverse", "MatrixSolve", "MatrixTriangularSolve", "Cholesky",
    ): (
        'what it computes depends on all that it is given, in whatever order that is read; solver="lsmr" or "cg" needs '
        "products with J alone"
    ),
    ("MatMul", "BatchMatMul", "BatchMatMulV2", "BatchMatMulV3", "Einsum"): (
        "if most elements of the matrix are zero, have it as a constant in the function and not in args=, so that they "
        "are seen"
    ),
}  # fmt: skip
"""By types of ops."""


def hints_of(tensors: list[Tensor], variables: list) -> list[str]:
    """Return sentences that name each kind of op by which examples come to depend on much of a variable.

    Args:
        tensors: list of tensors of residuals, of the graph being traced, to which ops are added.
        variables: list of variables.
    """
    tensors = [tensor for tensor in tensors if tensor.shape.rank]
    return [_sentence(use) for use in dense_uses(tensors, variables, WIDEST)]


def _sentence(use: Any) -> str:
    instead = next((words for types, words in _INSTEAD.items() if use.op.type in types), _ROWS)
    what = "mixes examples" if use.columns is None else f"lets an example touch {use.columns:,} columns of J"
    return f"hint: op {use.op.name!r} of type {use.op.type} {what}, so that J is not sparse: {instead}."
