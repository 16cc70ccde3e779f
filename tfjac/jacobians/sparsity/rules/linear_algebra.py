"""Linear algebra on the last two axes: all of a matrix depends on all of the matrices it is made of."""

from tfjac.jacobians.sparsity.index_sets import axis_names, union
from tfjac.jacobians.sparsity.rules.index_set_rules import Patterns, Step, rule
from tfjac.jacobians.sparsity.rules.labelled import unless_spread

BATCHED = """
    BandedTriangularSolve Cholesky Eig LogMatrixDeterminant MatrixDeterminant MatrixInverse MatrixSolve
    MatrixSolveLs MatrixSquareRoot MatrixTriangularSolve Qr SelfAdjointEigV2 Svd TridiagonalSolve
"""


@rule(*BATCHED.split())
def _within_batch(step: Step) -> Patterns:
    """Batch axes may be broadcast; those of an output are as many as those of the widest input."""
    ranks = [max(len(step.shape(k)) - 2, 0) for k in range(len(step.op.inputs))]
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
