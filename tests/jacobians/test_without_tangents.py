"""Where tangents are not carried forward by rules: `NoTangents` is raised, and the older way is taken."""

import pytest
import tensorflow as tf

from tests.jacobians.test_tangents import C, dense_of
from tfjac.jacobians.tangents import NoTangents, few_columns, forward_factors


@tf.custom_gradient
def doubled(x):
    return x * x, lambda d: 2 * d


V = tf.Variable([0.5, 0.7], dtype=tf.float64)

REFUSED = {
    "a custom gradient": lambda: doubled(V),
    "a branch": lambda: tf.cond(tf.reduce_sum(V) > 1, lambda: V * 2, lambda: V * V),
    "an op without a rule": lambda: tf.cumsum(V),
    "an einsum": lambda: tf.einsum("ij,j->i", tf.ones([4, 2], tf.float64), V),
    "half precision on the way": lambda: tf.cast(tf.cast(V, tf.float16), tf.float64) * 2,
    "complex numbers on the way": lambda: tf.math.real(tf.cast(V, tf.complex128)),
    "integers on the way": lambda: tf.cast(tf.cast(V, tf.int32), tf.float64),
    "no dependence": lambda: C[:2] * 1,
    "no gradient": lambda: tf.stop_gradient(V),
    "too many numbers": lambda: V * tf.ones([2**13, 2], tf.float64),
    "an op that spreads, with no rule for it": lambda: tf.maximum(V, C[:, :2]),
}


@pytest.mark.parametrize("name", REFUSED)
def test_rules_will_not_do(name):
    with pytest.raises(NoTangents):
        dense_of(lambda: forward_factors([REFUSED[name]()], [V]))


def test_unknown_shapes_have_no_tangents():
    @tf.function(input_signature=[tf.TensorSpec([None], tf.float64)], autograph=False)
    def dense(x):
        return forward_factors([x * V[0]], [V])[0].dense()

    with pytest.raises(NoTangents):
        dense(C[:, 0])


def test_what_is_open_has_no_tangents():
    """An axis, a place of a slice, or a permutation that the graph does not fix."""
    k = tf.Variable(0)
    for function in (lambda a: tf.strided_slice(a, [k], [k + 2], [1]), lambda a: a * tf.reduce_sum(a, k)):
        with pytest.raises(NoTangents):
            dense_of(lambda function=function: forward_factors([tf.ensure_shape(function(V * C[:2, :2]), [2, 2])], [V]))


def test_a_variable_twice_has_no_tangents():
    with pytest.raises(NoTangents):
        dense_of(lambda: forward_factors([V * 2], [V, V]))


def test_ys_of_two_dtypes_have_no_tangents():
    with pytest.raises(NoTangents):
        dense_of(lambda: forward_factors([V * 2, tf.cast(V, tf.float32)], [V]))


def test_few_columns():
    assert few_columns([V, tf.zeros([14])])
    assert not few_columns([V, tf.zeros([15])])
    assert not few_columns([])
