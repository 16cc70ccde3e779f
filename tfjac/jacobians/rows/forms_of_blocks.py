"""In which form the Jacobian of a block of residuals is kept: factors by rules, compressed, products, or row by row."""

import contextlib
import contextvars
import math
from collections.abc import Iterator
from functools import partial
from typing import Any

import tensorflow as tf

from tfjac.graph import Dependence, ExamplesMix, analyse_examples, ancestors, between, inline_calls, source_in
from tfjac.graph.facts import is_parameter
from tfjac.graph.op_types import CONTRACTIONS
from tfjac.jacobians import JacobianOperator
from tfjac.jacobians.factors.strategies import UNLESS_MIXED
from tfjac.jacobians.operator import operator_of
from tfjac.jacobians.rows.product_rows import drawn_rows, many_rows, product_rows
from tfjac.jacobians.rows.within_budget import OverBudget, factors_within, products_instead
from tfjac.jacobians.sparsity.operator import compressed_operator
from tfjac.jacobians.tangents import NoTangents, few_columns, forward_factors
from tfjac.linear.contracts import AS_FACTORS, Allowed, JacobianBlock
from tfjac.linear.factors.forms import DenseFactor
from tfjac.linear.factors.gather_factor import GatherFactor
from tfjac.types import Tensor

FEW_COLUMNS = 256
"""Columns of a variable up to which it is not worth reading a pattern."""

MANY_OUTPUTS = 16
"""Residuals of an example from which on its elements may read far less than the example does."""

SHARE = 4
"""A pattern must have so many times fewer numbers than what it is in the place of."""

LONG = 200
"""Ops on the way from few parameters to residuals from which on tracing their derivatives is what takes long.

Where a loop is on the way, it always does.
"""

MOST = 2**25
"""Numbers of a compressed J, and entries of the index sets of a tensor on the way to it."""


class IndicesWanted(Exception):
    """The structure of J may show if integers that the graph is given are known while it is traced."""


class Structure:
    """What is noted of the structure of J while a graph is traced.

    Attributes:
        asks: whether to raise `IndicesWanted` where integers that are known may show it.
        is_compressed: whether a block was found to be far sparser than its factors by rules.
    """

    def __init__(self, asks: bool) -> None:
        self.asks, self.is_compressed = asks, False


_STRUCTURE: contextvars.ContextVar[Structure | None] = contextvars.ContextVar("structure", default=None)


@contextlib.contextmanager
def noting_structure(asks: bool) -> Iterator[Structure]:
    """Within this context, note what is found of the structure of J; see `Structure`."""
    before = _STRUCTURE.set(noted := Structure(asks))
    try:
        yield noted
    finally:
        _STRUCTURE.reset(before)


def block_of(group: list, variables: list, allowed: Allowed = AS_FACTORS) -> tuple[JacobianBlock, float]:
    """Return the Jacobian of tensors `[n, ...]` that share their n examples, and the bytes of the passes it takes.

    Factors by rules come first, where examples do not mix. The pattern of the Jacobian comes next: where examples mix,
    where factors are over the budget, or where what an example reads is far more than what each of its residuals reads,
    and all sizes are known while tracing. Factors column by column or row by row are next, and products alone
    are last. Before all of these come the tangents of few parameters, through many ops or loops.

    Args:
        group: list of tensors of the graph being traced.
        variables: list of variables, or tensors, each of which some of them depends on.
    """
    if allowed.drawn is not None:
        return drawn_rows(group, variables, allowed.drawn, allowed.by_drawn), 0.0
    numbers = _numbers_if_dense(group, variables)
    if allowed.by_products and many_rows(group, variables):
        block = _compressed(group, variables, numbers, asks=False) or product_rows(group, variables)
        if block is not None:
            return block, 0.0
    if few_columns(variables):
        with contextlib.suppress(NoTangents):
            return operator_of(group, variables, partial(forward_factors, fewest=LONG)), 0.0
    try:
        operator, passes = factors_within(group, variables, allowed, UNLESS_MIXED)
    except (ExamplesMix, OverBudget) as reason:
        return _without_rules(group, variables, allowed, numbers, reason)
    held = _numbers_of(operator)
    block = _compressed(group, variables, held) if _may_hold_less(operator) else None
    return (operator, passes) if block is None else (block, 0.0)


