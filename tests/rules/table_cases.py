"""Cases of tables that are read by index: which rows each example of J touches, against TensorFlow's, row by row."""

import dataclasses
import warnings
from collections.abc import Callable

import numpy as np
import tensorflow as tf

from tfjac.jacobians import jacobian_operator
from tfjac.linear.factors.gather_factor import GatherFactor

IDS = tf.constant([0, 3, 3, 6, 1, 5])
MATRIX = tf.constant([[1.0, 0.5], [0.0, 2.0]], tf.float64)
OF_ROWS = tf.constant([0, 2, 2, 1, 0, 1, 2])


def nothing(s):
    """The number 0, which the graph does not fix."""
    return tf.cast(s > 1e9, tf.int32)


def opened(a, s):
    """The table, of a size that the graph does not fix."""
    return tf.reshape(a, [7 + nothing(s), 4 + nothing(s)])


@dataclasses.dataclass(frozen=True)
class TableCase:
    """What is computed of a table, of another with as many rows, and of a scalar.

    Attributes:
        name: what is special about it.
        function: of variables `a[7,4]`, `b[7,2]`, `s[]` and `c[7]`, to `[n, ...]`.
        positions: how many rows an example touches, in a `GatherFactor`; 0 for dense columns, None for either.
        of_tensors: whether J is with respect to tensors of the graph, not to variables.
    """

    name: str
    function: Callable
    positions: int | None = 0
    of_tensors: bool = False


