"""Ops on the trailing axes, with the leading ones as a batch: matrices and Fourier transforms."""

from tfjac.graph.example_rules.registry import SHARED, NoRule, aligned, known_shape, rule

VECTORS = "FFT IFFT RFFT IRFFT MatrixDiagV3 TopKV2 Cross"
MATRICES = """
    Cholesky FFT2D IFFT2D RFFT2D IRFFT2D LogMatrixDeterminant MatrixBandPart MatrixDeterminant MatrixDiagPartV3
    MatrixInverse MatrixSetDiagV3 MatrixSquareRoot Qr SelfAdjointEigV2 Svd
"""
VOLUMES = "FFT3D IFFT3D"
NUMBERS = {"fft_length", "k", "num_lower", "num_upper", "num_rows", "num_cols", "padding_value"}
KEPT_APART = "it combines slices along the axis of the examples"


def _trailing(count):
    """A rule for ops that work on the last `count` axes of their first input, and on its leading axes one by one."""

    def trailing(op, axis, wanted):
        if axis.axis >= len(known_shape(wanted, op.inputs[0])) - count:
            raise NoRule(KEPT_APART)
        return [SHARED if argument.name in NUMBERS else axis for argument in op.op_def.input_arg]

    return trailing


rule(*VECTORS.split())(_trailing(1))
rule(*MATRICES.split())(_trailing(2))
rule(*VOLUMES.split())(_trailing(3))


@rule("MatrixSolve", "MatrixTriangularSolve", "BandedTriangularSolve")
def _solve(op, axis, wanted):
    """[..., rows, rows] and [..., rows, columns]: examples are in a leading axis, broadcast, or in the columns."""
    out = known_shape(wanted, op.outputs[0])
    if axis.axis == len(out) - 1:
        return [SHARED, axis.moved(len(known_shape(wanted, op.inputs[1])) - 1)]
    if axis.axis == len(out) - 2:
        raise NoRule("the examples are the unknowns of a system of equations")
    return aligned(op, axis, op.inputs, out, wanted)
