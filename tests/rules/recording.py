"""The tables of rules, and which rules answer while a case runs."""

import contextlib
import functools

import pytest

from tfjac.graph.facts import facts_by_type
from tfjac.jacobians.factors.control_flow import sweep
from tfjac.jacobians.factors.rules import factor_rules

TABLES = {"factor": factor_rules._RULES, "handler": sweep._HANDLERS}
FACTS = {"example_axis": "example", "axes_of_body": "example", "rows": "row"}
"""Facts of op types that are rules, and the table that they count as."""


def op_types(table):
    """The op types that a table has rules for."""
    if table in TABLES:
        return set(TABLES[table])
    names = [name for name in FACTS if FACTS[name] == table]
    return {op_type for op_type, facts in facts_by_type().items() if any(getattr(facts, name) for name in names)}


@contextlib.contextmanager
def answering():
    """Give a set that fills with pairs of a table and an op type: the rules that gave an answer, and did not refuse."""
    answered = set()
    with pytest.MonkeyPatch.context() as patch:
        for table, rules in TABLES.items():
            for op_type, rule in rules.items():
                patch.setitem(rules, op_type, _recording(rule, answered, (table, op_type)))
        for op_type, facts in facts_by_type().items():
            for name, table in FACTS.items():
                if getattr(facts, name) is not None:
                    patch.setattr(facts, name, _recording(getattr(facts, name), answered, (table, op_type)))
        yield answered


def _recording(rule, answered, place):
    @functools.wraps(rule)
    def recording(*arguments):
        answer = rule(*arguments)
        if answer is not None or place[0] == "handler":  # of a row rule None says that no row leaves its place
            answered.add(place)
        return answer

    return recording
