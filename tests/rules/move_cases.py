"""Cases for ops that move elements, read and write by index, or multiply."""

import numpy as np
import tensorflow as tf

from tests.rules.case import Case, N, behind, last
from tests.rules.layer_cases import constant

FOUR = np.arange(1.0, 5.0)


def merged(function):
    """The function of rows `[n · 2, 4]`, the examples outermost, of examples `[2, 4]`."""
    return lambda x, *v: tf.reshape(function(tf.reshape(x, [-1, 4]), *v), [N, 2, -1])


def merged_inside(function):
    """The function of rows `[2 · n, 4]`, the examples innermost."""

    def rows(x, *v):
        y = function(tf.reshape(tf.transpose(x, [1, 0, 2]), [-1, 4]), *v)
        return tf.transpose(tf.reshape(y, [2, N, -1]), [1, 0, 2])

    return rows


def strided(x):
    return (
        x[:, 1:, None, ::2]
        + x[..., 1:3, None, 0][:, :1, :, None] * x[:, 1, None, None, :2]
        + x[:, -1][:, None, None, 2:]
    )


def overruled(x):
    """A slice of all rows, though its bounds say otherwise."""
    bounds = {"begin": [1, 1], "end": [0, 3], "strides": [1, 1]}
    return tf.raw_ops.StridedSlice(input=tf.sin(x), **bounds, begin_mask=1, end_mask=1)


def put_back(x, shape, begin, end, strides, begin_from=0, end_to=0, **masks):
    """The transpose of a slice."""
    masks = {"begin_mask": begin_from, "end_mask": end_to, **masks}
    return tf.raw_ops.StridedSliceGrad(shape=shape, begin=begin, end=end, strides=strides, dy=x, **masks)


def slice_gradient_under_xla(x):
    return tf.recompute_grad(lambda u: tf.slice(u, [0, 1], [-1, 2]))(x)


def sum_undoing_a_broadcast(x):
    """The gradient of a row that all positions share; x is `[positions, n, 4]`."""
    with tf.GradientTape() as tape:
        row = tf.exp(x[0])
        tape.watch(row)
        y = tf.sin(x) * row
    return tape.gradient(y, row)[None]


def from_the_end(x):
    """Axes that are counted from the end, behind that of the examples, which run along the last of x."""
    y = tf.squeeze(tf.expand_dims(x, -1) ** 2, -1)
    both = tf.unstack(tf.stack([tf.squeeze(y[None], -3), tf.sin(x)], -1), axis=-1)
    return tf.concat([both[0] * both[1], tf.split(x, 2, axis=-2)[1]], -2)


def gathered_from_the_end(x):
    return tf.reduce_prod(tf.gather(x, [[0, 1, 1], [2, 3, 0]], axis=-1), 1)


def gathered_in_batches(x, tables):
    """From one table for each position, by indices of examples; and from positions by batches of indices."""
    rows = tf.gather(tables, [[2, 0, 1], [1, 1, 4]], axis=1, batch_dims=1)  # [2, n]
    columns = tf.gather(tf.transpose(x, [1, 2, 0]), [[0, 1], [2, 3]], axis=1, batch_dims=1)  # [2, 2, n]
    return tf.transpose(columns * rows[:, None], [2, 0, 1])


ROWS_OF_EXAMPLES = tf.constant([[2, 0], [1, 1], [0, 3]])


def gathered(x, table):
    columns = tf.gather(x, [0, 2, 2], axis=1)
    each = tf.gather(x, ROWS_OF_EXAMPLES, axis=1, batch_dims=1)
    return tf.concat([columns * each[:, :1], tf.gather(table, [1, 4, 0]) * x], 1)


def looked_up(x, table):
    return tf.nn.embedding_lookup(table, ROWS_OF_EXAMPLES) * x[:, None]


def looked_up_behind(x, table):
    rows = tf.nn.embedding_lookup(table, tf.transpose(ROWS_OF_EXAMPLES))  # [2, n, 4]
    return tf.transpose(rows, [1, 0, 2]) * x[:, None]


