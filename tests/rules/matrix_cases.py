"""Cases for ops on the trailing axes: matrices and Fourier transforms."""

import tensorflow as tf

from tests.rules.case import Case, N, behind, last
from tests.rules.layer_cases import constant
from tests.rules.move_mixing_cases import unknown_zero

SHIFT = 3.0 * tf.eye(4, dtype=tf.float64)


def square(x):
    """A matrix `[..., 4, 4]` that is far from singular."""
    return SHIFT + 0.3 * tf.sin(x)


def definite(x):
    return tf.matmul(x, x, transpose_b=True) + SHIFT


def complex_of(x):
    return tf.complex(x, tf.sin(x))


def both_parts(z):
    return tf.math.real(z) + 2.0 * tf.math.imag(z)


def transform(name):
    """A Fourier transform by its function in `tf.signal`, as a real function of real numbers."""
    function = getattr(tf.signal, name)
    if name.startswith("irfft"):
        return lambda x: function(complex_of(x))
    return lambda x: both_parts(function(x if name.startswith("rfft") else complex_of(x)))


def top(x):
    return tf.math.top_k(x, 2).values


def cross(x):
    return tf.linalg.cross(tf.concat([x, x[..., :1]], -1)[..., 2:], tf.sin(x[..., :3]))


def diagonal(x):
    return tf.raw_ops.MatrixDiagV3(diagonal=x, k=0, num_rows=-1, num_cols=-1, padding_value=tf.constant(0.0, x.dtype))


def eigenvalues(x):
    return both_parts(tf.raw_ops.Eig(input=definite(x), Tout=tf.complex128, compute_v=False).e)


def third(x):
    return tf.raw_ops.NthElement(input=x, n=2)[..., None]


def isotonic(x):
    values = tf.reshape(x, [-1, x.shape[-1]])
    return tf.reshape(tf.nn.isotonic_regression(values)[0], x.shape)


def hue(x):
    return tf.image.rgb_to_hsv(tf.sigmoid(x[..., :3]))


MATRICES = {
    "Cholesky": lambda x: tf.linalg.cholesky(definite(x)),
    "Eig": eigenvalues,
    "LogMatrixDeterminant": lambda x: tf.linalg.slogdet(square(x))[1][..., None],
    "MatrixBandPart": lambda x: tf.linalg.band_part(x, 1, 0),
    "MatrixDeterminant": lambda x: tf.linalg.det(square(x))[..., None],
    "MatrixDiagPartV3": lambda x: tf.linalg.diag_part(x, k=1),
    "MatrixDiagPartV3 of several": lambda x: tf.linalg.diag_part(x, k=(-1, 1)),
    "MatrixDiagV3 of several": lambda x: tf.linalg.diag(x[..., :3, :], k=(-1, 1)),
    "MatrixInverse": lambda x: tf.linalg.inv(square(x)),
    "MatrixSetDiagV3": lambda x: tf.linalg.set_diag(x, tf.sin(x[..., 0])),
    "MatrixSetDiagV3 of several": lambda x: tf.linalg.set_diag(x, tf.sin(x[..., :3, :]), k=(-1, 1)),
    "MatrixSquareRoot": lambda x: tf.linalg.sqrtm(square(x)),
    "Qr": lambda x: tf.linalg.qr(square(x))[1],
    "SelfAdjointEigV2": lambda x: tf.linalg.eigvalsh(definite(x) + tf.linalg.diag(tf.range(4, dtype=x.dtype))),
    "Svd": lambda x: tf.linalg.svd(square(x) @ tf.linalg.diag(1.0 + tf.range(4, dtype=x.dtype)), compute_uv=False),
    **{name.upper(): transform(name) for name in ("fft2d", "ifft2d", "rfft2d", "irfft2d")},
}
VECTORS = {
    "MatrixDiagV3": diagonal,
    "TopKV2": top,
    "Cross": cross,
    "NthElement": third,
    "RGBToHSV": hue,
    **{name.upper(): transform(name) for name in ("fft", "ifft", "rfft", "irfft")},
}
VOLUMES = {name.upper(): transform(name) for name in ("fft3d", "ifft3d")}
ABOVE = constant(1, 4)
RIGHT, TRIANGLE = constant(4, 2), tf.linalg.band_part(constant(4, 4), -1, 0) + SHIFT


def solved(solve, single=False):
    """A system for each example, and with one that all share."""
    return lambda x: solve(square(x), x[..., :2]) * solve(square(x), tf.broadcast_to(tf.constant(RIGHT), [N, 4, 2]))


def banded(matrix, right):
    return tf.raw_ops.BandedTriangularSolve(matrix=matrix[..., :2, :] + 2.0, rhs=right, lower=True)


def diagonals(matrix):
    """Those below, on and above the main diagonal, of a matrix that is far from singular."""
    return 0.1 * matrix[..., :3, :] + tf.constant([[0.0], [4.0], [0.0]], matrix.dtype)


def tridiagonal(matrix, right):
    return tf.linalg.tridiagonal_solve(diagonals(matrix), right)


