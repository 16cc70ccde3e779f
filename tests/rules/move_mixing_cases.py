"""Cases for ops that move elements, read or write by index, or multiply, where they combine examples."""

import numpy as np
import tensorflow as tf

from tests.rules.case import Case, N
from tests.rules.move_cases import put_back


def by_index(op):
    return lambda x: op(x, [[1], [2]], x[:2])


def unknown_zero(x):
    """Zero, which the graph does not fix."""
    return tf.cast(x[0, 0] > 1e9, tf.int32)


def swapped(x):
    """The permutation [1, 0], which the graph does not fix."""
    return tf.stack([1 + unknown_zero(x), unknown_zero(x)])


def twice(x):
    return tf.concat([x, x * x], 0)


def rotated(x):
    """The examples one further on."""
    return tf.concat([x[1:], x[:1]], 0)


def of_columns(y):
    """Four columns, which the graph would know if nothing in it were unknown."""
    return tf.ensure_shape(y, [None, 4])


def counted(x, rows):
    """One entry of each of the rows that are named."""
    return tf.gather_nd(x, tf.stack([rows, tf.constant([1, 1, 0])], 1))[:, None]


def counted_across(x):
    """Three entries of different examples, the places of each one below the other."""
    return tf.gather_nd(x, tf.stack([tf.range(N), tf.constant([2, 0, 1]), tf.constant([1, 1, 0])]))[:, None]


def along_different_axes(x):
    first, second = tf.unstack(x, axis=1)
    return first + tf.transpose(second)


OTHER_ROWS = {
    "Pad in front": lambda x: tf.pad(x, [[1, 0], [0, 0]]),
    "MirrorPad behind": lambda x: tf.pad(x, [[0, 1], [0, 0]], "SYMMETRIC"),
    "Tile of examples": lambda x: tf.tile(x, [2, 1]),
    "ConcatV2 of all": lambda x: tf.concat([x, x * x], 0),
    "ConcatV2 of all, from the end": lambda x: tf.concat([x, x * x], -2),
    "Split in threes": lambda x: tf.split(x, 3)[1],
    "Split in threes, from the end": lambda x: tf.split(x, 3, axis=-2)[1],
    "Slice from the second": lambda x: tf.slice(x, [1, 0], [-1, 4]),
    "Slice of two": lambda x: tf.slice(x, [0, 0], [2, 4]) * x[1:2],
    "Slice from the second, of two": lambda x: tf.slice(x, [1, 0], [2, 4]),
    "StridedSlice from the second": lambda x: x[1:],
    "StridedSlice to the second": lambda x: x[:2][1:],
    "StridedSlice of every other": lambda x: x[::2],
    "StridedSlice backwards": lambda x: x[::-1],
    "StridedSlice from an unknown row": lambda x: of_columns(tf.strided_slice(x, [1 + unknown_zero(x), 0], [3, 4])),
    "StridedSliceGrad to the second": lambda x: put_back(x, [4, 4], [1, 0], [4, 4], [1, 1]),
    "Pad of unknown size": lambda x: of_columns(tf.pad(x, [[1 + unknown_zero(x), 0], [0, 0]])),
    "Tile by unknown numbers": lambda x: of_columns(tf.tile(x, [2, 1] + unknown_zero(x))),
    "ConcatV2 along an unknown axis": lambda x: of_columns(tf.concat([x, x * x], unknown_zero(x))),
    "Split along an unknown axis": lambda x: of_columns(tf.split(x, 3, unknown_zero(x))[1]),
}
"""Of open size too, where that there are more rows or fewer is not seen."""

