"""Tables that are read by index: whatever rows are made of, J keeps to the rows that are read."""

import numpy as np
import pytest
import tensorflow as tf

from tfjac.jacobians import jacobian_operator
from tfjac.jacobians.factors.forms import DenseFactor
from tfjac.jacobians.factors.gather_factor import GatherFactor

IDS = tf.constant([0, 3, 3, 6, 1, 5])
MATRIX = tf.constant([[1.0, 0.5], [0.0, 2.0]], tf.float64)
OF_ROWS = tf.constant([0, 2, 2, 1, 0, 1, 2])

BY_ROWS = {
    "read": (1, lambda a, b, s: tf.gather(a, IDS)),
    "read by tuples": (1, lambda a, b, s: tf.gather_nd(tf.exp(a), IDS[:, None])),
    "normalised": (1, lambda a, b, s: tf.gather(tf.linalg.l2_normalize(a, axis=-1), IDS)),
    "side by side": (1, lambda a, b, s: tf.gather(tf.concat([a, tf.exp(b)], axis=1), IDS)),
    "some columns": (1, lambda a, b, s: tf.gather(a[:, 1:3], IDS)),
    "used twice": (1, lambda a, b, s: tf.gather(a * a[:, ::-1], IDS)),
    "matrices": (1, lambda a, b, s: tf.linalg.inv(tf.gather(tf.reshape(a, [-1, 2, 2]) @ MATRIX, IDS))),
    "softmax of rows": (1, lambda a, b, s: tf.gather(tf.nn.softmax(a), IDS)),
    "read twice over": (1, lambda a, b, s: tf.gather(tf.gather(a[:3], OF_ROWS), IDS)),
    "read from what was read": (1, lambda a, b, s: tf.gather(tf.gather(tf.exp(b), OF_ROWS), IDS)),
    "own rows": (1, lambda a, b, s: a * tf.sin(b[:, :1])),
    "reshaped": (1, lambda a, b, s: tf.sin(tf.reshape(a, [-1])) ** 2),
    "one row": (1, lambda a, b, s: a[2] * b[3, 0]),
    "a part of one row": (1, lambda a, b, s: a[-1, ::2] ** 2),
    "rows of columns": (1, lambda a, b, s: a[1:3, :2] * tf.exp(b[:2])),
    "neighbours": (2, lambda a, b, s: a[1:] - a[:-1]),
    "three in a row": (4, lambda a, b, s: tf.sin(a[2:] - 2.0 * a[1:-1] + a[:-2]) * a[1:-1]),
    "columns of neighbours": (2, lambda a, b, s: a[1:, :2] - a[:-1, ::2]),
    "a column of neighbours": (2, lambda a, b, s: a[1:, 0] - a[:-1, 2]),
    "neighbours in a vector": (2, lambda a, b, s: tf.reshape(a, [-1])[2:] - tf.reshape(a, [-1])[:-2]),
}
WHOLE = {
    "less the mean": lambda a, b, s: tf.gather(a - tf.reduce_mean(a, axis=0), IDS),
    "scaled": lambda a, b, s: tf.gather(s * a, IDS),
    "turned": lambda a, b, s: tf.gather(tf.transpose(a), [0, 3, 3]),
    "in a row of its own": lambda a, b, s: tf.cumsum(a)[1:],
    "reversed": lambda a, b, s: tf.gather(a[::-1], IDS),
}


@pytest.fixture(name="variables")
def _variables(rng):
    return [tf.Variable(rng.normal(size=shape)) for shape in ((7, 4), (7, 2), ())]


def factors_and_error(function, variables):
    """The factors of the variables that are used, and how far J is from TensorFlow's, taken row by row."""
    kinds = []

    @tf.function(autograph=False)
    def both():
        with tf.GradientTape(persistent=True) as tape:
            y = function(*variables) ** 2
        rows = [tape.jacobian(y, variable, experimental_use_pfor=False) for variable in variables]
        used = [(variable, row) for variable, row in zip(variables, rows) if row is not None]
        operator = jacobian_operator(y, [variable for variable, _ in used], examples_mix="full")
        kinds.extend(operator.factors)
        parts = [tf.reshape(tf.convert_to_tensor(row), [tf.size(y), tf.size(variable)]) for variable, row in used]
        return operator.to_dense(), tf.concat(parts, axis=1)

    ours, theirs = both()
    return kinds, float(np.max(np.abs(ours - theirs)))


@pytest.mark.parametrize("name", BY_ROWS)
def test_rows_that_are_read(name, variables):
    positions, function = BY_ROWS[name]
    factors, error = factors_and_error(function, variables)
    assert error < 1e-12
    assert all(isinstance(each, GatherFactor) and each.ids.shape[1] == positions for each in factors)


@pytest.mark.parametrize("name", WHOLE)
@pytest.mark.filterwarnings("ignore:tfjac")
def test_where_rows_are_made_of_others(name, variables):
    factors, error = factors_and_error(WHOLE[name], variables)
    assert error < 1e-12
    assert name == "reversed" or all(isinstance(each, DenseFactor) for each in factors)


def test_a_single_example_keeps_to_its_row(variables):
    kinds = []
    table, _, scale = variables
    dense = tf.function(
        lambda: kinds.extend(jacobian_operator(table[2:3] * scale, [table]).factors) or kinds[0].dense()
    )
    expected = np.zeros([1, 4, 28])
    expected[0, range(4), range(8, 12)] = scale
    np.testing.assert_allclose(dense(), expected)
    assert isinstance(kinds[0], GatherFactor) and kinds[0].ids.shape == [1, 1]
