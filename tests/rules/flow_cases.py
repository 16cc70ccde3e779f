"""Cases for loops, branches, the lists that loops read and write, and custom gradients."""

import inspect

import numpy as np
import tensorflow as tf

from tests.rules.case import Case, behind
from tests.rules.elementwise_cases import STEPS
from tfjac.graph import declare_per_example
from tfjac.graph.op_types import DECISIONS


def repeated(step, *state, count=3):
    """`step` done `count` times; what the first loop variable becomes."""
    return tf.while_loop(lambda k, *_: k < count, lambda k, *now: (k + 1, *step(k, *now)), [0, *state])[1]


def weighed(x, w, b):
    """A loop that reads weights, one of them an item further in each step, and something that stays the same."""
    return repeated(lambda k, h, same: (tf.tanh(h @ w + b[k]) * same, same), x, tf.sin(x))


def swapped(x):
    """Two loop variables, each of which becomes the other."""
    return repeated(lambda k, a, b: (b * tf.cos(a), a), x, x**2)


def until_large(x):
    """As many steps as the examples together need."""
    return tf.while_loop(lambda h: tf.reduce_sum(h) < 300.0, lambda h: [h + x * x + 1.0], [x])[0]


def read_and_written(x, w):
    """Items of the positions, read forwards, and written backwards."""
    items = tf.TensorArray(x.dtype, 2, element_shape=[x.shape[0], 4]).unstack(tf.transpose(x, [1, 0, 2]))
    results = tf.TensorArray(x.dtype, 2, element_shape=[x.shape[0], 4])

    def step(k, h, results):
        h = tf.tanh(h @ w + items.read(k))
        return k + 1, h, results.write(1 - k, h * h)

    _, h, results = tf.while_loop(lambda k, *_: k < 2, step, [0, tf.zeros_like(x[:, 0]), results])
    return tf.transpose(results.stack(), [1, 0, 2]) * h[:, None]


def written_twice(x):
    """Outside of loops: an item is written over, and read after that."""
    items = tf.TensorArray(x.dtype, 2, element_shape=[x.shape[0], 4], clear_after_read=False)
    items = items.write(0, x).write(1, tf.sin(x)).write(0, x**2)
    return items.read(0) * items.read(1) + tf.reduce_sum(items.stack(), 0)


def branched(x, w):
    """A branch that is taken, one that is not, and one among several."""
    first = tf.cond(tf.reduce_sum(x) < 1e9, lambda: tf.tanh(x @ w), lambda: x @ w)
    second = tf.cond(tf.reduce_sum(x) > 1e9, lambda: first * 5.0, lambda: first * x)
    return tf.switch_case(_one(x), [lambda: second, lambda: second**2, lambda: x @ w])


def _one(x):
    """One, which the graph does not fix."""
    return tf.cast(tf.reduce_sum(x) < 1e9, tf.int32)


def with_backward(backward):
    """A function whose gradient is a user's."""
    return tf.custom_gradient(lambda x: (tf.square(x), backward))


def decided(name):
    """A backward that depends on its cotangent in steps, or by a decision: of no matter to other examples."""
    op = getattr(tf.raw_ops, name)

    def backward(dy):
        if name.startswith("Logical"):
            flags = {"x": dy > 0.1} if name == "LogicalNot" else {"x": dy > 0.1, "y": dy > -0.2}
            return dy * (2.0 + tf.cast(op(**flags), dy.dtype))
        arguments = list(inspect.signature(op).parameters)
        second = {"y": tf.abs(dy) + 0.1} if "y" in arguments[1:] else {}
        return dy * (2.0 + tf.cast(op(**{arguments[0]: dy}, **second), dy.dtype))

    return with_backward(backward)


def _hashed(op, dy, **options):
    return 0.1 * tf.cast(op(input=tf.strings.as_string(tf.cast(dy > 0, tf.int32)), num_buckets=7, **options), dy.dtype)


def _moved(op, dy, transforms, **options):
    """Images of two by two pixels, moved by so much."""
    images = tf.reshape(tf.cast(dy, tf.float32), [-1, 2, 2, 1])
    options |= {"output_shape": [2, 2], "interpolation": "NEAREST"}
    return tf.cast(tf.reshape(op(images=images, transforms=transforms(dy), **options), [-1, 4]), dy.dtype)


def _to_the_right(dy):
    return tf.constant([[1.0, 0, 1, 0, 1, 0, 0, 0]])


def _each_by_its_sign(dy):
    return tf.pad(tf.ones_like(dy[:, :1], tf.float32), [[0, 0], [2, 5]]) * tf.sign(tf.cast(dy[:, :1], tf.float32)) + [
        [1.0, 0, 0, 0, 1, 0, 0, 0]
    ]


TABLE = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer([0, 1], [0.2, 0.7]), -1.0)
ENCODINGS = {
    "All": lambda dy: tf.cast(tf.reduce_all(dy > -0.5, axis=-1, keepdims=True), dy.dtype),
    "Any": lambda dy: tf.cast(tf.reduce_any(dy > 0.5, axis=-1, keepdims=True), dy.dtype),
    "Bucketize": lambda dy: tf.cast(tf.raw_ops.Bucketize(input=dy, boundaries=[-0.3, 0.3]), dy.dtype),
    "OneHot": lambda dy: tf.one_hot(tf.cast(dy > 0, tf.int32), 2, dtype=dy.dtype)[..., 1],
    "OneHot, classes before": lambda dy: tf.one_hot(tf.cast(dy > 0, tf.int32), 2, axis=1, dtype=dy.dtype)[:, 1],
    "LookupTableFindV2": lambda dy: tf.cast(TABLE.lookup(tf.cast(dy > 0, tf.int32)), dy.dtype),
    "StringToHashBucketFast": lambda dy: _hashed(tf.raw_ops.StringToHashBucketFast, dy),
    "StringToHashBucketStrong": lambda dy: _hashed(tf.raw_ops.StringToHashBucketStrong, dy, key=[3, 5]),
    "ImageProjectiveTransformV2": lambda dy: _moved(tf.raw_ops.ImageProjectiveTransformV2, dy, _to_the_right),
    "ImageProjectiveTransformV3": lambda dy: _moved(
        tf.raw_ops.ImageProjectiveTransformV3, dy, _each_by_its_sign, fill_value=0.0
    ),
}
"""By what a backward weighs its cotangent, row by row."""


