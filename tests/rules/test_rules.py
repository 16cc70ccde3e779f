"""Every rule proves itself: cases against one gradient per row, and no rule that none of them used."""

import functools

import pytest

from tests.rules.cases import APART, MIXING
from tests.rules.recording import FACTS, TABLES, answering, op_types
from tests.rules.running import check, check_mixes
from tfjac.jacobians.factors.uses import ROWS_OF_WEIGHT

pytestmark = pytest.mark.core

SIDE_BY_SIDE = 20
ONLY_REFUSED = {"row": {"While", "StatelessWhile", "If", "StatelessIf", "Case", "StatelessCase"}}
"""What a table is there to refuse, as cases of mixing show."""

ROW_WISE_WRITES = {"DynamicPartition", "DynamicStitch", "ParallelDynamicStitch", "TensorScatterUpdate"}

ELSEWHERE = {"factor": {ROWS_OF_WEIGHT}, "row": ROW_WISE_WRITES}
"""For examples that may mix alone: `test_a_table_used_by_rows_and_whole` and `test_row_wise_writes` have the cases."""


def groups():
    """Cases of one kind side by side, so that one graph serves for many."""
    kinds = {}
    for case in APART:
        kinds.setdefault((case.m, case.rows, case.open, case.jit, case.refused), []).append(case)
    return [kind[k : k + SIDE_BY_SIDE] for kind in kinds.values() for k in range(0, len(kind), SIDE_BY_SIDE)]


GROUPS = groups()


@functools.cache
def rules_answering(index):
    with answering() as answered:
        check(*GROUPS[index])
    return answered


@pytest.mark.parametrize("index", range(len(GROUPS)), ids=lambda index: GROUPS[index][0].name)
def test_rows(index):
    rules_answering(index)


@pytest.mark.parametrize("case", MIXING, ids=lambda case: case.name)
def test_mixing(case):
    check_mixes(case)


@pytest.mark.parametrize("table", sorted({*TABLES, *FACTS.values()}))
def test_every_rule_answers(table):
    answered = set().union(*map(rules_answering, range(len(GROUPS))))
    silent = {op_type for op_type in op_types(table) if (table, op_type) not in answered}
    assert silent == ONLY_REFUSED.get(table, set()) | ELSEWHERE.get(table, set())
