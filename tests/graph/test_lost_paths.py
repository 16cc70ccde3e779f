"""Where gradients stop on the way of numbers: what must be said, and all that must not be.

w enters the result in the way in question; v has a gradient in every case, so that w's path is only a part.
"""

import numpy as np
import pytest
import tensorflow as tf

import tfjac
from tfjac.graph import inline_calls, lost_paths


def squared_by_numpy(w):
    return tf.ensure_shape(tf.numpy_function(np.square, [w], tf.float32), w.shape)


def by_python(function):
    return lambda w: tf.ensure_shape(tf.py_function(function, [w], tf.float32), w.shape)


@tf.function
def rounded_inside(w):
    return tf.round(w)


@tf.custom_gradient
def straight_through(w):
    return tf.round(w), lambda d: d


def sampled(image, at):
    """Linear interpolation of `image` at places that depend on weights, as in a spatial transformer."""
    below = tf.floor(at)
    index = tf.clip_by_value(tf.cast(below, tf.int32), 0, 2)
    share = at - below
    return (1 - share) * tf.gather(image, index) + share * tf.gather(image, tf.minimum(index + 1, 2))


def sampled_in_integers(image, at):
    left = tf.cast(tf.floor(at), tf.int32)
    right = left + 1
    return (tf.cast(right, tf.float32) - at) * tf.gather(image, tf.clip_by_value(left, 0, 2)) + (
        at - tf.cast(left, tf.float32)
    ) * tf.gather(image, tf.clip_by_value(right, 0, 2))


def routed(w, v):
    """The two best of three experts, weighed by their gates."""
    gates, chosen = tf.math.top_k(tf.nn.softmax(w), 2)
    return tf.reduce_sum(gates[:, None] * tf.one_hot(chosen, 3) * v, 0)


def grown(w, step):
    return tf.while_loop(lambda a: a[0] < 9.0, lambda a: [step(a)], [w])[0]


def first_derivative(function, w):
    return tf.gradients(function(w), w)[0]


