"""Sparse and ragged tensors, with the values as what is differentiated."""

import tensorflow as tf

from tests.sweep.samples.table import distinct, normal, sample, uniform

sparse, raw = tf.sparse, tf.raw_ops
INDICES = [[0, 1], [1, 0], [1, 2], [2, 1]]


def _made(values, shape=(3, 3), indices=INDICES):
    return sparse.SparseTensor(indices, values, shape)


sample("sparse.to_dense", lambda v: sparse.to_dense(_made(v)), normal(4))
sample("sparse.from_dense", lambda x: sparse.from_dense(x).values, normal(2, 3))
sample("sparse.sparse_dense_matmul", lambda v, b: sparse.sparse_dense_matmul(_made(v), b), normal(4), normal(3, 2))
sample(
    "sparse.sparse_dense_matmul, adjoint",
    lambda v, b: sparse.sparse_dense_matmul(_made(v), b, adjoint_a=True, adjoint_b=True),
    normal(4),
    normal(2, 3),
)
sample(
    "sparse.sparse_dense_matmul, dense first",
    lambda v, b: sparse.sparse_dense_matmul(b, _made(v)),
    normal(4),
    normal(2, 3),
)
sample(
    "SparseMatMul",
    lambda x, y: tf.cast(raw.SparseMatMul(a=tf.cast(x, tf.float32), b=tf.cast(y, tf.float32)), tf.float64),
    normal(2, 3),
    normal(3, 2),
    single=True,
)
sample(
    "sparse.add of two",
    lambda v, w: sparse.add(_made(v), _made(w, indices=[[0, 0], [1, 0], [2, 1], [2, 2]])).values,
    normal(4),
    normal(4),
)
sample("sparse.add of a dense one", lambda v, x: sparse.add(_made(v), x), normal(4), normal(3, 3))
sample("sparse times dense", lambda v, x: (_made(v) * x).values, normal(4), normal(3, 3))
sample("sparse times dense, broadcast", lambda v, x: (_made(v) * x).values, normal(4), normal(1, 3))
sample("sparse over dense", lambda v, x: (_made(v) / x).values, normal(4), normal(3, 3))
sample(
    "SparseDenseCwiseAdd",
    lambda v, x: raw.SparseDenseCwiseAdd(
        sp_indices=tf.constant(INDICES, tf.int64), sp_values=v, sp_shape=tf.constant([3, 3], tf.int64), dense=x
    ),
    normal(4),
    normal(3, 3),
)
for _axis in (None, 0, -1):
    sample(f"sparse.reduce_sum, axis={_axis}", lambda v, a=_axis: sparse.reduce_sum(_made(v), a), normal(4))
sample("sparse.reduce_max", lambda v: sparse.reduce_max(_made(v), 1), distinct(4))
sample("sparse.softmax", lambda v: sparse.softmax(_made(v)).values, normal(4))
sample("sparse.reorder", lambda v: sparse.reorder(_made(v, indices=INDICES[::-1])).values, normal(4))
sample("sparse.transpose", lambda v: sparse.transpose(_made(v)).values, normal(4))
sample("sparse.slice", lambda v: sparse.slice(_made(v), [1, 0], [2, 3]).values, normal(4))
sample("sparse.split", lambda v: [part.values for part in sparse.split(_made(v), 3, 0)], normal(4))
sample("sparse.concat", lambda v, w: sparse.concat(0, [_made(v), _made(w)]).values, normal(4), normal(4))
sample("sparse.reshape", lambda v: sparse.to_dense(sparse.reshape(_made(v), [9])), normal(4))
sample("sparse.retain", lambda v: sparse.retain(_made(v), [True, False, True, True]).values, normal(4))
sample("sparse.maximum", lambda v, w: sparse.maximum(_made(v), _made(w)).values, distinct(4), normal(4))
sample("sparse.minimum", lambda v, w: sparse.minimum(_made(v), _made(w)).values, distinct(4), normal(4))
sample(
    "sparse.fill_empty_rows",
    lambda v: sparse.fill_empty_rows(_made(v, (4, 3)), tf.constant(2.0, v.dtype))[0].values,
    normal(4),
)
sample("sparse.map_values", lambda v: sparse.map_values(tf.sin, _made(v)).values, normal(4))
sample("sparse.expand_dims", lambda v: sparse.to_dense(sparse.expand_dims(_made(v), 1)), normal(4))
sample(
    "sparse.bincount of weights",
    lambda w: (
        sparse.to_dense(sparse.bincount(tf.constant([0, 1, 1]), weights=tf.cast(w, tf.float32)))
        + tf.cast(w[0], tf.float32)
    ),
    normal(3),
    single=True,
)
sample(
    "SparseToDense",
    lambda v: raw.SparseToDense(
        sparse_indices=INDICES, output_shape=[3, 3], sparse_values=v, default_value=tf.constant(1.0, v.dtype)
    ),
    normal(4),
)