def blocks_of_blocks(x):
    """Positions moved into the batch twice, and back."""
    y = tf.space_to_batch(tf.space_to_batch(x[..., None], [2], [[0, 0]]), [2], [[0, 0]])  # [4 · n, 1, 1]
    return tf.batch_to_space(tf.batch_to_space(y**2, [2], [[0, 0]]), [2], [[0, 0]])


def scattered(name):
    op = getattr(tf, "tensor_scatter_nd_" + name)
    return behind(lambda x: op(x, [[1], [0]], tf.sin(x[2:])))


def sparse(values):
    return tf.SparseTensor([[0, 1], [2, 3]], values, [N, 4])


def sparse_rows(adjoint_a=False, adjoint_b=False):
    """A sparse matrix of examples times a dense weight."""
    entries = [[0, 0], [0, 3], [1, 1], [2, 3], [2, 1]]
    entries = [entry[::-1] for entry in entries] if adjoint_a else entries
    shape = [4, N] if adjoint_a else [N, 4]

    def multiply(x, weight):
        weight = tf.transpose(weight) if adjoint_b else weight
        product = tf.raw_ops.SparseTensorDenseMatMul(
            a_indices=tf.constant(entries, tf.int64), a_values=tf.constant([1.0, -2.0, 0.5, 3.0, 1.5], x.dtype),
            a_shape=tf.constant(shape, tf.int64), b=weight, adjoint_a=adjoint_a, adjoint_b=adjoint_b,
        )  # fmt: skip
        return tf.ensure_shape(product, [N, 4]) * x

    return multiply


def sparse_columns(adjoint_b):
    matrix = tf.SparseTensor([[0, 1], [1, 0], [4, 3]], np.array([1.0, 2.0, -1.0]), [5, 4])

    def multiply(x):
        dense = x if adjoint_b else tf.transpose(x)
        return tf.transpose(tf.sparse.sparse_dense_matmul(matrix, dense, adjoint_b=adjoint_b))

    return multiply


def batch_matmul(name):
    op, matrix = batched(name), constant(N, 4, 2)
    return lambda x: op(x, tf.constant(matrix)) + op(x, x[:, :, :2], adj_x=True)[:, :2]


def batched(name):
    op = getattr(tf.raw_ops, name)
    output = {"Tout": tf.float64} if name.endswith("V3") else {}
    return lambda x, y, **options: op(x=x, y=y, **options, **output)


MATRIX, LEFT = constant(4, 2), constant(2, 4)


def rows_of_open_width(x):
    """Rows `[2 · n, 4]`, whose width the matrix alone tells."""
    rows = tf.reshape(tf.transpose(x, [1, 0, 2, 3]), [2 * tf.shape(x)[0], -1])
    product = tf.reshape(rows @ MATRIX, [2, -1, 2]) * tf.reshape(
        tf.matmul(rows, MATRIX.T, transpose_b=True), [2, -1, 2]
    )
    return tf.transpose(product, [1, 0, 2])


def columns_of_open_height(x):
    """Columns `[4, n]`, whose height the matrix alone tells."""
    columns = tf.reshape(tf.transpose(x, [1, 2, 0]), [-1, tf.shape(x)[0]])
    return tf.transpose((LEFT @ columns) * tf.matmul(LEFT.T, columns, transpose_a=True))


def moved_about(x):
    """Axes of size one, any of which could be that of the one example."""
    y = tf.squeeze(tf.expand_dims(tf.expand_dims(x, 0) ** 2, 2), [0])  # [1, 1, 4]
    return tf.reshape(tf.tile(tf.reshape(y, [1, 4, 1]), [1, 1, 2]), [1, 1, 8])


ALONE = {
    "one row for all": lambda x, w: x * w + x,
    "moved about": lambda x, w: moved_about(x) * tf.tile(w, [1, 2]),
    "repeated": lambda x, w: tf.tile(x[None], [2, 1, 1])[1] * tf.broadcast_to(w, [1, 4]),
    "columns": lambda x, w: tf.transpose(tf.matmul(tf.ones([3, 4], x.dtype), x * w, transpose_b=True)),
    "products": lambda x, w: tf.einsum("...i,...i->...", x, w)[:, None] * tf.matmul(x[:, None], w[:, :, None])[:, 0],
}
"""Of one example, with a weight `[1, 4]` that is not its own."""