MIXING = [
    *(Case(name, function) for name, function in OTHER_ROWS.items()),
    *(Case(name + ", open", function, open=True) for name, function in OTHER_ROWS.items()),
    Case("Reshape", lambda x: tf.reshape(tf.transpose(x), [N, 4])),
    Case("Transpose", lambda x: tf.ensure_shape(tf.transpose(x, swapped(x)), [N, N]), (N,)),
    Case(
        "ConjugateTranspose",
        lambda x: tf.ensure_shape(tf.math.imag(tf.transpose(tf.complex(x, x * x), swapped(x), conjugate=True)), [N, N]),
        (N,),
    ),
    Case("Pad", lambda x: tf.pad(x[:2], [[1, 0], [0, 0]])),
    Case("PadV2", lambda x: tf.pad(x[:2], [[1, 0], [0, 0]], constant_values=1.0)),
    Case("MirrorPad", lambda x: tf.raw_ops.MirrorPad(input=x[:2], paddings=[[1, 0], [0, 0]], mode="REFLECT")),
    Case("Tile", lambda x: tf.reshape(tf.tile(x, [2, 1]), [N, 8])),
    Case("ConcatV2", rotated),
    Case("Pack", lambda x: tf.stack([x[1], x[2], x[0]])),
    Case("Split", lambda x: tf.split(tf.concat([x[1:], x, x[:1]], 0), 2)[0]),
    Case("Unpack along different axes", along_different_axes, (2, N)),
    Case("SplitV", lambda x: tf.split(twice(x), [2, 3, 1])[1]),
    Case("Slice", lambda x: tf.slice(twice(x), [1, 0], [N, 4])),
    Case("StridedSlice", lambda x: twice(x)[1:4]),
    Case(
        "StridedSlice to an unknown row",
        lambda x: tf.ensure_shape(tf.strided_slice(rotated(x), [0, 0], [N + unknown_zero(x), 4]), [N, 4]),
    ),
    Case("StridedSliceGrad", lambda x: put_back(x[:2], [N, 4], [1, 0], [N, 4], [1, 1])),
    Case("GatherV2", lambda x: tf.ensure_shape(tf.gather(x, [1, 2, 0], axis=unknown_zero(x)), [N, 4])),
    Case("SpaceToBatchND", lambda x: tf.reshape(tf.space_to_batch(rotated(x)[None], [3], [[0, 0]]), [N, 4])),
    Case("BatchToSpaceND", lambda x: tf.reshape(tf.batch_to_space(x[..., None], [3], [[0, 0]]), [N, 4])),
    Case(
        "GatherNd",
        lambda x: tf.ensure_shape(
            tf.gather_nd(x, tf.strided_slice([[1, 1], [0, 2], [2, 0]], [0, 0], [3, 1 + unknown_zero(x)])), [N, 4]
        ),
    ),
    Case("GatherNd, counted backwards", lambda x: counted(x, tf.range(N - 1, -1, -1))),
    Case("GatherNd, not counted", lambda x: counted(x, tf.constant([1, 2, 0]))),
    Case("GatherNd, counted along the other axis", counted_across, (N, N)),
    Case(
        "ScatterNd of unknown depth",
        lambda x: tf.ensure_shape(
            tf.scatter_nd(tf.strided_slice([[1, 0], [2, 0], [0, 0]], [0, 0], [3, 1 + unknown_zero(x)]), x, [N, 4]),
            [N, 4],
        ),
    ),
    Case("ScatterNd", lambda x: tf.scatter_nd([[1], [2], [0]], x, [N, 4])),
    Case("TensorScatterAdd", by_index(tf.tensor_scatter_nd_add)),
    Case("TensorScatterSub", by_index(tf.tensor_scatter_nd_sub)),
    Case("TensorScatterUpdate", by_index(tf.tensor_scatter_nd_update)),
    Case("TensorScatterMax", by_index(tf.tensor_scatter_nd_max)),
    Case("TensorScatterMin", by_index(tf.tensor_scatter_nd_min)),
    Case("ReverseSequence", lambda x: tf.reverse_sequence(x, [3] * 4, seq_axis=0, batch_axis=1)),
    Case(
        "XlaDynamicUpdateSlice",
        lambda x: tf.recompute_grad(lambda u: tf.concat([tf.slice(u, [1, 0], [2, 4]), u[:1]], 0))(x),
        jit=True,
    ),
    Case(
        "Einsum",
        lambda x: tf.einsum(
            "nn,ni->ni", tf.linalg.matrix_transpose(tf.matmul(x, tf.reduce_sum(x, 0)[None] * x, transpose_b=True)), x
        ),
    ),
    Case(
        "SparseTensorDenseMatMul",
        lambda x: tf.sparse.sparse_dense_matmul(tf.SparseTensor([[0, 1], [1, 0], [2, 2]], np.ones(3), [N, N]), x),
    ),
]
