"""Ops on the trailing axes, with the leading ones as a batch: matrices and Fourier transforms."""

from collections.abc import Callable

import tensorflow as tf

from tfjac.graph.examples.example_rules import SHARED, Axis, ExampleAxis, NoRule, Wanted, aligned, known_shape
from tfjac.graph.facts import declare
from tfjac.graph.gradients.mending import Gradient
from tfjac.types import Tensor

NUMBERS = {"fft_length", "k", "n", "num_lower", "num_upper", "num_rows", "num_cols", "padding_value"}
KEPT_APART = "it combines slices along the axis of the examples"


def _trailing(count: int) -> Callable:
    """A rule for ops that work on the last `count` axes of their first input, and on its leading axes one by one."""

    def trailing(op: tf.Operation, axis: ExampleAxis, wanted: Wanted) -> list[Axis]:
        if axis.axis >= len(known_shape(wanted, op.inputs[0])) - count:
            raise NoRule(KEPT_APART)
        return [SHARED if argument.name in NUMBERS else axis for argument in op.op_def.input_arg]

    return trailing


def _diagonals(op: tf.Operation, axis: ExampleAxis, wanted: Wanted) -> list[Axis]:
    """Matrices of one diagonal `[..., length]`, or of several `[..., count, length]`: their value says which."""
    if axis.axis >= len(known_shape(wanted, op.outputs[0])) - 2:
        raise NoRule(KEPT_APART)
    return [axis] + [SHARED] * (len(op.inputs) - 1)


def _gradient_of_matrices(op: tf.Operation, cotangent: Tensor) -> tuple[Tensor | None, ...]:
    """With what pads, too: TensorFlow says that nothing depends on it."""
    given = tf.linalg.diag_part(cotangent, "diag_part", op.inputs[1], align=op.get_attr("align").decode())
    return given, None, None, None, tf.reduce_sum(cotangent) - tf.reduce_sum(given)


def _gradient_of_diagonals(op: tf.Operation, cotangent: Tensor) -> tuple[Tensor | None, ...]:
    """With what pads, too; of the length that the op tells: TensorFlow makes no matrix of diagonals of an open one."""
    matrix, number, _ = op.inputs
    diagonals = tf.ensure_shape(cotangent, op.outputs[0].shape)
    rows, columns = tf.shape(matrix)[-2], tf.shape(matrix)[-1]
    given = tf.linalg.diag(diagonals, "diag", number, rows, columns, align=op.get_attr("align").decode())
    return given, None, tf.reduce_sum(cotangent) - tf.reduce_sum(given)


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


declare("Cross FFT IFFT IRFFT IsotonicRegression NthElement RFFT RGBToHSV TopKV2", example_axis=_trailing(1))
declare("MatrixDiagV3", example_axis=_diagonals, gradient=Gradient(_gradient_of_matrices), sized_by=(1, 2, 3))
declare("MatrixDiagPartV3", gradient=Gradient(_gradient_of_diagonals))
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
