"""The tables of rules, and which rules answer while a case runs."""

import contextlib
import functools

import pytest

from tfjac.graph import row_rules
from tfjac.graph.example_rules import registry as example_rules
from tfjac.jacobians.factors.control_flow import sweep
from tfjac.jacobians.factors.rules import registry as factor_rules

TABLES = {
    "example": [example_rules._RULES, example_rules._BODY_RULES],
    "factor": [factor_rules._RULES],
    "row": [row_rules._RULES],
    "handler": [sweep._HANDLERS],
}


def op_types(table):
    """The op types that a table has rules for."""
    return {op_type for part in TABLES[table] for op_type in part}


@contextlib.contextmanager
def answering():
    """Give a set that fills with pairs of a table and an op type: the rules that gave an answer, and did not refuse."""
    answered = set()
    with pytest.MonkeyPatch.context() as patch:
        for table, parts in TABLES.items():
            for part in parts:
                for op_type, rule in part.items():
                    patch.setitem(part, op_type, _recording(rule, answered, (table, op_type)))
        yield answered


def _recording(rule, answered, place):
    @functools.wraps(rule)
    def recording(*arguments):
        answer = rule(*arguments)
        if answer is not None or place[0] == "handler":  # of a row rule None says that no row leaves its place
            answered.add(place)
        return answer

    return recording