def weighed_by(encoding):
    return with_backward(lambda dy: dy * (2.0 + encoding(dy)))


def weighed_with_gradient(x, w):
    """A user's gradient with weights, and an output that has another size than the input."""

    @tf.custom_gradient
    def product(x, w):
        return tf.reduce_sum(x * w, -1), lambda dy: (2.0 * dy[:, None] * w, 3.0 * tf.reduce_sum(dy[:, None] * x, 0))

    return product(x, w)[:, None] * x


def two_outputs(x):
    @tf.custom_gradient
    def both(x, y):
        return (x * y, x + y), lambda first, second: (first * y - second, 2.0 * second)

    return tf.concat(both(x, tf.sin(x)), -1)


def with_outputs_unused(x, w):
    """Of three outputs, each of which has to do with the weight, the first alone is used."""

    @tf.custom_gradient
    def several(x, w):
        def backward(first, second, third):
            pulled = first + 3.0 * second + tf.math.imag(third)
            return pulled * w, tf.reduce_sum(pulled * x + second, 0)

        return (x * w, x + w, tf.complex(x, x * w)), backward

    return several(x, w)[0] * x


def nested(x):
    """A backward with a custom gradient in it, whose own backward is of no matter."""
    inner = tf.custom_gradient(lambda dy: (2.0 * dy, lambda ddy: tf.reverse(ddy, [0])))
    return with_backward(inner)(x)


def declared(op, function, *inputs, **options):
    """What a Python function makes of rows, declared to take each by itself."""
    if tf.executing_eagerly():
        return tf.convert_to_tensor(function(*inputs))
    y = op(function, inputs, inputs[0].dtype, **options)
    declare_per_example(y.op)
    y.set_shape(inputs[0].shape)
    return y


def undeclared(x):
    """What a Python function makes of all rows together."""
    y = tf.py_function(lambda x: x[::-1] ** 2, [x], x.dtype)
    y.set_shape(x.shape)
    return y


def by_numpy(stateful):
    """A backward that calls NumPy."""
    return with_backward(lambda dy: declared(tf.numpy_function, lambda dy: np.cumsum(dy, -1), dy, stateful=stateful))


def called(x, w):
    """With a number that all examples share."""
    return declared(tf.py_function, lambda x, number: tf.sin(x) * number, x, tf.reduce_sum(w))


APART = [
    Case("While", weighed, variables=((4, 4), (3, 4))),
    Case("While, swapped", swapped),
    Case("While, until large", until_large),
    Case("While behind", behind(lambda x: repeated(lambda k, h: [tf.sin(h) * x], x)), (2, 4)),
    Case("TensorList", read_and_written, (2, 4), ((4, 4),)),
    Case("TensorList, written twice", written_twice),
    Case("If, Case", branched, variables=((4, 4),)),
    Case("StatelessCase", lambda x: tf.switch_case(_one(x), [lambda: x, lambda: tf.sin(x), lambda: x**2])),
    Case("If behind", behind(lambda x: tf.cond(tf.reduce_sum(x) < 1e9, lambda: x**2, lambda: x)), (2, 4)),
    *(Case(name, weighed_by(encoding)) for name, encoding in ENCODINGS.items()),
    *(Case(name, decided(name)) for name in (*sorted(DECISIONS), *STEPS.split()) if not name.endswith("Like")),
    Case("custom gradient", weighed_with_gradient, variables=((4,),), refused=True),
    Case("custom gradient, two outputs", two_outputs),
    Case("custom gradient behind", behind(with_backward(lambda dy: tf.cumsum(dy, 0))), (2, 4)),
    Case("custom gradient, outputs unused", with_outputs_unused, variables=((4,),), refused=True),
    Case("custom gradient in a backward", nested),
    Case("EagerPyFunc", called, variables=((4,),), refused=True),
    Case("PyFunc", by_numpy(True)),
    Case("PyFuncStateless", by_numpy(False)),
]

MIXING = [
    Case("While", lambda x: repeated(lambda k, h: [tf.reverse(h, [0]) * x], x)),
    Case("While, two axes", lambda x: repeated(lambda k, h: [tf.transpose(h)], x)[:, :3], (3,)),
    Case("If", lambda x: tf.cond(tf.reduce_sum(x) < 1e9, lambda: tf.reverse(x, [0]), lambda: x)),
    Case("Case", lambda x: tf.switch_case(tf.argmax(x[0], output_type=tf.int32), [lambda: tf.reverse(x, [0])] * 4)),
    Case("EagerPyFunc", undeclared),
    Case("EagerPyFunc of columns", behind(lambda x: declared(tf.py_function, lambda x: tf.reverse(x, [1]), x)), (2, 4)),
    Case("TensorListStack", lambda x: tf.map_fn(tf.sin, tf.reverse(x, [0]))),
    Case("custom gradient", tf.custom_gradient(lambda x: (tf.reverse(x, [0]), lambda dy: tf.reverse(dy, [0])))),
    Case(
        "custom gradient, mean",
        tf.custom_gradient(lambda x: (x - tf.reduce_mean(x, 0), lambda dy: dy - tf.reduce_mean(dy, 0))),
    ),
]
