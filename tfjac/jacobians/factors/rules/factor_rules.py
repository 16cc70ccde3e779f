"""The table from op type to rule."""

from collections.abc import Callable

from tfjac.graph import has_custom_gradient, registering
from tfjac.graph.facts import instead_of
from tfjac.jacobians.factors.uses import Use
from tfjac.linear.factors.forms import Factor

_RULES: dict[str, Callable[[Use], Factor]] = {}


class NoFactor(Exception):
    """The rule does not cover this use; the message says why."""


rule = registering(_RULES)
"""Register a rule for `op_types`."""


def has_rule(use: Use) -> bool:
    """Return whether there is a rule for uses of this kind, though it may not cover each of them."""
    return use.kind in _RULES


def factor_of(use: Use) -> Factor:
    """Return the factor of `use`.

    Raises:
        NoFactor: where no rule covers it.
    """
    if use.kind == use.op.type and has_custom_gradient(use.op):
        raise NoFactor("it has a custom gradient")
    if not has_rule(use):
        raise NoFactor(f"there is no rule for ops of this type{instead_of(use.op.type)}")
    return _RULES[use.kind](use)
