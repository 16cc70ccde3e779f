"""Products, factorisations and solutions of equations; each with no batch, with a batch of one, and of two."""

import tensorflow as tf

from tests.sweep.samples.table import definite, normal, regular, sample

la, raw = tf.linalg, tf.raw_ops
BATCHES = [(), (1,), (2,)]


def _fixed(vectors):
    """Make eigenvectors and singular vectors, which are known up to their sign, unique."""
    return vectors * tf.sign(tf.reduce_sum(vectors, -2, keepdims=True))


ONE_MATRIX = {
    "cholesky": (la.cholesky, definite),
    "cholesky of a product": (lambda a: la.cholesky(tf.matmul(a, a, transpose_b=True)), regular),
    "inv": (la.inv, regular),
    "inv, adjoint": (lambda a: la.inv(a, adjoint=True), regular),
    "det": (la.det, regular),
    "slogdet": (lambda a: la.slogdet(a)[1], regular),
    "logdet": (la.logdet, definite),
    "expm": (la.expm, normal),
    "sqrtm": (la.sqrtm, definite),
    "pinv": (la.pinv, regular),
    "qr": (lambda a: la.qr(a), regular),
    "qr, full": (lambda a: la.qr(a, full_matrices=True), regular),
    "svd": (lambda a: la.svd(a)[0], regular),
    "svd with vectors": (
        lambda a: (lambda s, u, v: [s, tf.matmul(u * s[..., None, :], v, adjoint_b=True)])(*la.svd(a)),
        regular,
    ),
    "svd, left vectors": (lambda a: tf.abs(la.svd(a)[1]), regular),
    "svdvals": (lambda a: la.svd(a, compute_uv=False), regular),
    "eigh": (lambda a: (lambda e, v: [e, _fixed(v)])(*la.eigh(a + la.adjoint(a))), regular),
    "eigvalsh": (lambda a: la.eigvalsh(a + la.adjoint(a)), regular),
    "eig": (lambda a: (lambda e, v: [tf.math.real(e), tf.abs(v)])(*la.eig(a)), regular),
    "eigvals": (lambda a: tf.math.real(la.eigvals(a)), regular),
    "trace of a power": (lambda a: la.trace(a @ a @ a), normal),
    "matrix_rank is constant": (lambda a: la.trace(a) + tf.cast(la.matrix_rank(a), a.dtype), regular),
    "normalize": (lambda a: la.normalize(a)[0], normal),
    "tensor inverse by solve": (lambda a: la.solve(a, tf.eye(3, batch_shape=tf.shape(a)[:-2], dtype=a.dtype)), regular),
    "band of a cholesky": (lambda a: la.diag_part(la.cholesky(a)), definite),
    "logarithm of eigenvalues": (lambda a: tf.math.log(la.eigvalsh(a)), definite),
}
for _name, (_function, _draw) in ONE_MATRIX.items():
    for _batch in BATCHES:
        _of = (lambda a, f=_function: f((a + la.adjoint(a)) / 2)) if _draw is definite else _function
        sample(f"{_name}, batch {list(_batch)}", _of, _draw(*_batch, 3, 3))

TWO_MATRICES = {
    "solve": la.solve,
    "solve, adjoint": lambda a, b: la.solve(a, b, adjoint=True),
    "triangular_solve": la.triangular_solve,
    "triangular_solve, upper": lambda a, b: la.triangular_solve(a, b, lower=False),
    "triangular_solve, adjoint": lambda a, b: la.triangular_solve(a, b, adjoint=True),
    "cholesky_solve": lambda a, b: la.cholesky_solve(la.cholesky(a @ la.adjoint(a)), b),
    "lstsq": la.lstsq,
    "lstsq, regularised": lambda a, b: la.lstsq(a, b, l2_regularizer=0.1),
    "lstsq, not fast": lambda a, b: la.lstsq(a, b, fast=False),
    "matmul": tf.matmul,
    "matmul, transposed": lambda a, b: tf.matmul(a, b, transpose_a=True),
    "lu_solve": lambda a, b: la.lu_solve(*la.lu(tf.stop_gradient(a)), b) + 0 * tf.matmul(a, b),
}
for _name, _function in TWO_MATRICES.items():
    for _batch in BATCHES:
        sample(f"{_name}, batch {list(_batch)}", _function, regular(*_batch, 3, 3), normal(*_batch, 3, 2))
for _name in ("solve", "triangular_solve", "matmul", "cholesky_solve"):
    _function = TWO_MATRICES[_name]
    if _name in ("matmul", "triangular_solve", "cholesky_solve"):
        sample(f"{_name}, broadcast left", _function, regular(3, 3), normal(2, 3, 2))
        sample(f"{_name}, broadcast right", _function, regular(2, 3, 3), normal(3, 2))
        sample(f"{_name}, batches of one and two", _function, regular(1, 3, 3), normal(2, 3, 2))
    sample(f"{_name}, one row", _function, regular(1, 1), normal(1, 2))
    sample(f"{_name}, one column", _function, regular(3, 3), normal(3, 1))
    sample(f"{_name}, batch of one, one column", _function, regular(1, 3, 3), normal(1, 3, 1))