def _csr(values):
    return raw.SparseTensorToCSRSparseMatrix(
        indices=tf.constant(INDICES, tf.int64), values=values, dense_shape=tf.constant([3, 3], tf.int64)
    )


sample("CSRSparseMatrixToDense", lambda v: raw.CSRSparseMatrixToDense(sparse_input=_csr(v), type=tf.float64), normal(4))
sample(
    "DenseToCSRSparseMatrix",
    lambda x: raw.CSRSparseMatrixToDense(
        sparse_input=raw.DenseToCSRSparseMatrix(dense_input=x, indices=tf.constant(INDICES, tf.int64)), type=tf.float64
    ),
    normal(3, 3),
)
sample("SparseMatrixMatMul", lambda v, b: raw.SparseMatrixMatMul(a=_csr(v), b=b), normal(4), normal(3, 2))
sample(
    "SparseMatrixSparseMatMul",
    lambda v, w: raw.CSRSparseMatrixToDense(
        sparse_input=raw.SparseMatrixSparseMatMul(a=_csr(v), b=_csr(w), type=tf.float64), type=tf.float64
    ),
    normal(4),
    normal(4),
)
sample(
    "SparseMatrixAdd",
    lambda v, w: raw.CSRSparseMatrixToDense(
        sparse_input=raw.SparseMatrixAdd(
            a=_csr(v), b=_csr(w), alpha=tf.constant(1.0, v.dtype), beta=tf.constant(1.0, v.dtype)
        ),
        type=tf.float64,
    ),
    normal(4),
    normal(4),
)
sample(
    "SparseMatrixMul",
    lambda v: raw.CSRSparseMatrixToDense(
        sparse_input=raw.SparseMatrixMul(a=_csr(v), b=tf.constant(2.0, v.dtype)), type=tf.float64
    ),
    normal(4),
)
sample(
    "SparseMatrixTranspose",
    lambda v: raw.CSRSparseMatrixToDense(
        sparse_input=raw.SparseMatrixTranspose(input=_csr(v), type=tf.float64), type=tf.float64
    ),
    normal(4),
)
sample(
    "SparseMatrixSoftmax",
    lambda v: raw.CSRSparseMatrixToDense(
        sparse_input=raw.SparseMatrixSoftmax(logits=_csr(v), type=tf.float64), type=tf.float64
    ),
    normal(4),
)


def _ragged(values):
    return tf.RaggedTensor.from_row_lengths(values, [2, 0, 3])


sample("ragged.to_tensor", lambda v: _ragged(v).to_tensor(), normal(5))
sample("ragged.to_sparse", lambda v: _ragged(v).to_sparse().values, normal(5))
sample("ragged reduce_sum", lambda v: tf.reduce_sum(_ragged(v), axis=1), normal(5))
sample("ragged reduce_mean", lambda v: tf.reduce_mean(_ragged(v) * 2.0, axis=0), normal(5))
sample("ragged gather", lambda v: tf.gather(_ragged(v), [2, 0]).values, normal(5))
sample("ragged map_flat_values", lambda v: tf.ragged.map_flat_values(tf.sin, _ragged(v)).values, normal(5))
sample("ragged concat", lambda v, w: tf.concat([_ragged(v), _ragged(w)], axis=1).values, normal(5), normal(5))
sample("ragged from a tensor", lambda x: tf.RaggedTensor.from_tensor(x, lengths=[1, 3]).values, normal(2, 3))
sample(
    "ragged map_fn",
    lambda v: tf.map_fn(lambda row: tf.reduce_sum(row * row), _ragged(v), fn_output_signature=v.dtype),
    normal(5),
)
sample("ragged softmax", lambda v: tf.exp(_ragged(v)).values / tf.reduce_sum(tf.exp(_ragged(v))), normal(5))
sample(
    "ragged matmul", lambda v, x: tf.reduce_sum(_ragged(v)[:, :, None].to_tensor() * x, 1), normal(5), uniform(1, 2, 2)
)
