"""Sizes that the trace leaves open, told apart by name, held to what they are when the graph runs."""

import itertools

import numpy as np
import pytest
import tensorflow as tf

from tfjac.graph.op_facts.reshaping import permutation_of
from tfjac.graph.reading.symbolic_sizes import Size, SymbolicSizes, product

A, B = (Size(open=frozenset([(name, 1)])) for name in "ab")


def test_products_and_quotients():
    assert A * B == B * A
    assert product([Size(2), A, B, Size(3)]) == Size(6) * B * A
    assert (Size(6) * A * A * B).over(Size(2) * A) == Size(3) * A * B
    assert A.over(A) == Size()


@pytest.mark.parametrize("total, part", [(A, B), (A, A * A), (Size(6) * A, Size(4)), (Size(6), Size(0)), (Size(2), A)])
def test_quotients_that_are_not_whole(total, part):
    assert total.over(part) is None


def shuffled(x):
    """Rows and columns swapped by a reshape where one of the two axes has size 1, as the vectoriser does it."""
    return reshaped_as_swapped(x, unless(one_is(1, x)))


def reshaped_as_swapped(x, permutation):
    return tf.reshape(tf.transpose(x, permutation), [tf.shape(x)[1], tf.shape(x)[0], 3])


def rows(x):
    return tf.reshape(x, [tf.shape(x)[0], -1])


def overruled(vector):
    return tf.raw_ops.StridedSlice(input=vector, begin=[1], end=[1], strides=[1], begin_mask=1, end_mask=1)


