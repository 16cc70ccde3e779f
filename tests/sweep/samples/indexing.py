"""Gathers, scatters, segments, partitions."""

import tensorflow as tf

from tests.sweep.samples.table import distinct, normal, sample, uniform

raw = tf.raw_ops
IDS, MATRIX_OF_IDS = [2, 0, 2], [[1, 0], [2, 2]]

sample("gather", lambda x: tf.gather(x, IDS), normal(3, 2))
sample("gather, a scalar", lambda x: tf.gather(x, 1), normal(3, 2))
sample("gather, axis=1", lambda x: tf.gather(x, MATRIX_OF_IDS, axis=1), normal(2, 3, 2))
sample("gather, axis=-1", lambda x: tf.gather(x, MATRIX_OF_IDS, axis=-1), normal(2, 3))
sample("gather, batch_dims=1", lambda x: tf.gather(x, MATRIX_OF_IDS, batch_dims=1), normal(2, 3))
sample("gather, batch_dims=-1", lambda x: tf.gather(x, MATRIX_OF_IDS, batch_dims=-1), normal(2, 3))
sample("gather, batch_dims=1, axis=2", lambda x: tf.gather(x, MATRIX_OF_IDS, batch_dims=1, axis=2), normal(2, 2, 3))
sample("Gather", lambda x: raw.Gather(params=x, indices=IDS), normal(3, 2))
sample("gather by what is computed", lambda x: tf.gather(x, tf.argsort(x[:, 0])), distinct(3, 2))
sample("gather_nd", lambda x: tf.gather_nd(x, [[0, 1], [2, 0], [0, 1]]), normal(3, 2))
sample("gather_nd of rows", lambda x: tf.gather_nd(x, [[0], [2]]), normal(3, 2))
sample("gather_nd, batch_dims=1", lambda x: tf.gather_nd(x, [[1], [0]], batch_dims=1), normal(2, 3, 2))
sample("boolean_mask", lambda x: tf.boolean_mask(x, [True, False, True]), normal(3, 2))
sample("boolean_mask by values", lambda x: tf.boolean_mask(x, x > 0), distinct(3, 2))
sample("embedding_lookup", lambda x: tf.nn.embedding_lookup(x, MATRIX_OF_IDS), normal(3, 2))
sample("embedding_lookup, max_norm", lambda x: tf.nn.embedding_lookup(x, IDS, max_norm=0.5), normal(3, 2))
sample("one_hot times", lambda x: tf.one_hot(IDS, 3, dtype=x.dtype) @ x, normal(3, 2))
sample("one_hot of computed values", lambda x: tf.one_hot(IDS, 3, on_value=1.0, dtype=x.dtype) * x[0], normal(3))
sample("take_along_axis", lambda x: tf.experimental.numpy.take_along_axis(x, tf.argsort(x, 1), 1), distinct(2, 3))


sample("scatter_nd", lambda x: tf.scatter_nd([[1], [3]], x, [4, 2]), normal(2, 2))
sample("scatter_nd, duplicates", lambda x: tf.scatter_nd([[1], [3], [1]], x, [4, 2]), normal(3, 2))
sample(
    "ScatterNdNonAliasingAdd",
    lambda x, u: raw.ScatterNdNonAliasingAdd(input=x, indices=[[1], [0], [1]], updates=u),
    normal(3),
    normal(3),
)
for _name in ("add", "sub", "max", "min", "update"):
    _function = getattr(tf, f"tensor_scatter_nd_{_name}")
    sample(f"tensor_scatter_nd_{_name}", lambda x, u, f=_function: f(x, [[2], [0]], u), distinct(3, 2), normal(2, 2))
    sample(
        f"tensor_scatter_nd_{_name}, elements",
        lambda x, u, f=_function: f(x, [[2, 0], [0, 1]], u),
        distinct(3, 2),
        normal(2),
    )
    sample(
        f"tensor_scatter_nd_{_name}, duplicates",
        lambda x, u, f=_function: f(x, [[2], [0], [2]], u),
        distinct(3, 2),
        normal(3, 2),
    )

