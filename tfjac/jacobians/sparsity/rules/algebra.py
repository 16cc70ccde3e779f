"""Linear algebra on the last two axes: all of a matrix depends on all of the matrices it is made of."""

from tfjac.jacobians.sparsity.index_sets import axis_names, union
from tfjac.jacobians.sparsity.rules.registry import NoRule, rule

BATCHED = """
    Cholesky LogMatrixDeterminant MatrixDeterminant MatrixInverse MatrixSolve MatrixSolveLs MatrixTriangularSolve Qr
    SelfAdjointEigV2 Svd TridiagonalSolve
"""


@rule(*BATCHED.split())
def _within_batch(step):
    batch = len(step.shape(0)) - 2
    if any(step.shape(k)[:batch] != step.shape(0)[:batch] for k in step.carriers):
        raise NoRule("its batch axes are broadcast")
    labels = axis_names(batch)
    result = []
    for index, output in enumerate(step.op.outputs):
        inner = [f"new{k}" for k in range(output.shape.rank - batch)]
        parts = [
            step.linked(k, labels + [None] * (len(step.shape(k)) - batch), labels + inner, index) for k in step.carriers
        ]
        result.append(union(parts))
    return result
