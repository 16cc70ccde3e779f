"""Ways to factor a Jacobian: a file for each, with the contract that `problem.Strategy` declares."""

from tfjac.jacobians.factors.strategies.apart import APART, by_rules
from tfjac.jacobians.factors.strategies.column_by_column import by_columns
from tfjac.jacobians.factors.strategies.problem import (
    AS_IF_APART,
    UNLESS_MIXED,
    Problem,
    Strategy,
    first_of,
    in_dtype_of,
)
from tfjac.jacobians.factors.strategies.row_by_row import by_rows, of_one_example
from tfjac.jacobians.factors.strategies.segments import by_checked_segments, by_segments, of_moved_rows
from tfjac.jacobians.factors.strategies.shared_values import by_shared_values

ORDERS: dict[str, tuple[Strategy, ...]] = {
    "error": (*APART, of_one_example, of_moved_rows),
    "full": (by_segments, *APART, of_one_example, by_segments, by_shared_values, by_columns, by_rows),
    UNLESS_MIXED: APART,
    AS_IF_APART: (by_rules,),
}
"""The strategies that are tried, in order, for each choice of `examples_mix`."""