WRITTEN = {
    "elementwise": lambda x: tf.sin(x) * x + tf.constant([1.0, 2.0, 3.0], x.dtype),
    "merged": lambda x: tf.reshape(x, [-1, 3]),
    "merged and split": lambda x: tf.reshape(tf.reshape(x, [-1]), [tf.shape(x)[0], -1, 3]),
    "merged by a product": lambda x: tf.reshape(x, tf.stack([tf.shape(x)[0] * tf.shape(x)[1], 3])),
    "merged by a product of all": lambda x: tf.reshape(x, [tf.reduce_prod(tf.shape(x)[:2]), 3]),
    "split by a quotient": lambda x: tf.reshape(tf.reshape(x, [-1]), [tf.size(x) // (3 * tf.shape(x)[1]), -1, 3]),
    "transposed": lambda x: tf.transpose(x, [2, 0, 1]),
    "swapped": shuffled,
    "reduced": lambda x: tf.reduce_sum(x, 1),
    "reduced, kept": lambda x: tf.reduce_max(x, 0, keepdims=True),
    "tiled": lambda x: tf.tile(x, tf.concat([[1], tf.shape(x)[:1], [2]], 0)),
    "filled": lambda x: tf.fill(tf.shape(x)[1:], 2.0),
    "broadcast": lambda x: tf.broadcast_to(x[0, 0, 0], tf.stack([tf.shape(x)[1], 2, tf.shape(x)[0]])),
    "product of matrices": lambda x: (
        tf.reshape(x, [tf.shape(x)[0], -1]) @ tf.transpose(tf.reshape(x, [tf.shape(x)[0], -1]))
    ),
    "expanded": lambda x: tf.expand_dims(x, 1),
    "expanded at the end": lambda x: tf.expand_dims(tf.transpose(x, [2, 0, 1]), -1),
    "reduced and expanded": lambda x: tf.expand_dims(tf.transpose(tf.reduce_sum(x, 2, keepdims=True), [2, 0, 1]), 1),
    "the shape of what is transposed": lambda x: tf.fill(tf.shape(tf.transpose(x, [2, 0, 1])), 1.0),
    "transposed by a choice that is read": lambda x: tf.transpose(x, tf.where([True], [2, 0, 1], [0, 1, 2])),
    "half of a shape": lambda x: tf.fill(tf.split(tf.concat([[5, 2], tf.shape(x)[:2]], 0), 2)[1], 1.0),
    "a slice whose bounds are overruled": lambda x: tf.fill(overruled(tf.shape(x)), 1.0),
    "reduced, from the end": lambda x: tf.reduce_sum(x, -2),
    "reduced, several": lambda x: tf.reduce_sum(x, [0, 2]),
    "largest of one": lambda x: tf.reshape(x, [tf.reduce_max(tf.stack([tf.shape(x)[0]] * 2)), -1]),
    "ones": lambda x: tf.reshape(x, tf.concat([tf.raw_ops.OnesLike(x=tf.shape(x)[:2]), [-1]], 0)),
    "a split shape": lambda x: tf.reshape(x, tf.concat(tf.split(tf.shape(x), 3)[::-1], 0)),
    "an unpacked shape": lambda x: tf.reshape(x, tf.stack(tf.unstack(tf.shape(x))[::-1])),
    "the last sizes": lambda x: tf.fill(tf.shape(x)[-2:], 1.0),
    "all but the first": lambda x: tf.fill(tf.shape(x)[1:], 1.0),
    "all sizes": lambda x: tf.fill(tf.shape(x)[...], 1.0),
    "every other size": lambda x: tf.fill(tf.shape(x)[::2], 1.0),
    "a size of its own axis": lambda x: tf.reshape(x, tf.stack([tf.squeeze(tf.shape(x)[1:2]), -1])),
    "cast": lambda x: tf.fill(tf.cast(tf.cast(tf.shape(x), tf.int64), tf.int32), 1.0),
    "pooled": lambda x: tf.nn.max_pool2d(tf.reshape(x, [-1, 3, 1, 1]), 1, 1, "SAME"),
    "softmax": lambda x: tf.nn.log_softmax(x),
    "gradient": lambda x: tf.gradients(tf.sigmoid(x), x)[0],
    "products of each": lambda x: tf.fill(tf.shape(x) * tf.stack([tf.shape(x)[1], 1, 2]), 1.0),
    "transposed products": lambda x: tf.matmul(rows(x), rows(x), transpose_a=True),
    "other transposed products": lambda x: tf.matmul(rows(x), rows(x), transpose_b=True),
    "several identities": lambda x: tf.raw_ops.IdentityN(input=[x[0], x])[1],
    "rows in order": lambda x: tf.gather(x, tf.range(tf.shape(x)[0])),
    "columns by index": lambda x: tf.gather(x, tf.zeros(tf.shape(x)[:2], tf.int32), axis=-2),
    "split from the end": lambda x: tf.reshape(x, tf.concat([tf.shape(x)[-2:], tf.shape(x)[:1]], 0)),
}


def sizes_of(x):
    return tf.shape(x)[0], tf.shape(x)[1]


def of_rank(rank, x):
    x.set_shape([None] * rank)
    return x


def forgotten(x):
    return tf.compat.v1.placeholder_with_default(x, None)


def channel_means(images):
    vectors = {name: tf.ones(tf.shape(images)[-1:]) for name in ("scale", "offset")}
    return tf.raw_ops.FusedBatchNormV3(x=tf.cast(images, tf.float32), **vectors, mean=[], variance=[]).batch_mean


def one_is(size, x):
    return tf.equal(tf.minimum(*sizes_of(x)), size)


def unless(left):
    return tf.where(left, [0, 1, 2], [1, 0, 2])


MISLEADING = {
    "the larger": lambda x, c: tf.fill([tf.reduce_max(tf.shape(x))], 1.0),
    "a difference": lambda x, c: tf.fill([tf.shape(x)[0] + 1 - tf.shape(x)[1] // 9], 1.0),
    "a quotient that is not whole": lambda x, c: tf.fill([tf.shape(x)[0] // 2], 1.0),
    "a quotient of two": lambda x, c: tf.fill([tf.shape(x)[0] // tf.shape(x)[1]], 1.0),
    "masked": lambda x, c: tf.boolean_mask(x, tf.sequence_mask(tf.shape(x)[0] - 1, tf.shape(x)[0])),
    "a slice": lambda x, c: x[1:],
    "padded": lambda x, c: tf.pad(x, [[1, 0], [0, 2], [0, 0]]),
    "joined": lambda x, c: tf.concat([x, x[:1]], 0),
    "sizes that are chosen": lambda x, c: tf.fill(tf.where(c, tf.shape(x), [2, 3, 4]), 1.0),
    "tiled by what is not read": lambda x, c: tf.tile(x, tf.stack([tf.where(c, 2, 3), 1, 1])),
    "reduced along an axis that is not read": lambda x, c: tf.reduce_sum(x, tf.where(c, 0, 1), keepdims=True),
    "expanded at an axis that is not read": lambda x, c: of_rank(4, tf.expand_dims(x, tf.where(c, 0, 1))),
    "a size at a place that is not read": lambda x, c: tf.fill([tf.shape(x)[tf.where(c, 0, 1)]], 1.0),
    "broadcast of what may be one": lambda x, c: tf.reduce_sum(x, 0)[:, None] + tf.reduce_sum(x, 1),
    "products with one": lambda x, c: tf.fill([tf.reduce_prod(tf.shape(x) * 2)], 1.0),
    "quotients by one": lambda x, c: tf.fill([tf.reduce_prod(tf.shape(x)[:2] * [6, 6] // 2)], 1.0),
    "a product with what is not whole": lambda x, c: tf.fill([tf.shape(x)[0] // 2 * 2], 1.0),
    "a quotient of what is not read": lambda x, c: tf.fill([tf.where(c, 4, 6) // tf.shape(x)[0]], 1.0),
    "squares": lambda x, c: tf.fill([tf.reduce_prod(tf.stack([tf.shape(x)] * 2), 0)[0]], 1.0),
    "the last of all": lambda x, c: tf.fill([tf.shape(x)[..., 0]], 1.0),
    "one with an axis": lambda x, c: tf.fill(tf.shape(x)[0, None], 1.0),
    "parts of what is not read": lambda x, c: tf.fill(tf.split(tf.where(c, [2, 4], [4, 2]), 2)[1], 1.0),
    "one of what is not read": lambda x, c: tf.fill([tf.where(c, [2, 4], [4, 2])[0]], 1.0),
    "the largest of what is not read": lambda x, c: tf.fill([tf.reduce_max(tf.where(c, [2, 4], [4, 2]))], 1.0),
    "the product of what is not read": lambda x, c: tf.fill([tf.reduce_prod(tf.where(c, [2, 4], [4, 3]))], 1.0),
    "ones for what is not read": lambda x, c: tf.fill(
        [tf.reduce_prod(tf.raw_ops.OnesLike(x=tf.boolean_mask([2, 3], tf.stack([True, c]))))], 1.0
    ),
    "in floating point": lambda x, c: tf.fill(tf.cast(tf.cast(tf.shape(x), tf.float32) * ([1.5] * 3), tf.int32), 1.0),
    "of a rank that is not known": lambda x, c: of_rank(3, tf.sin(forgotten(x))),
    "as many as something of such a rank has": lambda x, c: tf.fill([tf.size(forgotten(x))], 1.0),
    "means of channels": lambda x, c: channel_means(tf.expand_dims(tf.transpose(x, [0, 2, 1]), 1)),
    "swapped unless one is one": lambda x, c: tf.sin(tf.transpose(x, unless(one_is(1, x)))),
    "swapped unless one is one, and read": lambda x, c: tf.transpose(x, unless(one_is(1, x))),
    "the shape of what is swapped by a reshape": lambda x, c: tf.fill(tf.shape(shuffled(x).op.inputs[0]), 1.0),
    "places from one on": lambda x, c: tf.range(1, tf.shape(x)[0]),
    "every other place": lambda x, c: tf.range(0, tf.shape(x)[0], 2),
    "columns of each row": lambda x, c: tf.gather(x, tf.zeros([tf.shape(x)[0], 2], tf.int32), batch_dims=1),
    "along an axis that is not read": lambda x, c: tf.gather(x, [0], axis=tf.where(c, 0, 1)),
    "pooled in pairs": lambda x, c: tf.nn.max_pool1d(x, 2, 2, "SAME"),
    "the positions of the largest": lambda x, c: tf.nn.max_pool_with_argmax(x[..., None], 2, 2, "SAME")[1],
}


@pytest.mark.parametrize("name", [*WRITTEN, *MISLEADING])
def test_sizes_are_those_at_run_time(name):
    """Each size is its number times the sizes that it names; the sizes of x alone, in the forms that are followed."""
    with tf.Graph().as_default() as graph:
        x, chosen = tf.compat.v1.placeholder(tf.float64, [None, None, 3]), tf.compat.v1.placeholder(tf.bool, [])
        y = WRITTEN[name](x) if name in WRITTEN else MISLEADING[name](x, chosen)
        found = SymbolicSizes().sizes(y)
        shapes = {ref: tf.shape(ref.deref()) for size in found for (ref, _), _ in size.open}
        fetched = tf.shape(y), shapes
    assert name in MISLEADING or set(shapes) <= {x.ref()}
    with tf.compat.v1.Session(graph=graph) as session:
        for sizes, choice in itertools.product([(4, 5), (2, 5), (1, 5), (4, 1), (1, 1)], [True, False]):
            shape, named = session.run(fetched, {x: np.zeros((*sizes, 3)), chosen: choice})
            claimed = [
                size.number * np.prod([named[ref][axis] ** power for (ref, axis), power in size.open]) for size in found
            ]
            np.testing.assert_array_equal(claimed, shape)


PERMUTATIONS = {
    "chosen": lambda x, c: unless(c),
    "unless one is two": lambda x, c: unless(one_is(2, x)),
    "where one is one": lambda x, c: unless(tf.not_equal(tf.minimum(*sizes_of(x)), 1)),
    "unless the larger is one": lambda x, c: unless(tf.equal(tf.maximum(*sizes_of(x)), 1)),
    "unless the product is one": lambda x, c: unless(tf.equal(tf.multiply(*sizes_of(x)), 1)),
    "unless one is less than two": lambda x, c: unless(tf.less(tf.minimum(*sizes_of(x)), 1)),
    "unless the first is the smaller": lambda x, c: unless(tf.equal(tf.minimum(*sizes_of(x)), sizes_of(x)[0])),
    "unless another is one": lambda x, c: unless(tf.equal(tf.minimum(sizes_of(x)[0], 3), 1)),
    "left as chosen": lambda x, c: tf.where(one_is(1, x), tf.where(c, [0, 1, 2], [0, 2, 1]), [1, 0, 2]),
    "swapped as chosen": lambda x, c: tf.where(one_is(1, x), [0, 1, 2], tf.where(c, [0, 2, 1], [1, 0, 2])),
    "others are swapped": lambda x, c: tf.where(one_is(1, x), [0, 1, 2], [2, 1, 0]),
    "others are left": lambda x, c: tf.where(one_is(1, x), [0, 2, 1], [1, 0, 2]),
    "passed on": lambda x, c: tf.identity(tf.where(c, [0, 1, 2], [1, 0, 2])),
}


@pytest.mark.parametrize("name", PERMUTATIONS)
def test_what_does_not_swap_sizes(name):
    """Only what leaves two axes as they are where one has size 1, and is reshaped as if it had not, swaps them."""
    with tf.Graph().as_default():
        x, chosen = tf.compat.v1.placeholder(tf.float64, [None, None, 3]), tf.compat.v1.placeholder(tf.bool, [])
        permutation = PERMUTATIONS[name](x, chosen)
        assert permutation_of(reshaped_as_swapped(x, permutation).op.inputs[0].op, SymbolicSizes()) is None


@pytest.mark.parametrize(
    "reshaped", [lambda y, x: tf.reshape(y, [*sizes_of(x), 3]), lambda y, x: tf.sin(y), lambda y, x: y, None]
)
def test_what_is_read_before_it_is_reshaped_as_swapped(reshaped):
    with tf.Graph().as_default():
        x = tf.compat.v1.placeholder(tf.float64, [None, None, 3] if reshaped else None)
        y = tf.transpose(x, unless(one_is(1, x)))
        reshaped_as_swapped(x, unless(one_is(1, x))) if reshaped is None else reshaped(y, x)
        assert permutation_of(y.op, SymbolicSizes()) is None


def test_what_cannot_be_followed_has_its_own_name():
    with tf.Graph().as_default():
        x, mask = tf.compat.v1.placeholder(tf.float64, [None, 3]), tf.compat.v1.placeholder(tf.bool, [None])
        kept = tf.where(mask)
        either = x + tf.compat.v1.placeholder(tf.float64, [None, 3])
        unread = tf.reshape(x, tf.compat.v1.placeholder(tf.int32, [2]))
        known = SymbolicSizes()
        for tensor in (kept, either, unread):
            assert known.sizes(tensor)[0] == Size.of(tensor, 0)


def test_numbers_are_kept():
    with tf.Graph().as_default():
        x = tf.ensure_shape(tf.compat.v1.placeholder(tf.float64, [None, None]), [4, None])
        assert SymbolicSizes().sizes(x) == [Size(4), Size.of(x.op.inputs[0], 1)]
