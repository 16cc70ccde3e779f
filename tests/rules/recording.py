"""The tables of rules, and what is seen of them while a case runs."""

import contextlib
import dataclasses
import functools

from tfjac.graph import row_rules
from tfjac.graph.example_rules import SHARED, ExampleAxis, NoRule, registry
from tfjac.jacobians.control_flow import sweep
from tfjac.jacobians.rules import NoFactor
from tfjac.jacobians.rules import registry as factor_registry

TABLES = {
    "example": [registry._RULES, registry._BODY_RULES],
    "factor": [factor_registry._RULES],
    "row": [row_rules._RULES],
    "loop": [sweep._HANDLERS],
}
REFUSALS = (NoRule, NoFactor)


@dataclasses.dataclass(frozen=True)
class Call:
    """What a rule was asked, and said.

    Attributes:
        table, op_type: which rule.
        behind: whether the examples were along another axis than the first, or not alone there.
        refused: whether it said that it does not cover this.
        weight: which input was the weight, for factors; else None.
    """

    table: str
    op_type: str
    behind: bool
    refused: bool
    weight: int | None = None


def op_types(table):
    """All op types of a table."""
    return [op_type for part in TABLES[table] for op_type in part]


def function_of(table, op_type):
    """The rule itself."""
    return next(part[op_type] for part in TABLES[table] if op_type in part)


@contextlib.contextmanager
def replaced(table, op_type, rule):
    """Put another rule in the place of one."""
    part = next(part for part in TABLES[table] if op_type in part)
    original = part[op_type]
    part[op_type] = rule
    try:
        yield
    finally:
        part[op_type] = original


@contextlib.contextmanager
def recorded():
    """Give a set that fills with the `Call`s of all rules."""
    calls = set()
    with contextlib.ExitStack() as stack:
        for table in TABLES:
            for op_type in op_types(table):
                stack.enter_context(
                    replaced(table, op_type, _watched(table, op_type, function_of(table, op_type), calls))
                )
        yield calls


def _watched(table, op_type, rule, calls):
    @functools.wraps(rule)
    def watched(*arguments):
        asked = arguments[1] if table in ("example", "row") else getattr(arguments[0], "axis", None)
        weight = arguments[0].weight_index if table == "factor" else None
        call = functools.partial(Call, table, op_type, _is_behind(asked))
        try:
            answer = rule(*arguments)
        except REFUSALS:
            calls.add(call(refused=True, weight=weight))
            raise
        calls.add(call(refused=table == "row" and answer is None, weight=weight))
        return answer

    return watched


def _is_behind(asked):
    """Whether an axis, or one of those of several outputs, is another than the plain first one."""
    axes = asked.values() if isinstance(asked, dict) else [asked]
    return any(isinstance(axis, ExampleAxis) and axis != ExampleAxis(0) for axis in axes if axis is not SHARED)
