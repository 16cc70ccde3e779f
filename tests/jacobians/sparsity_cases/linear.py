"""Cases of products, linear algebra, and ops along axes."""

import numpy as np
import tensorflow as tf

from tests.jacobians.sparsity_cases.building import EDGES, LARGEST, RAW, Case, constant, single, together


def matrices(x):
    """Two regular matrices 3×3."""
    return tf.reshape(x, [2, 3, 4])[..., :3] + 4.0 * tf.eye(3, dtype=x.dtype)


def vectors(x):
    return tf.reshape(x, [2, 3, 4])[..., 3:]


def symmetric(x):
    return matrices(x) + tf.linalg.matrix_transpose(matrices(x))


def spread(x):
    """Complex numbers made of x `[2, 2, 2, 3]`."""
    x = tf.reshape(x, [2, 2, 2, 3])
    return tf.complex(x, x**2)


def both(z):
    return tf.stack([tf.math.real(z), tf.math.imag(z)])


SPARSE = tf.sparse.SparseTensor([[0, 1], [2, 3]], tf.constant([1.0, 2.0], tf.float64), [3, 4])

LINEAR = {
    "matmul": Case(
        together(
            lambda x: tf.matmul(x, tf.sin(x), transpose_b=True),
            lambda x: tf.matmul(tf.constant(np.eye(5, 4)), x**2),
            lambda x: tf.matmul(x**2, tf.constant(np.eye(5, 4)), transpose_a=True, transpose_b=True),
        )
    ),
    "matmul, batched": Case(
        together(
            lambda x: tf.matmul(tf.reshape(x, [1, 2, 2, 6]), tf.reshape(x, [2, 1, 6, 2]) ** 2),
            lambda x: tf.matmul(tf.reshape(x, [1, 2, 2, 6]), constant(3, 1, 6, 2)),
            lambda x: tf.matmul(tf.reshape(x, [2, 2, 6]), constant(1, 2, 6), adjoint_a=True),
            lambda x: RAW.BatchMatMul(x=tf.reshape(x, [2, 2, 6]), y=constant(2, 6, 2)),
            lambda x: RAW.BatchMatMulV3(x=tf.reshape(x, [2, 2, 6]), y=constant(1, 6, 2), Tout=x.dtype),
        )
    ),
    "einsum": Case(
        together(
            lambda x: tf.einsum("ij,kj->ki", x**2, tf.constant(np.tri(3, 6))),
            lambda x: tf.einsum("abc,bd->acd", tf.reshape(x, [4, 3, 2]), x[:3] ** 2),
            lambda x: tf.einsum("ij,ij->i", x, x),
            lambda x: tf.einsum("i,jk->ijk", x[0], tf.constant([[1.0, 0.0], [0.0, 2.0]], tf.float64)),
        )
    ),
    "einsum, spread": Case(
        together(
            lambda x: tf.einsum("...i,...i->...i", x**2, tf.constant([[1.0, 0, 2, 0, 0, 1]], tf.float64)),
            lambda x: tf.einsum("...ij,...jk->...ik", tf.reshape(x, [2, 2, 2, 3]), constant(1, 1, 3, 2)),
            lambda x: tf.einsum("...i,...->...i", x, constant(1)),
            lambda x: tf.einsum("...i,...j->...ij", x[:1], constant(4, 3)),
        )
    ),
    "einsum, diagonals": Case(
        together(
            lambda x: tf.einsum("ii->i", x[:, :4] ** 2),
            lambda x: tf.einsum("ii->", x[:, :4] ** 2),
            lambda x: tf.einsum("iji,ik->jk", tf.reshape(x[:, :4], [2, 4, 2]), constant(2, 3)),
            lambda x: tf.einsum("ii,ij->ij", constant(4, 4), x),
            lambda x: RAW.Einsum(inputs=[x[0]], equation="i->ii") ** 2,
        )
    ),
    "sparse matmul": Case(
        together(
            lambda x: tf.sparse.sparse_dense_matmul(SPARSE, x**2),
            lambda x: tf.sparse.sparse_dense_matmul(SPARSE, x[:3] ** 2, adjoint_a=True),
            lambda x: tf.sparse.sparse_dense_matmul(SPARSE, x[:, :4] ** 2, adjoint_b=True),
            lambda x: tf.sparse.sparse_dense_matmul(SPARSE.with_values(x[0, :2]), x**2),
        )
    ),
    "tridiagonal": Case(
        together(
            lambda x: tf.linalg.tridiagonal_matmul([x[0], x[1], x[2]], tf.reshape(x, [6, 4]), "sequence"),
            lambda x: tf.linalg.tridiagonal_solve(
                tf.stack([x[:3, :3], x[:3, :3] + 4.0, x[:3, 3:]], 1), x[:3, :3], "compact", partial_pivoting=False
            ),
        ),
        larger=EDGES,
    ),
    "algebra": Case(
        together(
            lambda x: tf.linalg.inv(matrices(x)),
            lambda x: tf.linalg.det(matrices(x)),
            lambda x: tf.linalg.slogdet(matrices(x))[1],
            lambda x: tf.linalg.solve(matrices(x), vectors(x)),
            lambda x: tf.linalg.sqrtm(matrices(x)),
            lambda x: RAW.MatrixSolveLs(
                matrix=matrices(x), rhs=vectors(x), l2_regularizer=tf.constant(0.1, x.dtype), fast=True
            ),
            lambda x: tf.math.real(tf.linalg.eigvals(matrices(x))),
            lambda x: tf.linalg.svd(matrices(x), compute_uv=False),
        )
    ),
    "algebra of triangles": Case(
        together(
            lambda x: tf.linalg.cholesky(symmetric(x)),
            lambda x: tf.linalg.eigvalsh(symmetric(x)),
            lambda x: tf.linalg.triangular_solve(matrices(x), vectors(x)),
            lambda x: tf.linalg.triangular_solve(matrices(x)[:1], vectors(x)),
            lambda x: tf.linalg.qr(matrices(x)).r,
            lambda x: tf.linalg.banded_triangular_solve(tf.reshape(x, [2, 2, 6]) + 2.0, tf.reshape(x, [2, 6, 2])),
        ),
        larger=EDGES,
    ),
    "reductions": Case(
        together(
            lambda x: tf.reduce_sum(x**2, 0),
            lambda x: x * tf.reduce_mean(x, 1, keepdims=True),
            lambda x: tf.reduce_prod(x, 1),
            lambda x: tf.math.reduce_euclidean_norm(x, -1),
            lambda x: tf.nn.l2_loss(x[:2]),
        )
    ),
    "extremes": Case(
        together(lambda x: tf.reduce_max(x, 1), lambda x: tf.reduce_min(x, 0), lambda x: tf.sort(x, 1)), larger=LARGEST
    ),
    "softmax": Case(together(tf.nn.softmax, lambda x: tf.nn.log_softmax(x, 0))),
    "running": Case(
        together(
            lambda x: tf.cumsum(x**2, 1, exclusive=True),
            lambda x: tf.cumsum(x**2, 0, reverse=True),
            lambda x: tf.math.cumprod(x, 1),
            lambda x: tf.math.cumulative_logsumexp(x, 1),
        )
    ),
    "cross": Case(lambda x: tf.linalg.cross(x[:, :3], x[:, 3:])),
    "channels": Case(single(lambda x: tf.nn.lrn(tf.reshape(x, [1, 2, 2, 6]), 1)), by_rows=True),
    "fft": Case(
        together(
            *(
                lambda x, transform=transform: both(transform(spread(x)))
                for transform in (
                    *(tf.signal.fft, tf.signal.ifft, tf.signal.fft2d, tf.signal.ifft2d),
                    *(tf.signal.fft3d, tf.signal.ifft3d),
                )
            )
        ),
    ),
    "fft of real numbers": Case(
        together(
            *(
                lambda x, transform=transform: both(transform(tf.reshape(x, [2, 2, 2, 3])))
                for transform in (tf.signal.rfft, tf.signal.rfft2d)
            ),
            *(
                lambda x, transform=transform: transform(spread(x))
                for transform in (tf.signal.irfft, tf.signal.irfft2d)
            ),
        ),
        larger="sines of multiples of π are zero",
    ),
}
