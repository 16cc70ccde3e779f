"""The table from op type to rule."""

_RULES = {}


class NoFactor(Exception):
    """The rule does not cover this use; the message says why."""


def rule(*op_types):
    """Register a rule for `op_types`."""

    def register(function):
        for op_type in op_types:
            _RULES[op_type] = function
        return function

    return register


def has_rule(op_type):
    """Return whether there is a rule for ops of this type."""
    return op_type in _RULES


def factor_of(use):
    """Return the factor of `use`.

    Raises:
        NoFactor: where no rule covers it.
    """
    if use.op.type not in _RULES:
        raise NoFactor("there is no rule for ops of this type")
    return _RULES[use.op.type](use)
