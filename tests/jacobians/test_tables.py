"""Tables that are read by index: whatever rows are made of, J keeps to the rows that are read."""

import numpy as np
import pytest
import tensorflow as tf

from tests.rules.gather_cases import CASES as GATHERED
from tests.rules.gather_cases import check_gathered
from tests.rules.table_cases import CASES, check_table, variables
from tfjac.jacobians import jacobian_operator
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
