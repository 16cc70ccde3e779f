"""Tables that are read by index: whatever rows are made of, J keeps to the rows that are read."""

import numpy as np
import pytest
import tensorflow as tf

from tests.rules.gather_cases import CASES as GATHERED
from tests.rules.gather_cases import check_gathered
from tests.rules.table_cases import CASES, check_table, variables
from tfjac.jacobians import batch_jacobian, jacobian_operator, per_example_jacobian
from tfjac.jacobians.factors import tables
from tfjac.linear.factors.gather_factor import GatherFactor


@pytest.mark.by_day(one_in=3)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_rows_that_are_read(case):
    check_table(case)


@pytest.mark.by_day(one_in=6)
@pytest.mark.parametrize("case", GATHERED, ids=lambda case: case.name)
def test_products_and_norms(case):
    check_gathered(case)


def test_a_single_example_keeps_to_its_row():
    kinds = []
    table, _, scale, _ = variables()
    dense = tf.function(
        lambda: kinds.extend(jacobian_operator(table[2:3] * scale, [table]).factors) or kinds[0].dense()
    )
    expected = np.zeros([1, 4, 28])
    expected[0, range(4), range(8, 12)] = scale
    np.testing.assert_allclose(dense(), expected)
    assert isinstance(kinds[0], GatherFactor) and kinds[0].ids.shape == [1, 1]


def test_a_table_that_is_read_twice_is_differentiated_once(monkeypatch, rng):
    """Unit vectors made of rows, of which each example reads two: one Jacobian of the rows for both."""
    made, blocks_of_rows = [], tables._blocks_of_rows
    monkeypatch.setattr(tables, "_blocks_of_rows", lambda *given: made.append(given) or blocks_of_rows(*given))
    table, here, there = rng.normal(size=(5, 3)), np.array([0, 4, 2, 2]), np.array([1, 4, 0, 3])
    variable = tf.Variable(table)

    @tf.function
    def dense():
        units = tf.linalg.l2_normalize(variable, axis=1)
        y = tf.gather(units, here) * 2.0 - tf.gather(units, there)
        return jacobian_operator(y, [variable]).factors[0].dense()

    lengths = np.linalg.norm(table, axis=1)[:, None, None]
    units = table[:, :, None] / lengths
    rows = (np.eye(3) - units * units.transpose(0, 2, 1)) / lengths
    expected = np.zeros((4, 3, 5, 3))
    for example in range(4):
        expected[example, :, here[example]] += 2 * rows[here[example]]
        expected[example, :, there[example]] -= rows[there[example]]
    np.testing.assert_allclose(dense(), expected.reshape(4, 3, 15), atol=1e-12)
    assert len(made) == 1


@pytest.mark.parametrize("kept", [True, False])
def test_a_tensor_with_a_row_for_each_example(kept, rng):
    """J is a row of blocks for each, whatever else reads the same tensor; in a loop it is taken row by row."""
    x, scale, kinds = rng.normal(size=(6, 3)), rng.normal(size=(3, 4)), []

    @tf.function
    def dense():
        rows = tf.identity(x)
        looped = lambda: tf.while_loop(lambda k, _: k < 1, lambda k, y: (k + 1, tf.exp(y)), (0, rows))[1]  # noqa: E731
        y = tf.exp(rows) @ scale if kept else looped()
        kinds[:] = jacobian_operator(y, [rows], examples_mix="full").factors
        return kinds[0].dense()

    block = np.einsum("nk,km->nmk", np.exp(x), scale if kept else np.eye(3))
    expected = np.einsum("nmk,ni->nmik", block, np.eye(6)).reshape(6, -1, 18)
    np.testing.assert_allclose(dense(), expected, atol=1e-12)
    assert isinstance(kinds[0], GatherFactor) == kept


@tf.custom_gradient
def cubed(x):
    return x**3, lambda upstream: 3 * upstream * x**2


ROWS = np.array([3, 0, 0, 5, 2, 1])
BY_ROWS_AND_WHOLE = {
    "difference": lambda w, x: w - tf.gather(w, ROWS),
    "three times": lambda w, x: w * tf.gather(w, ROWS) + tf.sin(w) * tf.gather(w, ROWS[::-1]),
    "twice at one op": lambda w, x: w * w * tf.gather(w, ROWS),
    "chosen": lambda w, x: tf.where(w > 0.3, w, 2.0 * tf.gather(w, ROWS)),
    "one output": lambda w, x: tf.einsum("nk,nk->n", w, tf.gather(w, ROWS)),
    "side by side": lambda w, x: tf.concat([w, tf.gather(w, ROWS), x], 1),
    "matrices": lambda w, x: tf.linalg.matvec(x[:, :, None] * x[:, None, :], w) - tf.gather(w, ROWS),
    "custom": lambda w, x: cubed(w) - tf.gather(w, ROWS),
    "distances": lambda w, x: tf.norm(w - tf.gather(w, ROWS) + x, axis=1),
    "broadcast": lambda w, x: w[:, :1] * x - tf.gather(w, ROWS),
    "stacked": lambda w, x: tf.stack([w, tf.gather(w, ROWS)], 2) * x[:, :, None],
}


@pytest.mark.by_day(one_in=11)
@pytest.mark.parametrize("under_xla", [False, True])
@pytest.mark.parametrize("name", BY_ROWS_AND_WHOLE)
def test_a_table_used_by_rows_and_whole(name, under_xla, rng):
    """Beside a tape: of a table made from a variable, each example takes its row at one op, and any row at another."""
    variable, x = tf.Variable(rng.normal(size=(6, 3))), tf.constant(rng.normal(size=(6, 3)))
    kinds = []

    def outputs():
        return BY_ROWS_AND_WHOLE[name](tf.exp(0.3 * variable), x)

    @tf.function(jit_compile=under_xla)
    def dense():
        kinds[:] = jacobian_operator(outputs(), [variable], examples_mix="full", verify=not under_xla).factors
        return kinds[0].dense()

    with tf.GradientTape() as tape:
        y = outputs()
    expected = tf.reshape(tape.jacobian(y, variable), [6, -1, 18])
    np.testing.assert_allclose(dense(), expected, atol=1e-12)
    assert isinstance(kinds[0], GatherFactor)


def test_what_is_used_by_rows_and_whole_is_refused_unless_asked_for(rng):
    """Data may stand in variables, too: then their mean mixes examples."""
    data, w = tf.Variable(rng.normal(size=(6, 3)), trainable=False), tf.Variable(rng.normal(size=(3, 2)))

    def centred():
        hidden = data @ w
        return hidden - tf.reduce_mean(hidden, 0)

    with pytest.raises(ValueError, match="examples mix"):
        per_example_jacobian(centred, w)
    expected = np.einsum("ni,jo->njio", data - np.mean(data, 0), np.eye(2))
    np.testing.assert_allclose(per_example_jacobian(centred, w, examples_mix="full"), expected, atol=1e-12)


def test_data_that_are_used_by_rows_and_whole_mix(rng):
    """What is of weights alone may be split so; a tensor of data that J is taken of may not."""

    @tf.function
    def blocks(x):
        rows = tf.exp(x)
        return batch_jacobian(rows - tf.gather(rows, ROWS), x)

    with pytest.raises(ValueError, match="examples mix"):
        blocks(tf.constant(rng.normal(size=(6, 3))))
