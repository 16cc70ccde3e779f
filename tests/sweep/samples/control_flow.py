"""Loops, branches, lists of tensors, functions within functions, gradients written by hand."""

import tensorflow as tf

from tests.sweep.samples.table import normal, sample

F = tf.float64


def _array(size, **options):
    return tf.TensorArray(F, size, **options)


def _loop(x):
    return tf.while_loop(lambda k, z: k < 3, lambda k, z: (k + 1, tf.sin(z) * x), [0, x])[1]


def _loop_that_ends_by_value(x):
    return tf.while_loop(lambda z: tf.reduce_sum(z * z) < 30, lambda z: (1.5 * z,), [x])[0]


def _written_in_a_loop(x):
    def step(k, array):
        return k + 1, array.write(k, tf.sin(x[k]) * x)

    return tf.while_loop(lambda k, _: k < 3, step, [0, _array(3)])[1].stack()


def _written_and_read(x):
    array = _array(3, clear_after_read=False).write(0, x).write(1, x * x).write(2, tf.sin(x))
    return array.read(0) * array.read(2) + array.read(1)


def _closed_form(x):
    @tf.custom_gradient
    def cube(z):
        return z**3, lambda upstream: 3 * z**2 * upstream

    return cube(x)


def _with_weights(x, w):
    @tf.custom_gradient
    def scaled(z, w):
        return z * w, lambda upstream: (upstream * w, upstream * z)

    return scaled(x, w)


sample("while_loop", _loop, normal(3))
sample(
    "while_loop, maximum_iterations",
    lambda x: tf.while_loop(lambda z: True, lambda z: (tf.sin(z),), [x], maximum_iterations=3)[0],
    normal(3),
)
sample("while_loop that ends by value", _loop_that_ends_by_value, normal(3))
sample("while_loop of no steps", lambda x: tf.while_loop(lambda z: False, lambda z: (z * z,), [x])[0], normal(3))
sample(
    "loop within a loop",
    lambda x: tf.while_loop(lambda k, z: k < 2, lambda k, z: (k + 1, _loop(z)), [0, x])[1],
    normal(2),
)
sample("cond", lambda x: tf.cond(tf.reduce_sum(x) > 0, lambda: x * x, lambda: tf.sin(x)), normal(3))
sample(
    "cond that takes another input",
    lambda x, y: tf.cond(tf.reduce_sum(x) > 99, lambda: x, lambda: x * y),
    normal(3),
    normal(3),
)
sample(
    "switch_case", lambda x: tf.switch_case(tf.constant(1) * tf.shape(x)[0] // 3, [lambda: x, lambda: x * x]), normal(3)
)
sample("case", lambda x: tf.case([(x[0] > 99, lambda: x)], default=lambda: tf.sin(x)), normal(3))
sample(
    "cond in a loop",
    lambda x: tf.while_loop(
        lambda k, z: k < 2, lambda k, z: (k + 1, tf.cond(k > 0, lambda: z * x, lambda: tf.sin(z))), [0, x]
    )[1],
    normal(3),
)
sample("scan", lambda x: tf.scan(lambda h, e: tf.tanh(h + e), x, x[0]), normal(3, 2))
sample("foldl", lambda x: tf.foldl(lambda h, e: tf.tanh(h * e), x), normal(3, 2))
sample("map_fn", lambda x: tf.map_fn(lambda e: tf.sin(e) * e, x), normal(3, 2))
sample("map_fn of a closure", lambda x, w: tf.map_fn(lambda e: tf.sin(e) * w, x), normal(3, 2), normal(2))
sample("vectorized_map", lambda x, w: tf.vectorized_map(lambda e: tf.sin(e) * w, x), normal(3, 2), normal(2))
sample("function", lambda x: tf.function(lambda z: tf.sin(z) * z)(x), normal(3))
sample("function within a function", lambda x: tf.function(lambda z: tf.function(tf.sin)(z) * z)(x), normal(3))
sample("recompute_grad", lambda x: tf.recompute_grad(lambda z: tf.sin(z) * z)(x), normal(3))
sample("custom_gradient", _closed_form, normal(3))
sample("custom_gradient of two", _with_weights, normal(3), normal(3))
sample("grad_pass_through", lambda x: x * x + 0 * tf.grad_pass_through(tf.round)(x), normal(3))
sample("py_function", lambda x: tf.ensure_shape(tf.py_function(lambda z: tf.sin(z) * z, [x], F), [3]), normal(3))
sample("assert on the way", lambda x: _checked(x), normal(3))

sample("TensorArray write, stack", lambda x: _array(2).write(0, x).write(1, x * x).stack(), normal(3))
sample("TensorArray write, read", _written_and_read, normal(3))
sample("TensorArray written in a loop", _written_in_a_loop, normal(3))
sample("TensorArray that grows", lambda x: _array(0, dynamic_size=True).write(0, x).write(1, x * x).stack(), normal(3))
sample("TensorArray unstack, read", lambda x: _array(3, clear_after_read=False).unstack(x * x).read(1), normal(3, 2))
sample("TensorArray unstack, gather", lambda x: _array(3).unstack(x * x).gather([2, 0, 2]), normal(3, 2))
sample("TensorArray scatter", lambda x: _array(3).scatter([2, 0, 1], x * x).stack(), normal(3, 2))
sample("TensorArray scatter, gather", lambda x: _array(3).scatter([2, 0, 1], x * x).gather([1, 0]), normal(3, 2))
sample("TensorArray concat", lambda x: _array(2).write(0, x).write(1, x * x).concat(), normal(3))
sample(
    "TensorArray concat of different sizes",
    lambda x, y: _array(2, infer_shape=False, element_shape=[None]).write(0, x).write(1, y * y).concat(),
    normal(3),
    normal(2),
)
sample(
    "TensorArray split",
    lambda x: _array(2, infer_shape=False, element_shape=[None]).split(x * x, [1, 3]).read(1),
    normal(4),
)
sample(
    "TensorArray split evenly, stacked", lambda x: _array(2, element_shape=[2]).split(x * x, [2, 2]).stack(), normal(4)
)
sample("TensorList pushed and popped", lambda x: _pushed(x), normal(3))
sample("TensorListResize", lambda x: _resized(x), normal(2, 3))


def _checked(x):
    tf.debugging.assert_less(x, tf.constant(99.0, F))
    return x * x


def _pushed(x):
    handle = tf.raw_ops.EmptyTensorList(element_shape=[3], max_num_elements=-1, element_dtype=F)
    handle = tf.raw_ops.TensorListPushBack(input_handle=handle, tensor=x * x)
    handle = tf.raw_ops.TensorListPushBack(input_handle=handle, tensor=tf.sin(x))
    return tf.raw_ops.TensorListPopBack(input_handle=handle, element_shape=[3], element_dtype=F)[1]


def _resized(x):
    handle = tf.raw_ops.TensorListFromTensor(tensor=x * x, element_shape=[3])
    handle = tf.raw_ops.TensorListResize(input_handle=handle, size=3)
    return tf.raw_ops.TensorListGetItem(input_handle=handle, index=1, element_shape=[3], element_dtype=F)