sample("dynamic_partition", lambda x: tf.dynamic_partition(x, [0, 1, 0], 2), normal(3, 2))
sample("dynamic_partition, elements", lambda x: tf.dynamic_partition(x, [[0, 1], [1, 1], [0, 0]], 2), normal(3, 2))
sample("dynamic_stitch", lambda x, y: tf.dynamic_stitch([[0, 2], [1]], [x, y]), normal(2, 2), normal(1, 2))
sample("dynamic_stitch, duplicates", lambda x, y: tf.dynamic_stitch([[0, 1], [1]], [x, y]), normal(2, 2), normal(1, 2))
sample("dynamic_stitch, a scalar index", lambda x, y: tf.dynamic_stitch([1, [0, 2]], [x, y]), normal(2), normal(2, 2))
sample(
    "parallel_stack by stitch",
    lambda x, y: raw.ParallelDynamicStitch(indices=[[0, 2], [1]], data=[x, y]),
    normal(2, 2),
    normal(1, 2),
)
sample(
    "ParallelDynamicStitch, duplicates",
    lambda x, y: raw.ParallelDynamicStitch(indices=[[0, 1], [1]], data=[x, y]),
    normal(2, 2),
    normal(1, 2),
)

SORTED, GAPS, UNSORTED = [0, 0, 1, 2], [0, 0, 2, 2], [2, 0, 2, -1]
for _name in ("sum", "mean", "prod", "max", "min"):
    _function = getattr(tf.math, f"segment_{_name}")
    sample(f"segment_{_name}", lambda x, f=_function: f(x, SORTED), distinct(4, 2))
    sample(f"segment_{_name}, an empty segment", lambda x, f=_function: f(x, GAPS), distinct(4, 2))
    sample(f"segment_{_name} of rank 1", lambda x, f=_function: f(x, SORTED), distinct(4))
    sample(f"segment_{_name}, ties", lambda x, f=_function: f(tf.concat([x, x], 0), [0, 0, 1, 1]), distinct(2))
for _name in ("sum", "mean", "sqrt_n", "prod", "max", "min"):
    _function = getattr(tf.math, f"unsorted_segment_{_name}")
    sample(f"unsorted_segment_{_name}", lambda x, f=_function: f(x, [2, 0, 2, 1], 3), distinct(4, 2))
    sample(f"unsorted_segment_{_name}, an empty one", lambda x, f=_function: f(x, UNSORTED, 4), distinct(4, 2))
    sample(f"unsorted_segment_{_name}, elements", lambda x, f=_function: f(x, [[2, 0], [1, 1]], 3), distinct(2, 2))
sample(
    "unsorted_segment_prod with a zero",
    lambda x: tf.math.unsorted_segment_prod(x * [0.0, 1.0, 1.0, 1.0], UNSORTED, 3),
    normal(4),
)
for _name in ("sum", "mean", "sqrt_n"):
    _function = getattr(tf.sparse, f"segment_{_name}")
    sample(f"sparse.segment_{_name}", lambda x, f=_function: f(x, [0, 2, 1, 2], SORTED), normal(3, 2))
    sample(f"sparse.segment_{_name}, a gap", lambda x, f=_function: f(x, [0, 2, 1, 2], GAPS), normal(3, 2))
    sample(
        f"sparse.segment_{_name}, num_segments",
        lambda x, f=_function: f(x, [0, 2, 1], [0, 0, 1], num_segments=4),
        normal(3, 2),
    )
    sample(
        f"sparse.segment_{_name}, as many segments",
        lambda x, f=_function: f(x, [0, 2, 1], [0, 0, 1], None, 2),
        normal(3, 2),
    )


def _ids():
    return tf.sparse.from_dense([[1, 0, 3], [2, 2, 0]])


for _combiner in ("sum", "mean", "sqrtn"):
    sample(
        f"embedding_lookup_sparse, {_combiner}",
        lambda x, c=_combiner: tf.nn.embedding_lookup_sparse(x, _ids(), None, combiner=c),
        normal(4, 2),
    )
    sample(
        f"embedding_lookup_sparse, {_combiner}, weights",
        lambda x, w, c=_combiner: tf.nn.embedding_lookup_sparse(x, _ids(), _ids().with_values(w), combiner=c),
        normal(4, 2),
        uniform(1, 2, 4),
    )
    sample(
        f"safe_embedding_lookup_sparse, {_combiner}",
        lambda x, c=_combiner: tf.nn.safe_embedding_lookup_sparse(x, _ids(), combiner=c),
        normal(4, 2),
    )
sample("scatter of a gather", lambda x: tf.scatter_nd([[0], [1]], tf.gather(x, [1, 1]), [3, 2]), normal(3, 2))
