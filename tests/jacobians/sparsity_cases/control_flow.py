"""Cases of loops, branches, lists, functions and custom gradients."""

import tensorflow as tf

from tests.jacobians.sparsity_cases.building import OPEN, Case, chosen, gradient_of, together


def repeated(steps, state, count=3):
    """`steps` done `count` times."""
    return tf.while_loop(lambda k, _: k < count, lambda k, y: (k + 1, steps(k, y)), [0, state])[1]


def until_large(x):
    """How many steps are done depends on x."""
    return tf.while_loop(lambda y: tf.reduce_sum(y) < 100.0, lambda y: [y + 0.5 * y * tf.roll(y, 1, 1)], [x])[0]


def growing(x):
    """A row more in each step."""
    shapes = [tf.TensorShape([]), tf.TensorShape([None, 6])]
    more = lambda k, y: (k + 1, tf.concat([y, y[-1:] ** 2], 0))  # noqa: E731
    return tf.while_loop(lambda k, _: k < 3, more, [0, x], shape_invariants=shapes)[1]


def scanned(x):
    return tf.scan(lambda h, row: tf.sin(h) * row, x, tf.ones([6], x.dtype))


def written(x):
    """Items of a list out of order, some of them twice, some at once."""
    items = tf.TensorArray(x.dtype, 6, element_shape=[6], clear_after_read=False)
    items = items.scatter([5, 1, 3], x[:3] ** 2).write(1, x[3])
    return tf.concat([items.gather([1, 5, 3]), items.read(1)[None], items.stack()], 0)


def written_anywhere(x):
    items = tf.TensorArray(x.dtype, 4, element_shape=[6]).unstack(x).write(chosen(x), x[3] ** 2)
    return tf.concat([items.stack(), items.read(chosen(x))[None]], 0)


def through_variable(x):
    """Read from a variable inside a loop."""
    return tf.map_fn(lambda k: x[k] ** 2, tf.range(4), fn_output_signature=tf.float64)


@tf.custom_gradient
def rounded(x):
    """A staircase with the slope of its own derivative's choice: x itself, each from its neighbour."""
    return tf.round(x), lambda dy: tf.roll(dy * x, -1, 1)


@tf.function
def inner(x):
    return tf.function(tf.sin)(x)[1:]


CONTROL_FLOW = {
    "scan": Case(scanned),
    "map_fn": Case(
        together(
            lambda x: tf.map_fn(lambda row: row[1:] * row[:-1], x),
            lambda x: tf.map_fn(lambda k: x[k] * x[0], tf.range(4), fn_output_signature=tf.float64),
            lambda x: tf.map_fn(lambda row: tf.scan(lambda a, b: a * b, row), x),
        )
    ),
    "gradient of a scan": Case(
        together(gradient_of(scanned), gradient_of(scanned, cost=tf.identity)),
        larger="positions that the way back recalls are open",
    ),
    "while": Case(
        together(
            lambda x: repeated(lambda k, y: tf.tensor_scatter_nd_update(y, [[k]], [tf.sin(y[k + 1])]), x),
            lambda x: repeated(lambda k, y: tf.concat([y[:, 1:] ** 2, y[:, :1]], 1), x),
            growing,
        )
    ),
    "while, open": Case(
        together(
            until_large,
            lambda x: repeated(lambda k, y: y + tf.pad(y[:, 1:], [[0, 0], [0, 1]]), x, 2 + chosen(x)),
        ),
        larger="there may be any number of steps",
    ),
    "branches, fixed": Case(
        together(
            lambda x: tf.cond(tf.constant(True), lambda: x**2, lambda: tf.reverse(x, [1])),
            lambda x: tf.switch_case(tf.constant(1), [lambda: x**2, lambda: tf.reverse(x, [1])]),
        )
    ),
    "branches, open": Case(
        together(
            lambda x: tf.cond(x[0, 0] > 1.0, lambda: x**2, lambda: tf.reverse(x, [1])),
            lambda x: tf.switch_case(chosen(x), [lambda: x**2, lambda: tf.reverse(x, [1])]),
            lambda x: tf.map_fn(lambda row: tf.cond(row[0] > 1.0, lambda: row**2, lambda: row[::-1]), x),
        ),
        larger=OPEN,
    ),
    "lists": Case(written),
    "lists, open": Case(written_anywhere, larger=OPEN),
    "branches that read": Case(
        together(
            lambda x: tf.cond(tf.identity(x)[0, 0] > 1.0, lambda: x**2, lambda: tf.reverse(x, [1])),
            lambda x: tf.switch_case(chosen(tf.identity(x)), [lambda: x**2, lambda: tf.reverse(x, [1])]),
        ),
        variable=True,
    ),
    "variable": Case(together(lambda x: tf.sin(x) * x, through_variable), variable=True),
    "custom gradient": Case(
        lambda x: tf.concat([rounded(x), tf.nn.silu(x), tf.recompute_grad(tf.sin)(x)], 0), by_rows=True
    ),
    "inner function": Case(lambda x: inner(x**2)),
    "gradient in the graph": Case(gradient_of(lambda x: x[:, 1:] * x[:, :-1])),
}
