"""Cases for ops that move rows: an example is a group of rows, scattered among those of others."""

import functools

import numpy as np
import tensorflow as tf

from tests.rules.case import Case, N
from tests.rules.elementwise_cases import positive

SEGMENT = tf.constant([2, 0, 1, 0, 2, 0, 1])  # of each row
ROWS = len(SEGMENT)
SORTED = tf.sort(SEGMENT)
SENDERS, RECEIVERS = tf.constant([1, 0, 3, 3, 6, 4]), tf.constant([5, 4, 1, 3, 2, 4])  # within a segment
KINDS = tf.constant([0, 1, 1, 0, 2, 2, 1])
ENTRIES = tf.cast(tf.stack([RECEIVERS, SENDERS], 1), tf.int64)


def by_segment(rows, ids=SEGMENT):
    return tf.math.unsorted_segment_sum(rows, ids, N)


def segmented(name):
    op = getattr(tf.raw_ops, name)
    if name.startswith("Unsorted"):
        dropping = tf.where(tf.range(ROWS) == 3, -1, SEGMENT)
        return lambda x: op(data=positive(x), segment_ids=dropping, num_segments=N)
    return lambda x: tf.ensure_shape(op(data=positive(x), segment_ids=SORTED), [N, 4])


NAMES = [f"{kind}Segment{name}" for kind in ("", "Unsorted") for name in ("Sum", "Prod", "Max", "Min")]


def messages(x):
    """From node to node along edges, twice."""
    for _ in range(2):
        sent = tf.gather(x, SENDERS) * tf.sin(tf.gather(x, RECEIVERS))
        x = tf.tanh(x + tf.math.unsorted_segment_sum(sent, RECEIVERS, ROWS))
    return by_segment(x)


def context(x):
    """What belongs to a whole segment goes to each of its rows."""
    return by_segment(x * tf.gather(tf.sin(by_segment(x)), SEGMENT))


def of_kinds(x, table):
    """A table that all rows share."""
    return by_segment(x * tf.gather(table, KINDS) * tf.sin(tf.gather(tf.identity(table), KINDS[::-1])))


def scattered(x):
    return tf.scatter_nd(SEGMENT[:, None], x**2, [N, 4])


def scattered_into(x):
    into = tf.tensor_scatter_nd_add(by_segment(x), SEGMENT[:, None], x**2)
    return tf.tensor_scatter_nd_sub(into, SEGMENT[:, None], tf.sin(x))


def picked(x):
    """Single rows, by index."""
    return tf.gather_nd(x**2, tf.constant([[5], [6], [0]])) * by_segment(
        tf.gather_nd(x, SENDERS[:, None]), tf.gather(SEGMENT, SENDERS)
    )


def adjacent(x, adjoint=False):
    """A sparse matrix from rows to rows."""
    values = tf.constant(np.arange(1.0, 7.0))
    product = tf.raw_ops.SparseTensorDenseMatMul(
        a_indices=ENTRIES[:, ::-1] if adjoint else ENTRIES,
        a_values=values,
        a_shape=tf.constant([ROWS, ROWS], tf.int64),
        b=x,
        adjoint_a=adjoint,
    )
    return by_segment(tf.ensure_shape(product, [ROWS, 4]) * x)


def below(x):
    """Edges and self loops below one another, and features side by side."""
    rows = tf.concat([tf.gather(x, SENDERS), tf.sin(x)], 0)
    ids = tf.concat([tf.gather(SEGMENT, SENDERS), SEGMENT], 0)
    return by_segment(tf.concat([rows, rows**2], 1), ids)


def pairs(x):
    """Two rows for each edge, side by side after a reshape."""
    both = tf.reshape(tf.gather(x, tf.reshape(tf.stack([SENDERS, RECEIVERS], 1), [-1])), [-1, 2, 4])
    return by_segment(both[:, 0] * tf.sin(both[:, 1]), tf.gather(SEGMENT, SENDERS))


def neighbours(x):
    """As many rows gathered for each."""
    near = tf.stack([tf.constant([4, 3, 6, 5, 0, 1, 2]), tf.range(ROWS)], 1)
    return by_segment(tf.reduce_prod(tf.gather(x, near), 1))


RowCase = functools.partial(Case, rows=ROWS)

APART = [
    *(RowCase(name, segmented(name)) for name in NAMES),
    RowCase("SegmentMean", segmented("SegmentMean")),
    RowCase("GatherV2", messages),
    RowCase("GatherV2 of segments", context),
    RowCase("GatherV2 of a table", of_kinds, variables=((3, 4),)),
    RowCase("GatherV2 of pairs", pairs),
    RowCase("GatherV2 of neighbours", neighbours),
    RowCase("ScatterNd", scattered),
    RowCase("TensorScatterAdd, TensorScatterSub", scattered_into),
    RowCase("GatherNd", picked),
    RowCase("SparseTensorDenseMatMul", adjacent),
    RowCase("SparseTensorDenseMatMul, adjoint", functools.partial(adjacent, adjoint=True)),
    RowCase("ConcatV2", below),
]


def looped(x):
    return by_segment(tf.while_loop(lambda k, h: k < 2, lambda k, h: (k + 1, tf.roll(h, 1, 0) * x), [0, x])[1])


def transposed(x):
    matrix = tf.SparseTensor(ENTRIES, np.ones(6), [ROWS, ROWS])
    return by_segment(tf.sparse.sparse_dense_matmul(matrix, tf.transpose(x), adjoint_b=True))


MIXING = [
    RowCase("While", looped),
    RowCase("If", lambda x: by_segment(tf.cond(tf.reduce_sum(x) < 1e9, lambda: tf.roll(x, 1, 0), lambda: x))),
    RowCase(
        "Case",
        lambda x: by_segment(tf.switch_case(tf.argmax(x[0], output_type=tf.int32), [lambda: tf.roll(x, 1, 0)] * 4)),
    ),
    RowCase("ConcatV2", lambda x: by_segment(tf.concat([x[1:], x[:1]], 0))),
    RowCase(
        "SegmentSum behind",
        lambda x: tf.transpose(
            tf.math.unsorted_segment_sum(tf.transpose(by_segment(tf.roll(x, 1, 0))), [0, 1, 2, 3], 4)
        ),
    ),
]
"""Rows that go from segment to segment, or may."""