def tridiagonal_product(matrix, right):
    return tf.linalg.tridiagonal_matmul(diagonals(matrix), right)


def least_squares(matrix, right):
    return tf.raw_ops.MatrixSolveLs(matrix=matrix, rhs=right, l2_regularizer=0.1)


SOLVERS = {
    "MatrixSolve": tf.linalg.solve,
    "MatrixTriangularSolve": tf.linalg.triangular_solve,
    "BandedTriangularSolve": banded,
    "MatrixSolveLs": least_squares,
    "TridiagonalSolve": tridiagonal,
    "TridiagonalMatMul": tridiagonal_product,
}

APART = [
    *(Case(name, function) for name, function in VECTORS.items()),
    *(Case(name + " behind", behind(function), (2, 4)) for name, function in VECTORS.items()),
    *(Case(name, function, (4, 4)) for name, function in MATRICES.items()),
    *(Case(name + " behind", behind(function), (2, 4, 4)) for name, function in MATRICES.items()),
    *(Case(name, function, (2, 2, 4)) for name, function in VOLUMES.items()),
    *(Case(name + " behind", behind(function), (2, 2, 2, 4)) for name, function in VOLUMES.items()),
    *(Case(name, solved(solve), (4, 4)) for name, solve in SOLVERS.items()),
    *(Case(name + " of columns", last(lambda x, f=solve: f(TRIANGLE, x))) for name, solve in SOLVERS.items()),
    Case(
        "MatrixSolve of columns by a weight",
        last(lambda x, w: tf.linalg.solve(square(w), x)),
        variables=((4, 4),),
        refused=True,
    ),
    Case(
        "TridiagonalMatMul of columns by a weight",
        last(lambda x, w: tf.raw_ops.TridiagonalMatMul(superdiag=ABOVE, maindiag=w, subdiag=ABOVE, rhs=x)),
        variables=((1, 4),),
        refused=True,
    ),
    Case(
        "MatrixTriangularSolve of columns by several systems",
        last(lambda x, w: tf.linalg.triangular_solve(square(w), x)),
        variables=((2, 4, 4),),
        refused=True,
    ),
    Case("IsotonicRegression", isotonic, single=True),
    Case(
        "MatrixTriangularSolve of one system for all", lambda x: tf.linalg.triangular_solve(TRIANGLE[None], x), (4, 2)
    ),
]

MIXING = [
    *(
        Case(name, last(function), (4, 2))
        for name, function in VECTORS.items()
        if name not in ("Cross", "MatrixDiagV3", "NthElement")
    ),
    Case("Cross", last(lambda x: tf.linalg.cross(x, tf.sin(x)))),
    Case("NthElement", lambda x: third(tf.transpose(x))[:N] + x),
    Case("MatrixDiagV3", lambda x: tf.linalg.diag(tf.reduce_sum(tf.roll(x, 1, 0), 1))),
    Case("MatrixDiagV3 of as many diagonals as rows", lambda x: tf.linalg.diag(x, k=(-1, 1)), (N,)),
    Case(
        "MatrixDiagV3 of unknown diagonals",
        lambda x: tf.ensure_shape(tf.linalg.diag(x, k=[-1, 1] + unknown_zero(x)), [N, N]),
        (N,),
    ),
    *(
        Case(name, function, (N,))
        for name, function in {
            "Cholesky": lambda x: tf.linalg.cholesky(tf.matmul(x, x, transpose_b=True) + SHIFT[:N, :N]),
            "MatrixInverse": lambda x: tf.linalg.inv(SHIFT[:N, :N] + 0.3 * tf.sin(x)),
            "MatrixBandPart": lambda x: tf.linalg.band_part(tf.matmul(x, x), 1, 0),
            "MatrixSetDiagV3": lambda x: tf.linalg.set_diag(tf.matmul(x, x), tf.sin(x[:, 0])),
            "MatrixSquareRoot": lambda x: tf.linalg.sqrtm(SHIFT[:N, :N] + 0.3 * tf.sin(x)),
            "Qr": lambda x: tf.linalg.qr(SHIFT[:N, :N] + x)[1],
            "SelfAdjointEigV2": lambda x: tf.linalg.eigvalsh(tf.matmul(x, x, transpose_b=True))[:, None],
            "Svd": lambda x: tf.linalg.svd(x, compute_uv=False)[:, None],
            "MatrixDiagPartV3": lambda x: tf.linalg.diag_part(tf.matmul(x, x))[:, None],
        }.items()
    ),
    *(Case(name, lambda x, f=function: f(x)) for name, function in MATRICES.items() if "FFT2D" in name),
    *(Case(name, last(function), (2, 4)) for name, function in VOLUMES.items()),
    Case("MatrixSolve", lambda x: tf.linalg.solve(SHIFT[:N, :N] + 0.5, x)),
    Case("MatrixTriangularSolve", lambda x: tf.linalg.triangular_solve(TRIANGLE[:N, :N], x)),
    Case("BandedTriangularSolve", lambda x: banded(TRIANGLE[:N, :N], x)),
]
