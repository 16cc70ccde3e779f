"""Ops on the trailing axes, with the leading ones as a batch: matrices and Fourier transforms."""

from collections.abc import Callable

import tensorflow as tf

from tfjac.graph.examples.example_rules import SHARED, Axis, ExampleAxis, NoRule, Wanted, aligned, known_shape
from tfjac.graph.facts import declare

NUMBERS = {"fft_length", "k", "n", "num_lower", "num_upper", "num_rows", "num_cols", "padding_value"}
KEPT_APART = "it combines slices along the axis of the examples"


def _trailing(count: int) -> Callable:
    """A rule for ops that work on the last `count` axes of their first input, and on its leading axes one by one."""

    def trailing(op: tf.Operation, axis: ExampleAxis, wanted: Wanted) -> list[Axis]:
        if axis.axis >= len(known_shape(wanted, op.inputs[0])) - count:
            raise NoRule(KEPT_APART)
        return [SHARED if argument.name in NUMBERS else axis for argument in op.op_def.input_arg]

    return trailing


def _solve(op: tf.Operation, axis: ExampleAxis, wanted: Wanted) -> list[Axis]:
    """[..., rows, rows] and [..., rows, columns]: examples are in a leading axis, broadcast, or in the columns."""
    regularizer = [SHARED] * (len(op.inputs) - 2)
    if _in_columns(op, axis, wanted):
        return [SHARED, axis.moved(len(known_shape(wanted, op.inputs[1])) - 1), *regularizer]
    return aligned(op, axis, op.inputs[:2], known_shape(wanted, op.outputs[0]), wanted) + regularizer


def _tridiagonal_product(op: tf.Operation, axis: ExampleAxis, wanted: Wanted) -> list[Axis]:
    """Three diagonals [..., 1, rows] by [..., rows, columns]: examples as in a system of equations."""
    return [SHARED] * 3 + [axis] if _in_columns(op, axis, wanted) else [axis] * 4


def _in_columns(op: tf.Operation, axis: ExampleAxis, wanted: Wanted) -> bool:
    rank = len(known_shape(wanted, op.outputs[0]))
    if axis.axis == rank - 2:
        raise NoRule("the examples are the rows of a matrix")
    return axis.axis == rank - 1


declare(
    "Cross FFT IFFT IRFFT IsotonicRegression MatrixDiagV3 NthElement RFFT RGBToHSV TopKV2", example_axis=_trailing(1)
)
declare(
    """
    Cholesky Eig FFT2D IFFT2D RFFT2D IRFFT2D LogMatrixDeterminant MatrixBandPart MatrixDeterminant MatrixDiagPartV3
    MatrixInverse MatrixSetDiagV3 MatrixSquareRoot Qr SelfAdjointEigV2 Svd
    """,
    example_axis=_trailing(2),
)
declare("FFT3D IFFT3D", example_axis=_trailing(3))
declare(
    "MatrixSolve MatrixSolveLs MatrixTriangularSolve BandedTriangularSolve TridiagonalSolve",
    example_axis=_solve,
)
declare("TridiagonalMatMul", example_axis=_tridiagonal_product)
declare("TopKV2 RFFT RFFT2D IRFFT IRFFT2D MatrixDiagPartV3", sized_by=(1,))
declare("MatrixDiagV3", sized_by=(1, 2, 3))