APART = [
    *(Case("one example, " + name, function, variables=((1, 4),), rows=1) for name, function in ALONE.items()),
    Case("Reshape", lambda x: tf.reshape(tf.reshape(x, [N * 4, 1]), [N, 2, 2])),
    Case("Reshape behind", behind(lambda x: tf.reshape(tf.reshape(x, [2 * N, 4]), [2, N, 2, 2])), (2, 4)),
    Case("ExpandDims, Squeeze", lambda x: tf.squeeze(tf.expand_dims(x, 1) ** 2, 1)),
    Case("ExpandDims, Squeeze behind", behind(lambda x: tf.squeeze(tf.expand_dims(x, 1) ** 2, 1)), (2, 4)),
    Case("Reshape of a sum that undoes a broadcast", behind(sum_undoing_a_broadcast), (2, 4), open=True),
    Case("axes from the end", last(from_the_end)),
    Case("Squeeze of all axes of size one", lambda x: tf.squeeze(tf.sin(x)[:, None, :, None])),
    Case("Squeeze of all axes of size one behind", last(lambda x: tf.squeeze(tf.sin(x)[None]))),
    Case("Transpose", lambda x: tf.transpose(tf.transpose(x, [2, 0, 1]) ** 2, [1, 2, 0]), (2, 4)),
    Case(
        "ConjugateTranspose",
        lambda x: tf.math.imag(
            tf.transpose(tf.transpose(tf.complex(x, x * x), [1, 0], conjugate=True) ** 2, [1, 0], conjugate=True)
        ),
    ),
    Case("Pad", lambda x: tf.pad(x, [[0, 0], [1, 2]])),
    Case("PadV2", lambda x: tf.pad(x, [[0, 0], [1, 2]], constant_values=3.0)),
    Case("MirrorPad", lambda x: tf.pad(x, [[0, 0], [1, 2]], "REFLECT")),
    Case(
        "Pads behind",
        behind(
            lambda x: tf.pad(
                tf.pad(tf.pad(x, [[1, 0], [0, 0], [0, 0]]), [[0, 0], [0, 0], [1, 0]], "SYMMETRIC"),
                [[0, 1], [0, 0], [0, 0]],
                constant_values=2.0,
            )
        ),
        (2, 4),
    ),
    Case("Tile", lambda x, w: tf.tile(x, [1, 2]) * tf.tile(w, [N, 2]), variables=((1, 4),)),
    Case("Tile of what all share, open", lambda x, w: x * tf.tile(w, [tf.shape(x)[0], 1]), (4,), ((1, 4),), open=True),
    Case("Tile by an open number", lambda x: tf.ensure_shape(tf.tile(x, [1, tf.shape(x)[0]]), [None, 12]), open=True),
    Case("Tile behind", behind(lambda x: tf.tile(x, [2, 1, 3])), (2, 4)),
    Case("ConcatV2", lambda x: tf.concat([x, x * x], -1)),
    Case("ConcatV2 behind", behind(lambda x: tf.concat([x, x * x], 0)), (2, 4)),
    Case("Pack", lambda x: tf.stack([x, x * x], 2)),
    Case("Pack in front", lambda x: tf.transpose(tf.stack([x, x * x]), [1, 0, 2])),
    Case("Unpack", lambda x: tf.stack([u * k for k, u in enumerate(tf.unstack(x, axis=1))], 1)),
    Case("Unpack in front", behind(lambda x: tf.stack([u * (k + 1) for k, u in enumerate(tf.unstack(x))])), (2, 4)),
    Case("Unpack behind", behind(lambda x: tf.stack(tf.unstack(x**2), 1), 2), (2, 2, 4)),
    Case("Split", lambda x: tf.split(x, 2, axis=1)[0] * tf.split(x, 2, axis=1)[1]),
    Case("SplitV", lambda x: tf.split(x, [1, 3], axis=1)[0] * tf.split(x, [1, 3], axis=1)[1]),
    Case("Splits behind", behind(lambda x: tf.split(x, 2)[0] * tf.split(x, [1, 1])[1]), (2, 4)),
    Case("Slice", lambda x: tf.slice(x, [0, 1], [-1, 2]) * tf.slice(x, [0, 2], [N, 2])),
    Case("Slice behind", behind(lambda x: tf.slice(x, [1, 0, 1], [1, N, 3])), (2, 4)),
    Case("StridedSlice", strided, (2, 4)),
    Case("StridedSlice behind", behind(lambda x: x[1:, :, ::-1] * x[0, ..., 1:2]), (2, 4)),
    Case("StridedSlice of masks that overrule bounds", overruled),
    Case(
        "StridedSlice to the last example",
        lambda x: tf.strided_slice(x, [0, 1], [N, 3]) * tf.strided_slice(x, [0, 2], [9, 4]),
    ),
    Case("StridedSliceGrad", lambda x: put_back(x, [N, 5, 9], [0, 1, 0], [N, 5, 8], [1, 2, 2], 1, 1), (2, 4)),
    Case("StridedSliceGrad behind", behind(lambda x: put_back(x, [5, N, 4], [2, 0], [4, N], [1, 1], 0, 2)), (2, 4)),
    Case("StridedSliceGrad of the first axis", behind(lambda x: put_back(x, [5, N, 4], [2], [4], [1])), (2, 4)),
    Case(
        "StridedSliceGrad of a new axis",
        lambda x: put_back(tf.sin(x)[None], [N, 4], [0, 0], [0, 0], [1, 1], 2, 2, new_axis_mask=1),
    ),
    Case("XlaDynamicUpdateSlice", slice_gradient_under_xla, jit=True),
    Case(
        "XlaDynamicUpdateSlice behind",
        behind(tf.recompute_grad(lambda u: tf.slice(u, [1, 0, 1], [1, -1, 2]))),
        (2, 4),
        jit=True,
    ),
    Case("GatherV2", gathered, variables=((5, 4),)),
    Case(
        "GatherV2 behind",
        behind(lambda x: tf.gather(x, [1, 0, 1]) * tf.gather(x, [[0, 3]], axis=2)[:1, :, 0, :1]),
        (2, 4),
    ),
    Case("GatherV2 behind, by pairs", behind(lambda x: tf.gather(tf.sin(x), [[0, 1]])[0]), (2, 4)),
    Case("GatherV2 from the end", gathered_from_the_end),
    Case("GatherV2 in batches", gathered_in_batches, (2, 4), ((2, 5),), refused=True),
    Case("ResourceGather", looked_up, variables=((4, 4),)),
    Case("ResourceGather behind", looked_up_behind, variables=((4, 4),)),
    Case(
        "SpaceToBatchND, BatchToSpaceND",
        lambda x: tf.batch_to_space(tf.space_to_batch(x[..., None], [2], [[1, 1]])[:, :2] ** 2, [2], [[0, 1]]),
    ),
    Case("blocks of blocks", blocks_of_blocks),
    Case("GatherNd", lambda x: tf.gather_nd(x, tf.stack([tf.range(tf.shape(x)[0]), [1, 3, 1]], 1))[:, None]),
    Case("GatherNd, the last axis", lambda x: tf.gather_nd(x, tf.stack([tf.range(N), [1, 3, 1]], -1))[:, None]),
    Case(
        "GatherNd of a table",
        lambda x, w: tf.gather_nd(w, [[1, 2], [0, 0], [4, 1]])[:, None] * x,
        variables=((5, 4),),
        refused=True,
    ),
    Case(
        "GatherNd of positions behind",
        behind(lambda x: tf.reduce_sum(tf.gather_nd(x, [[[1], [0]], [[1], [1]]]), 0)),
        (2, 4),
    ),
    Case(
        "GatherNd of rows",
        lambda x, w: tf.gather_nd(tf.identity(w), [[[0], [3]], [[2], [2]], [[1], [4]]]) * x[:, None],
        variables=((5, 4),),
    ),
    Case("GatherNd behind", behind(lambda x: tf.gather_nd(x, [[1], [0], [1], [1]])), (2, 4)),
    Case("ScatterNd", behind(lambda x: tf.scatter_nd([[4], [0], [2], [4]], tf.tile(x, [2, 1, 1]), [6, N, 4])), (2, 4)),
    *(Case("TensorScatter" + name, scattered(name.lower()), (4, 4)) for name in ("Add", "Sub", "Update", "Max", "Min")),
    Case(
        "ScatterNd of positions",
        behind(lambda x: tf.scatter_nd([[[4], [0]], [[2], [4]]], tf.stack([x, tf.sin(x)]), [6, N, 4])),
        (2, 4),
    ),
    Case("ReverseSequence", lambda x: tf.reverse_sequence(x, [2, 1, 4], seq_axis=1, batch_axis=0) * x),
    Case(
        "ReverseSequence behind",
        behind(lambda x: tf.reverse_sequence(x, [2] * 4, seq_axis=0, batch_axis=2) * x),
        (2, 4),
    ),
    Case("MatMul", lambda x: x @ MATRIX),
    Case("MatMul, rows of examples", merged(lambda x: x @ MATRIX), (2, 4)),
    Case(
        "MatMul, rows among examples", merged_inside(lambda x: tf.transpose(tf.matmul(MATRIX, x, True, True))), (2, 4)
    ),
    Case("MatMul behind", last(lambda x: LEFT @ x)),
    *(Case(name, batch_matmul(name), (2, 4)) for name in ("BatchMatMul", "BatchMatMulV2", "BatchMatMulV3")),
    *(
        Case(name + " behind", behind(lambda x, name=name: batched(name)(x, tf.constant(constant(2, 4, 2)))), (2, 4))
        for name in ("BatchMatMul", "BatchMatMulV2", "BatchMatMulV3")
    ),
    Case("MatMul of columns, transposed", lambda x: tf.matmul(tf.transpose(x), MATRIX, transpose_a=True)),
    Case(
        "BatchMatMul of columns, transposed",
        lambda x: tf.transpose(tf.matmul(tf.transpose(x, [1, 2, 0]), constant(2, 4, 5), transpose_a=True), [1, 0, 2]),
        (2, 4),
    ),
    Case("MatMul of an open axis", rows_of_open_width, (2, 2, 2), open=True),
    Case("MatMul of an open axis behind", columns_of_open_height, (2, 2), open=True),
    Case("BatchMatMul of columns", last(lambda x: tf.matmul(constant(2, 5, 4), x)), (2, 4)),
    Case("BatchMatMul of one matrix for all", lambda x, w: tf.matmul(w, x), (4, 2), ((1, 5, 4),)),
    Case(
        "Einsum",
        lambda x: tf.einsum("nij,nik->nkj", x, tf.sin(x)) + tf.einsum("nij,jk->nk", x, constant(4, 4))[:, None],
        (2, 4),
    ),
    Case("Einsum of an ellipsis", lambda x, w: tf.einsum("...i,...i->...", x, w), (2, 4), ((1, 2, 4),)),
    Case("Einsum of columns", lambda x: tf.einsum("in,ik->nk", tf.transpose(x), MATRIX)),
    Case(
        "Einsum of a row",
        lambda x, w: tf.einsum("...i,...i->...", x, w * tf.cast(tf.shape(x)[None, :1], x.dtype)),
        variables=((4,),),
        open=True,
    ),
    Case("Einsum behind", behind(lambda x: tf.einsum("jni,ik->jnk", x, MATRIX)), (2, 4)),
    Case("SparseTensorDenseAdd", lambda x, w: tf.sparse.add(sparse(w), x) * x, variables=((2,),), refused=True),
    Case(
        "SparseToDense, SparseDenseCwiseDiv",
        lambda x, w: tf.sparse.to_dense(sparse(w[:2]) / (3 + tf.abs(w))) * x,
        variables=((4,),),
        refused=True,
    ),
    Case("SparseTensorDenseMatMul", sparse_rows(), variables=((4, 4),)),
    Case("SparseTensorDenseMatMul, adjoint", sparse_rows(True), variables=((4, 4),)),
    Case("SparseTensorDenseMatMul, adjoint weight", sparse_rows(False, True), variables=((4, 4),)),
    Case("SparseTensorDenseMatMul of columns", sparse_columns(False)),
    Case("SparseTensorDenseMatMul of rows as columns", sparse_columns(True)),
]
