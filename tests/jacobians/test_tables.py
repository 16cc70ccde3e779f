"""Tables that are read by index: whatever rows are made of, J keeps to the rows that are read."""

import numpy as np
import pytest
import tensorflow as tf

from tests.rules.gather_cases import CASES as GATHERED
from tests.rules.gather_cases import check_gathered
from tests.rules.table_cases import CASES, check_table, variables
from tfjac.jacobians import jacobian_operator
from tfjac.jacobians.factors import tables
from tfjac.jacobians.factors.gather_factor import GatherFactor


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_rows_that_are_read(case):
    check_table(case)


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
