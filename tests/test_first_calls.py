"""A budget of ops: what a first call traces is what users wait for, and what makes the suite long.

The budgets are what was counted, and one part in fifty; who needs more raises the line here, and says why.
"""

import pytest

from benchmarks import first_calls

BUDGETS = {
    "curve_fit": 170, "single_precision": 160, "named_parameters": 170, "keras_full_batch": 1570,
    "keras_batches": 1310, "keras_kronecker": 1750, "keras_recurrent": 3500, "many_fits": 1880, "sparse": 1710,
    "convolutions": 110, "recurrent": 600, "pose_graph": 1770, "bundle": 1550,
}  # fmt: skip


@pytest.mark.parametrize("case", first_calls.CASES, ids=lambda case: case.__name__)
def test_first_call_is_within_its_budget(case, need_native):
    call = case()
    assert first_calls.ops_traced(call) <= BUDGETS[case.__name__]


def test_graphs_are_counted_while_they_are_made():
    import tensorflow as tf

    traced = tf.function(lambda x: x + 1)
    assert first_calls.ops_traced(lambda: traced(tf.ones([2]))) >= 3  # the argument, the sum and the result
    assert first_calls.ops_traced(lambda: traced(tf.ones([2]))) == 0
