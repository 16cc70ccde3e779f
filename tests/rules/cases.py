"""All cases: where a rule is to answer, and where it is to refuse."""

from tests.rules import (
    elementwise_cases,
    factor_cases,
    flow_cases,
    layer_cases,
    matrix_cases,
    move_cases,
    move_mixing_cases,
    row_cases,
)

APART = [
    *elementwise_cases.APART,
    *layer_cases.APART,
    *move_cases.APART,
    *matrix_cases.APART,
    *factor_cases.APART,
    *flow_cases.APART,
    *row_cases.APART,
]
MIXING = [
    *layer_cases.MIXING,
    *move_mixing_cases.MIXING,
    *matrix_cases.MIXING,
    *flow_cases.MIXING,
    *row_cases.MIXING,
]