LOST = {
    "rounding": ("Round", lambda w, v, x: v * x + tf.round(w) * x),
    "rounding of what has a gradient too": ("Round", lambda w, v, x: w * x + tf.round(w) * x),
    "floor": ("Floor", lambda w, v, x: v + tf.floor(w)),
    "sign": ("Sign", lambda w, v, x: v + tf.sign(w) * x),
    "quotient of integers": ("FloorDiv", lambda w, v, x: v + w // 2.0),
    "cast to an integer": ("Cast", lambda w, v, x: v + tf.cast(tf.cast(w, tf.int32) * 2, tf.float32)),
    "place of the largest": ("ArgMax", lambda w, v, x: v + tf.cast(tf.argmax(w), tf.float32)),
    "NumPy": ("PyFunc", lambda w, v, x: v + squared_by_numpy(w)),
    "NumPy in py_function": ("EagerPyFunc", lambda w, v, x: v + by_python(lambda a: a.numpy() ** 2)(w)),
    "NumPy's function in py_function": ("EagerPyFunc", lambda w, v, x: v + by_python(lambda a: np.sin(a))(w)),
    "shuffled": ("RandomShuffle", lambda w, v, x: v + tf.random.shuffle(w)),
    "beginning of a range": ("Range", lambda w, v, x: v + tf.range(w[0], w[0] + 2.5)),
    "value of a one-hot": ("OneHot", lambda w, v, x: v + tf.one_hot(1, 3, on_value=w[0])),
    "in a function": ("Round", lambda w, v, x: v + rounded_inside(w)),
    "in a branch": ("Round", lambda w, v, x: v + tf.cond(x[0] > 0.0, lambda: tf.round(w), lambda: w)),
    "in a loop": ("Round", lambda w, v, x: v + grown(w, lambda a: tf.round(a) + 1.0)),
    "in a map": ("Round", lambda w, v, x: v + tf.map_fn(lambda a: tf.round(a) + 2.0 * a, w)),
    "in a recurrence": ("Round", lambda w, v, x: v + tf.scan(lambda h, a: tf.round(h) + a, x, w[0])),
    "chosen": ("Round", lambda w, v, x: v + tf.where(x > 0.0, tf.round(w), x)),
    "beside": ("Round", lambda w, v, x: tf.concat([v, tf.round(w)], 0)),
    "layer above a rounding, with a way around": (
        "Round",
        lambda w, v, x: w + tf.linalg.matvec(x[:, None] * x, tf.round(w) * v),
    ),
    "the same, subtracted": ("Round", lambda w, v, x: tf.linalg.matvec(x[:, None] * v, tf.round(w)) - w),
    "difference from another": ("Round", lambda w, v, x: v - tf.round(w)),
}

SILENT = {
    "stopped on purpose": lambda w, v, x: v + tf.stop_gradient(tf.round(w)),
    "straight through by stop_gradient": lambda w, v, x: v + w + tf.stop_gradient(tf.round(w) - w),
    "straight through by a custom gradient": lambda w, v, x: v + straight_through(w),
    "only a part of what goes on": lambda w, v, x: (v + w, tf.round(w))[0],
    "of data": lambda w, v, x: v * tf.round(x) + w * tf.cast(tf.cast(x, tf.int32), tf.float32) + squared_by_numpy(x),
    "a choice by comparison": lambda w, v, x: tf.where(w > 0.0, v, w),
    "a gate": lambda w, v, x: v + w * tf.cast(w > 0.0, tf.float32),
    "count of what is positive": lambda w, v, x: v / (1.0 + tf.reduce_sum(tf.cast(w > 0.0, tf.float32))),
    "index": lambda w, v, x: tf.gather(v, tf.clip_by_value(tf.cast(w, tf.int32), 0, 2)),
    "largest, chosen": lambda w, v, x: v[tf.argmax(w)] + w,
    "nearest code": lambda w, v, x: v * tf.one_hot(tf.argmin(tf.abs(w - x)), 3),
    "mixture of experts": lambda w, v, x: routed(w, v),
    "sorted": lambda w, v, x: v * tf.sort(w) + tf.gather(v, tf.argsort(w)),
    "sampled categories": lambda w, v, x: tf.gather(v, tf.random.categorical(w[None], 3)[0]),
    "shape as a number": lambda w, v, x: v + w / tf.cast(tf.shape(w)[0], tf.float32) + tf.cast(tf.size(w), tf.float32),
    "zeros and ones like": lambda w, v, x: v + tf.zeros_like(w) + tf.ones_like(w),
    "fraction": lambda w, v, x: v + (w - tf.floor(w)),
    "remainder": lambda w, v, x: v + w % 2.0 + (w - 2.0 * tf.floor(w / 2.0)),
    "interpolation": lambda w, v, x: sampled(v, w * x),
    "interpolation, in integers": lambda w, v, x: sampled_in_integers(v, w * x),
    "interpolation of coordinates": lambda w, v, x: sampled(v, tf.stack([w, w * x], 1)[:, 1]),
    "logarithm on both sides": lambda w, v, x: v + tf.sign(w) * tf.math.log1p(tf.abs(w)),
    "derivative of an absolute value": lambda w, v, x: v + first_derivative(lambda w: tf.abs(w * v), w),
    "dropout": lambda w, v, x: tf.nn.dropout(v * w, 0.5),
    "Python of TensorFlow's ops": lambda w, v, x: v + by_python(lambda a: tf.sin(a) * np.pi)(w),
    "loops and branches": lambda w, v, x: (
        v
        + tf.while_loop(lambda k, a: k < 3, lambda k, a: (k + 1, a * w), [0, w])[1]
        + tf.map_fn(lambda a: tf.cond(a > 0.0, lambda: a, lambda: -a), w)
    ),
    "number of steps": lambda w, v, x: v * grown(w, lambda a: a + 1.0),
    "quantised with a gradient": lambda w, v, x: v + tf.quantization.fake_quant_with_min_max_vars(w, -2.0, 2.0),
}

WHOLE = {
    "stop_gradient": ("StopGradient", lambda w, v, x: tf.stop_gradient(w) * x),
    "comparison": ("Greater", lambda w, v, x: tf.cast(w > 0.0, tf.float32)),
    "accuracy": ("ArgMax", lambda w, v, x: tf.cast(tf.equal(tf.argmax(w), 1), tf.float32)[None]),
    "rounding": ("Round", lambda w, v, x: tf.round(w * v)),
    "index": ("Cast", lambda w, v, x: tf.gather(x, tf.clip_by_value(tf.cast(w, tf.int32), 0, 2))),
}


def found(function):
    """The lost paths from w and v to the result."""
    paths = []

    @tf.function(autograph=False)
    def trace(w, v, x):
        targets = inline_calls([function(w, v, x)], depends_on=[w, v])
        paths.extend(lost_paths(targets, [w, v]))
        return x

    trace(*(tf.constant(value, tf.float32) for value in ([0.3, 1.2, -0.7], [1.0, 2.0, 3.0], [0.5, -1.0, 2.0])))
    return paths


@pytest.mark.parametrize("name", LOST)
def test_a_number_whose_gradient_is_lost(name):
    kind, function = LOST[name]
    assert [(path.op.type.replace("Stateless", ""), path.whole) for path in found(function)] == [(kind, False)]


@pytest.mark.parametrize("name", SILENT)
def test_what_is_meant_so(name):
    assert [str(path) for path in found(SILENT[name])] == []


@pytest.mark.parametrize("name", WHOLE)
def test_a_result_without_any_gradient(name):
    kind, function = WHOLE[name]
    paths = found(function)
    assert kind in [path.op.type for path in paths] and all(path.whole for path in paths)


def test_no_dependence_is_no_loss():
    assert found(lambda w, v, x: tf.round(x)) == []
    assert found(lambda w, v, x: x * tf.cast(tf.size(w), tf.float32)) == []


def test_a_python_function_that_is_not_in_this_process():
    """As a graph loaded from a file has it: its number leads to no function."""

    def loaded(w):
        (y,) = tf.raw_ops.EagerPyFunc(input=[w], token="pyfunc_of_yesterday", Tout=[tf.float32])
        y.set_shape(w.shape)
        return y

    w = tf.Variable([1.0, 2.0])
    message = r"function is not in this process.*Received: 'EagerPyFunc' .* the number 'pyfunc_of_yesterday'"
    for call in (tfjac.jacobian, tfjac.per_example_jacobian, tfjac.explain_gradient):
        with pytest.raises(ValueError, match=message):
            call(lambda: loaded(w), w)


def test_a_python_function_whose_rank_is_said_too_late():
    w = tf.Variable([1.0, 2.0])
    with pytest.raises(ValueError, match=r"must have a known rank.*ensure_shape.*Received: 'EagerPyFunc:0'"):
        tfjac.per_example_jacobian(lambda: tf.ensure_shape(tf.py_function(tf.square, [w], tf.float32), [2]), w)