sample("lstsq, tall", la.lstsq, normal(4, 2), normal(4, 2))
sample("lstsq, wide", lambda a, b: la.lstsq(a, b, l2_regularizer=0.1), normal(2, 4), normal(2, 2))
sample("lstsq, batch of one and tall", la.lstsq, normal(1, 4, 2), normal(1, 4, 2))
sample("qr, tall", lambda a: la.qr(a), normal(4, 2))
sample("qr, wide", lambda a: la.qr(a)[1], normal(2, 4))
sample("svdvals, tall", lambda a: la.svd(a, compute_uv=False), normal(4, 2))
sample("svd, tall", lambda a: la.svd(a)[0], normal(2, 4, 2))
sample("pinv, tall", la.pinv, normal(4, 2))
sample("matvec", la.matvec, normal(2, 3), normal(3))
sample("matvec, batch of one", la.matvec, normal(1, 2, 3), normal(1, 3))
sample("MatrixSolveLs", lambda a, b: raw.MatrixSolveLs(matrix=a, rhs=b, l2_regularizer=0.1), normal(4, 2), normal(4, 2))
for _ta in (False, True):
    for _tb in (False, True):
        sample(
            f"MatMul, {_ta}, {_tb}",
            lambda a, b, ta=_ta, tb=_tb: tf.matmul(a, b, transpose_a=ta, transpose_b=tb),
            normal(3, 3),
            normal(3, 3),
        )
        sample(
            f"BatchMatMulV2, {_ta}, {_tb}",
            lambda a, b, ta=_ta, tb=_tb: tf.matmul(a, b, transpose_a=ta, transpose_b=tb),
            normal(2, 3, 3),
            normal(3, 3),
        )
        sample(
            f"BatchMatMul, {_ta}, {_tb}",
            lambda a, b, ta=_ta, tb=_tb: raw.BatchMatMul(x=a, y=b, adj_x=ta, adj_y=tb),
            normal(2, 3, 3),
            normal(2, 3, 3),
        )
        sample(
            f"BatchMatMulV3, {_ta}, {_tb}",
            lambda a, b, ta=_ta, tb=_tb: raw.BatchMatMulV3(x=a, y=b, adj_x=ta, adj_y=tb, Tout=tf.float64),
            normal(2, 3, 3),
            normal(2, 3, 3),
        )
sample("matmul of rank 2 and 3", tf.matmul, normal(2, 3), normal(2, 3, 2))
sample("tensordot", lambda a, b: tf.tensordot(a, b, [[0, 2], [1, 0]]), normal(2, 3, 2), normal(2, 2, 3))
for _equation, _left, _right in [
    ("ij,jk->ik", (2, 3), (3, 2)),
    ("bij,bjk->bik", (2, 2, 3), (2, 3, 2)),
    ("...ij,jk->...ik", (2, 2, 3), (3, 2)),
    ("...i,...i->...", (2, 3), (1, 3)),
    ("i,j->ij", (2,), (3,)),
    ("ij,ij->", (2, 3), (2, 3)),
    ("abc,cd->dab", (2, 2, 3), (3, 2)),
    ("nti,tio->no", (2, 2, 3), (2, 3, 2)),
]:
    sample(f"einsum {_equation}", lambda a, b, e=_equation: tf.einsum(e, a, b), normal(*_left), normal(*_right))
for _equation, _shape in [("ii->i", (3, 3)), ("ii", (3, 3)), ("ijk->kj", (2, 3, 2)), ("bii->b", (2, 3, 3))]:
    sample(f"einsum {_equation}", lambda a, e=_equation: tf.einsum(e, a), normal(*_shape))
sample("XlaEinsum", lambda a, b: raw.XlaEinsum(a=a, b=b, equation="ij,jk->ik"), normal(2, 3), normal(3, 2))
sample("cross", la.cross, normal(2, 3), normal(2, 3))
sample("cross of vectors", la.cross, normal(3), normal(3))
for _batch in BATCHES:
    sample(
        f"tridiagonal_solve, batch {list(_batch)}",
        lambda d, b: la.tridiagonal_solve(d + [[0.0], [4.0], [0.0]], b, partial_pivoting=True),
        normal(*_batch, 3, 4),
        normal(*_batch, 4, 2),
    )
    sample(
        f"tridiagonal_solve without pivots, batch {list(_batch)}",
        lambda d, b: la.tridiagonal_solve(d + [[0.0], [4.0], [0.0]], b, partial_pivoting=False),
        normal(*_batch, 3, 4),
        normal(*_batch, 4, 2),
    )
    sample(
        f"tridiagonal_matmul, batch {list(_batch)}", la.tridiagonal_matmul, normal(*_batch, 3, 4), normal(*_batch, 4, 2)
    )
    sample(
        f"banded_triangular_solve, batch {list(_batch)}",
        lambda d, b: la.banded_triangular_solve(d + [[4.0], [0.0]], b),
        normal(*_batch, 2, 4),
        normal(*_batch, 4, 2),
    )
    sample(
        f"LinearOperatorToeplitz, batch {list(_batch)}",
        lambda c, x: la.LinearOperatorToeplitz(c, c).matmul(x),
        normal(*_batch, 3),
        normal(*_batch, 3, 2),
    )
    sample(
        f"LinearOperatorCirculant, batch {list(_batch)}",
        lambda c, x: tf.math.real(
            la.LinearOperatorCirculant(tf.complex(2 + c * c, c)).solve(tf.cast(x, tf.complex128))
        ),
        normal(*_batch, 3),
        normal(*_batch, 3, 2),
    )
    sample(
        f"conjugate_gradient, batch {list(_batch)}",
        lambda a, b: (
            la.experimental.conjugate_gradient(
                la.LinearOperatorFullMatrix(a, is_self_adjoint=True, is_positive_definite=True), b, max_iter=3
            ).x
        ),
        definite(*_batch, 3, 3),
        normal(*_batch, 3),
    )
    sample(
        f"LinearOperatorKronecker, batch {list(_batch)}",
        lambda a, x: la.LinearOperatorKronecker([la.LinearOperatorFullMatrix(a)] * 2).solve(x),
        regular(*_batch, 2, 2),
        normal(*_batch, 4, 1),
    )