CASES = [
    TableCase("read", lambda a, b, s, c: tf.gather(a, IDS), 1),
    TableCase("read by tuples", lambda a, b, s, c: tf.gather_nd(tf.exp(a), IDS[:, None]), 1),
    TableCase("normalised", lambda a, b, s, c: tf.gather(tf.linalg.l2_normalize(a, axis=-1), IDS), 1),
    TableCase("side by side", lambda a, b, s, c: tf.gather(tf.concat([a, tf.exp(b)], axis=1), IDS), 1),
    TableCase("some columns", lambda a, b, s, c: tf.gather(a[:, 1:3], IDS), 1),
    TableCase("used twice", lambda a, b, s, c: tf.gather(a * a[:, ::-1], IDS), 1),
    TableCase("matrices", lambda a, b, s, c: tf.linalg.inv(tf.gather(tf.reshape(a, [-1, 2, 2]) @ MATRIX, IDS)), 1),
    TableCase("softmax of rows", lambda a, b, s, c: tf.gather(tf.nn.softmax(a), IDS), 1),
    TableCase("read twice over", lambda a, b, s, c: tf.gather(tf.gather(a[:3], OF_ROWS), IDS), 1),
    TableCase("read from what was read", lambda a, b, s, c: tf.gather(tf.gather(tf.exp(b), OF_ROWS), IDS), 1),
    TableCase("columns by index", lambda a, b, s, c: tf.gather(tf.gather(a, [0, 3, 1], axis=1), IDS), 1),
    TableCase(
        "columns by index, along an unknown axis",
        lambda a, b, s, c: tf.ensure_shape(tf.gather(tf.gather(a, [0, 3, 1], axis=1 + nothing(s)), IDS), [6, 3]),
        None,
    ),
    TableCase("pairs of rows", lambda a, b, s, c: tf.gather(tf.gather(a, [[0, 3], [6, 1], [2, 2]]), [2, 0, 0]), None),
    TableCase(
        "read in another layout", lambda a, b, s, c: tf.gather(tf.reshape(tf.gather(a, OF_ROWS), [-1]), IDS * 3), None
    ),
    TableCase("a slice in another layout", lambda a, b, s, c: tf.gather(tf.reshape(a[1:], [-1]), IDS * 3), None),
    TableCase(
        "read from what was read of open size",
        lambda a, b, s, c: tf.gather(tf.gather(tf.reshape(a, [7 + nothing(s), 4]), OF_ROWS), IDS),
        None,
    ),
    TableCase("own rows", lambda a, b, s, c: a * tf.sin(b[:, :1]), 1),
    TableCase("reshaped", lambda a, b, s, c: tf.sin(tf.reshape(a, [-1])) ** 2, 1),
    TableCase("one row", lambda a, b, s, c: a[2] * b[3, 0], 1),
    TableCase("one row by its index", lambda a, b, s, c: 10.0 * tf.gather(a, [4])[:, :2] - tf.gather(b, [2]), 1),
    TableCase("computed of rows by index", lambda a, b, s, c: tf.cumsum(tf.exp(tf.gather(a, [4]) * b[1, 0])), 1),
    TableCase(
        "in two layouts", lambda a, b, s, c: tf.gather(a, IDS) * tf.gather(tf.reshape(a, [-1]), IDS * 4)[:, None], 2
    ),
    TableCase(
        "in wider rows", lambda a, b, s, c: tf.gather(a, IDS)[:, :2] * tf.gather(tf.reshape(a, [-1, 2]), IDS + 7), 2
    ),
    TableCase(
        "in rows that do not fit",
        lambda a, b, s, c: tf.gather(a, IDS) + tf.gather(tf.reshape(a, [4, 7]), IDS // 2)[:, 1:5],
    ),
    TableCase("a part of one row", lambda a, b, s, c: a[-1, ::2] ** 2, 1),
    TableCase("rows of columns", lambda a, b, s, c: a[1:3, :2] * tf.exp(b[:2]), 1),
    TableCase("neighbours", lambda a, b, s, c: a[1:] - a[:-1], 2),
    TableCase("three in a row", lambda a, b, s, c: tf.sin(a[2:] - 2.0 * a[1:-1] + a[:-2]) * a[1:-1], 4),
    TableCase("columns of neighbours", lambda a, b, s, c: a[1:, :2] - a[:-1, ::2], 2),
    TableCase("a column of neighbours", lambda a, b, s, c: a[1:, 0] - a[:-1, 2], 2),
    TableCase("computed of one row", lambda a, b, s, c: tf.cumsum(tf.exp(a[:1, :3]), axis=1) * b[:1, :1], 1),
    TableCase("computed of a row of a table", lambda a, b, s, c: tf.cumsum(tf.nn.softmax(a)[:1], axis=1) * b[3, 0], 1),
    TableCase(
        "computed of rows, beside rows", lambda a, b, s, c: tf.sin(c) * tf.reduce_sum(tf.exp(a[:1]) * b[2, 1]), 1
    ),
    TableCase("computed of a row", lambda a, b, s, c: tf.cumsum(tf.sin(a[3] * tf.reduce_sum(b[4:5]))), 1),
    TableCase("parts of parts", lambda a, b, s, c: tf.cumsum(a[:1] * a[:1][:, 3:] * a[:1, :2][:, :1], axis=1), 3),
    TableCase(
        "a part of what a part enters", lambda a, b, s, c: tf.cumsum(a[2] + tf.cumsum(a * tf.reduce_sum(a[2]))[1])
    ),
    TableCase("neighbours in a vector", lambda a, b, s, c: tf.reshape(a, [-1])[2:] - tf.reshape(a, [-1])[:-2], 2),
    TableCase("less the mean", lambda a, b, s, c: tf.gather(a - tf.reduce_mean(a, axis=0), IDS)),
    TableCase("scaled", lambda a, b, s, c: tf.gather(s * a, IDS)),
    TableCase("turned", lambda a, b, s, c: tf.gather(tf.transpose(a), [0, 3, 3])),
    TableCase("in a row of its own", lambda a, b, s, c: tf.cumsum(a)[1:]),
    TableCase("reversed", lambda a, b, s, c: tf.gather(a[::-1], IDS), None),
    TableCase("a vector", lambda a, b, s, c: tf.gather(tf.exp(c), IDS), 1),
    TableCase("in a new axis", lambda a, b, s, c: tf.sin(a[tf.newaxis, 1:3]), None),
    TableCase("a part of one row as a matrix", lambda a, b, s, c: tf.slice(a, [2, 1], [1, 2]) ** 2, None),
    TableCase("whole rows of a slice", lambda a, b, s, c: tf.gather(tf.slice(a, [1, 0], [6, 4]), [0, 3, 3]), 1),
    TableCase("of open size", lambda a, b, s, c: tf.gather(tf.exp(opened(a, s)), IDS)),
    TableCase("of open size, by tuples", lambda a, b, s, c: tf.gather_nd(tf.exp(opened(a, s)), IDS[:, None])),
    TableCase("a slice of open size", lambda a, b, s, c: tf.gather(a[nothing(s) :], IDS)),
    TableCase("a slice of what is of open size", lambda a, b, s, c: tf.gather(opened(a, s)[1:], IDS % 6)),
    TableCase(
        "of fixed size of what is of open size",
        lambda a, b, s, c: tf.gather(tf.slice(opened(a, s), [1, 0], [5, 4]), IDS % 5),
    ),
    TableCase("of a new axis", lambda a, b, s, c: tf.gather(a[tf.newaxis, 1:3], [0, 0, 0]), None),
    TableCase("of one row", lambda a, b, s, c: tf.gather(tf.slice(a, [2, 1], [1, 2]), [0, 0, 0]), 1),
    TableCase(
        "of open width", lambda a, b, s, c: tf.gather(tf.exp(tf.concat([a, b[:, : 1 + nothing(s)]], 1)), IDS), None
    ),
    TableCase("of a tensor", lambda a, b, s, c: tf.gather(tf.exp(a) * c[:, None], IDS), 1, of_tensors=True),
    TableCase("read, computed and read", lambda a, b, s, c: tf.gather(tf.exp(tf.gather(b, OF_ROWS)), IDS), None),
    TableCase(
        "by a branch", lambda a, b, s, c: tf.gather(tf.cond(s > 9.0, lambda: a * a, lambda: tf.exp(a)), IDS), None
    ),
    TableCase("by a loop", lambda a, b, s, c: tf.gather(tf.map_fn(lambda row: tf.cumsum(row) * row[0], a), IDS), None),
]


def variables():
    """Return a, b, s and c."""
    rng = np.random.default_rng(0)
    return [tf.Variable(rng.normal(size=shape)) for shape in ((7, 4), (7, 2), (), (7,))]


def check_table(case):
    """Check J of the squares against TensorFlow's, taken row by row, and the kind of its factors."""
    kinds, made = [], variables()

    @tf.function(autograph=False)
    def both():
        given = [tf.identity(variable) for variable in made] if case.of_tensors else made
        with tf.GradientTape(persistent=True) as tape:
            tape.watch(given)
            y = case.function(*given) ** 2
        rows = [tape.jacobian(y, variable, experimental_use_pfor=False) for variable in given]
        used = [(variable, row) for variable, row in zip(given, rows) if row is not None]
        operator = jacobian_operator(y, [variable for variable, _ in used], examples_mix="full")
        kinds.extend(operator.factors)
        parts = [tf.reshape(tf.convert_to_tensor(row), [tf.size(y), tf.size(variable)]) for variable, row in used]
        return operator.to_dense(), tf.concat(parts, axis=1)

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "tfjac")
        ours, theirs = both()
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-12, err_msg=case.name)
    touched = [factor.ids.shape[1] if isinstance(factor, GatherFactor) else 0 for factor in kinds]
    assert case.positions is None or touched == [case.positions] * len(kinds), f"{case.name}: {touched}"
