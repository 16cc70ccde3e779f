"""J of a block of residuals as factors, if they fit a budget of memory, and else as products alone."""

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import tensorflow as tf

from tfjac._warn import warn
from tfjac.graph import source_in
from tfjac.jacobians.factors.factorize import factorize
from tfjac.jacobians.operator import operator_of
from tfjac.jacobians.passes.chunks import bytes_of_pass
from tfjac.jacobians.passes.linearise import NoForwardMode
from tfjac.jacobians.rows.product_rows import ProductRows, products_of_all_rows
from tfjac.linear.contracts import Allowed
from tfjac.linear.factors.forms import COPIES, DenseFactor
from tfjac.linear.operator import JacobianOperator
from tfjac.memory_budget import bytes_in_words, exceeded
from tfjac.types import Tensor

FEW_ROWS = 1000
"""Residuals so few that it needs no warning that their Jacobian is taken row by row."""

SHARE = 4
"""Of the budget, what passes row by row take at once if all of them would take more."""


class OverBudget(Exception):
    """J as factors takes so many bytes, with the passes that they come from; `mix` where every row costs a pass."""

    def __init__(self, taken: float, mix: Any = None) -> None:
        self.taken, self.mix = taken, mix


class Passes(NamedTuple):
    """What backward passes from a group of tensors take.

    Attributes:
        rows, outputs: how many residuals there are, and how many an example has.
        dense: bytes of J.
        one: bytes of one pass.
    """

    rows: int
    outputs: int
    dense: float
    one: float

    @classmethod
    def of(cls, tensors: list[Tensor], variables: list) -> "Passes | None":
        """Return those of tensors `[n, ...]`; None where the graph leaves sizes open."""
        sizes, columns = ([each.shape.num_elements() for each in part] for part in (tensors, variables))
        if None in (*sizes, *columns) or not tensors[0].shape[0]:
            return None
        rows, graph = sum(sizes), tf.compat.v1.get_default_graph()
        one = sum(bytes_of_pass([source_in(graph, each) for each in variables], tensor) for tensor in tensors)
        dense = rows * sum(columns) * tensors[0].dtype.size
        return None if tf.is_tensor(one) else cls(rows, rows // tensors[0].shape[0], dense, one)


def factors_within(
    tensors: list[Tensor], variables: list, allowed: Allowed, examples_mix: Any
) -> tuple[JacobianOperator, float]:
    """Return the Jacobian of a group of tensors as factors, and the bytes of the passes which these come from.

    Args:
        tensors: list of tensors `[n, ...]` of the graph being traced, with the same n.
        variables: list of variables, or tensors, each of which some of them depends on.
        examples_mix: as of `factorize`.

    Raises:
        OverBudget: if products are allowed instead.
    """
    counted = Passes.of(tensors, variables)
    if counted is None:
        return _with_factors(tensors, variables, examples_mix, None), 0.0
    taken = [counted.outputs * counted.one]

    def passes_at_once(mix: Any, wanted: int | None) -> int | None:
        """Return how many passes are live at once, or refuse them."""
        wanted = at_once = counted.rows if wanted is None else wanted
        if counted.dense + wanted * counted.one > allowed.budget and counted.one:
            at_once = min(at_once, max(1, int(allowed.budget / SHARE // counted.one)))
        taken[0] = at_once * counted.one
        least = COPIES * counted.dense + taken[0]
        if least > allowed.budget and allowed.instead:
            raise OverBudget(least, mix)
        return None if at_once == wanted else at_once

    operator = _with_factors(tensors, variables, examples_mix, passes_at_once)
    held = bytes_of_factors(operator.factors)
    if held + taken[0] > allowed.budget and allowed.instead:
        raise OverBudget(held + taken[0])
    return operator, taken[0]


def bytes_of_factors(factors: list) -> float:
    """Return the bytes that are live while factors, some None, are made, as far as shapes are static."""
    return sum(_bytes_of(factor) for factor in factors if factor is not None)


def _bytes_of(factor: Any) -> float:
    tensors = factor.tensors()
    taken = sum((tensor.shape.num_elements() or 0) * tensor.dtype.size for tensor in tensors)
    return (COPIES if isinstance(factor, DenseFactor) else 1) * taken


def _with_factors(
    tensors: list[Tensor], variables: list, examples_mix: Any, passes_at_once: Callable | None
) -> JacobianOperator:
    """Return the `JacobianOperator` of a group of tensors."""

    def factors_of(ys: list, flat: list) -> list:
        return factorize(ys, flat, examples_mix, passes_at_once=passes_at_once)

    with warnings.catch_warnings():
        if all((tensor.shape.num_elements() or FEW_ROWS + 1) <= FEW_ROWS for tensor in tensors):
            warnings.simplefilter("ignore", UserWarning)  # that every row costs a backward pass, where there are few
        return operator_of(tensors, variables, factors_of)


def products_instead(tensors: list[Tensor], variables: list, over: OverBudget, budget: float) -> ProductRows:
    """Return the `ProductRows` of a group of tensors whose factors are over the budget."""
    mix = over.mix
    why = "" if mix is None else f", as examples mix at op {mix.op.name!r} of type {mix.op.type}"
    try:
        block = products_of_all_rows(tensors, variables)
    except NoForwardMode as failure:
        raise exceeded(f"The Jacobian{why},", over.taken, budget, f"residuals without products, {failure}") from None
    warn(
        f"tfjac: the Jacobian would take {bytes_in_words(over.taken)}{why}, more than the memory budget of "
        f"{bytes_in_words(budget)}, so that steps take products with it alone; plan() says what to write instead."
    )
    return block