def _without_rules(
    group: list, variables: list, allowed: Allowed, numbers: int | None, reason: Exception
) -> tuple[JacobianBlock, float]:
    """Return what `block_of` does where factors by rules do not serve: there are none, or too large ones."""
    block = _compressed(group, variables, numbers)
    if block is not None:
        return block, 0.0
    try:
        if isinstance(reason, OverBudget):
            raise reason
        return factors_within(group, variables, allowed, "full")
    except OverBudget as over:
        return products_instead(group, variables, over, allowed.budget), 0.0


def examples_mix(tensor: Tensor, variables: list) -> bool:
    """Return whether examples of a tensor `[n, ...]` depend on one another, or may do so."""
    sources = [source_in(tf.compat.v1.get_default_graph(), variable) for variable in variables]
    try:
        analyse_examples(sources, inline_calls([tensor], depends_on=sources), takes_rows_of_weights=True)
    except ExamplesMix:
        return True
    return False


def multiplies_often(tensors: list[Tensor], variables: list) -> bool:
    """Return whether there are more products than variables on the way: layers are shared, or derivatives are taken."""
    sources = [source_in(tf.compat.v1.get_default_graph(), variable) for variable in variables]
    path = between(sources, inline_calls(tensors, depends_on=sources))
    return sum(op.type in CONTRACTIONS for op in path) > len(variables)


def flattened(group: list) -> Tensor:
    """Return the elements of a group in the order of the rows of its operator: example by example."""
    rows = [tf.reshape(tensor, [tf.shape(tensor)[0], -1]) for tensor in group]
    return tf.reshape(rows[0] if len(rows) == 1 else tf.concat(rows, axis=1), [-1])


def _compressed(group: list, variables: list, instead: int | None, asks: bool = True) -> JacobianOperator | None:
    """Return the operator by the pattern of J, where it is far smaller than so many numbers, None if they are open."""
    if max(_size(each) or 0 for each in variables) <= FEW_COLUMNS:
        return None
    operator, noted = None, _STRUCTURE.get()
    if instead is not None:
        y = tf.ensure_shape(flattened(group), [sum(map(_size, group))])
        operator = compressed_operator(y, variables, _rows_of_example(group), min(MOST, instead // SHARE))
    if noted is not None:
        noted.is_compressed |= operator is not None
        if operator is None and asks and noted.asks and _has_open_indices(group, variables):
            raise IndicesWanted
    return operator


def _has_open_indices(group: list, variables: list) -> bool:
    """Whether ops between variables and residuals are given integers that are data of the graph being traced."""
    path = Dependence([source_in(tf.compat.v1.get_default_graph(), variable) for variable in variables]).path(group)
    given = [each for op in path for each in op.inputs if each.dtype.is_integer or each.dtype.is_bool]
    fed = (op.outputs[0].dtype for op in ancestors(given) if is_parameter(op))
    return any(dtype.is_integer or dtype.is_bool for dtype in fed)


def _rows_of_example(group: list) -> list[int]:
    """List how many consecutive rows may make an example: those of trailing axes, or of all tensors of a group.

    Of a vector, which may be made of vectors of two numbers or a few: so many.
    """
    if len(group) > 1:
        return [1, sum(_size(tensor) // tensor.shape[0] for tensor in group)]
    sizes = group[0].shape.as_list()
    if math.prod(sizes[1:]) == 1:
        return [few for few in (1, 2, 3, 4, 6) if sizes[0] % few == 0]
    return [math.prod(sizes[k:]) for k in range(1, len(sizes) + 1)]


def _numbers_if_dense(group: list, variables: list) -> int | None:
    """Return how many numbers a dense J has; None where the graph leaves that open."""
    sizes = [_size(each) for each in (*group, *variables)]
    return None if None in sizes else sum(sizes[: len(group)]) * sum(sizes[len(group) :])


def _numbers_of(operator: JacobianOperator) -> int | None:
    """Return how many numbers factors are made of; None where the graph leaves that open."""
    sizes = [tensor.shape.num_elements() for factor in operator.factors for tensor in factor.tensors()]
    return None if None in sizes else sum(sizes)


def _may_hold_less(operator: JacobianOperator) -> bool:
    """Whether factors were found dense, or what many residuals of an example read is kept for each of them."""
    _, outputs = operator.examples_and_outputs
    return any(
        isinstance(factor, DenseFactor)
        or (isinstance(factor, GatherFactor) and isinstance(outputs, int) and outputs >= MANY_OUTPUTS)
        for factor in operator.factors
        if isinstance(factor.num_columns, int) and factor.num_columns > FEW_COLUMNS
    )


def _size(tensor: Any) -> Any:
    return tensor.shape.num_elements()
