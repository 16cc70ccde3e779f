"""The table from op type to rule: from the index sets of an op's inputs to those of its outputs.

A rule is `rule(step) -> list`, the index sets of each output, or None for an output that depends on nothing. It raises
`NoIndexSets` where it does not know; the gradient of the op is then read, and where that does not help, every output
element depends on all that any input depends on.
"""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import tensorflow as tf

from tfjac.graph import has_custom_gradient, registering
from tfjac.jacobians.sparsity.index_sets import IndexSets, all_elements, linked, repeated, union
from tfjac.jacobians.sparsity.lists import ListSets
from tfjac.types import Array

Patterns: TypeAlias = list[IndexSets | Any]
"""Index sets of the inputs, or outputs, of an op; those of lists are `ListSets`. None for nothing."""

_RULES: dict[str, tuple[Callable[["Step"], Patterns], Callable[["Step"], bool]]] = {}
"""From op type to a pair: the rule, and a function of the step that says whether it covers it."""


class NoIndexSets(Exception):
    """What the outputs depend on is not known."""


@dataclasses.dataclass
class Step:
    """An op that index sets are carried through.

    Attributes:
        op: the op.
        patterns: for each input its index sets, or None where it does not depend on x.
        wanted: positions of the outputs whose index sets are asked for.
        walk: the `Propagation` that the op is met in.
    """

    op: tf.Operation
    patterns: Patterns
    wanted: set[int]
    walk: Any

    @property
    def carriers(self) -> list[int]:
        """Positions of the inputs that depend on x."""
        return [k for k, pattern in enumerate(self.patterns) if pattern is not None]

    def shape(self, k: int) -> list[int]:
        """Sizes of the axes of input k."""
        return self.walk.shape(self.op.inputs[k])

    def out_shape(self, k: int = 0) -> list[int]:
        """Sizes of the axes of output k."""
        return self.walk.shape(self.op.outputs[k])

    def size(self, k: int) -> int:
        """Number of elements of input k."""
        return self.walk.size(self.op.inputs[k])

    def out_size(self, k: int = 0) -> int:
        """Number of elements of output k."""
        return self.walk.size(self.op.outputs[k])

    def fixed(self, k: int) -> Array | Any:
        """Return the value of input k where it is the same in every run, else None."""
        return self.walk.known(self.op.inputs[k])

    def value(self, k: int) -> Array:
        """Return the value of input k, which must be fixed."""
        value = self.fixed(k)
        if value is None:
            raise NoIndexSets(f"its input {k} is unknown until it runs")
        return value

    def entries(self, k: int) -> list[Any]:
        """Return the elements of vector input k one by one, None for each that is not fixed."""
        return self.walk.known.entries(self.op.inputs[k])

    def linked(
        self, k: int, labels: Sequence[str | None], out_labels: Sequence[str | None], output: int = 0
    ) -> IndexSets:
        """Return what output elements depend on through input k, by labels of axes; see `index_sets.linked`."""
        return linked(self.patterns[k], labels, self.shape(k), out_labels, self.out_shape(output))


def has_cotangents(dtype: tf.DType) -> bool:
    """Return whether tensors of this dtype have gradients."""
    return dtype.is_floating or dtype.is_complex


def carries_gradient(dtype: tf.DType) -> bool:
    """Return whether tensors of this dtype have gradients, or stand for what has: variables and lists."""
    return has_cotangents(dtype) or dtype in (tf.resource, tf.variant)


def _registering(covers: Callable[["Step"], bool]) -> Callable:
    """Return a decorator `@rule(*op_types)` that enters a rule into the table, for steps for which `covers` holds."""
    return registering(_RULES, lambda function: (function, covers))


def _no_lists(step: Step) -> bool:
    return not any(isinstance(pattern, ListSets) for pattern in step.patterns)


def _carry_gradients(step: Step) -> bool:
    tensors = [step.op.inputs[k] for k in step.carriers] + [step.op.outputs[k] for k in step.wanted]
    return all(carries_gradient(tensor.dtype) for tensor in tensors)


rule = _registering(lambda step: _no_lists(step) and _carry_gradients(step))
"""Register a rule for `op_types`, between inputs and outputs that gradients pass through."""

value_rule = _registering(_no_lists)
"""Register a rule for `op_types` that knows of integers and booleans, too, how values depend on values."""

list_rule = _registering(_carry_gradients)
"""Register a rule for `op_types` that takes lists of tensors: its patterns may be `ListSets`."""


def has_rule(op_type: str) -> bool:
    """Return whether there is a rule for ops of this type."""
    return op_type in _RULES


def index_sets_of(step: Step) -> Patterns:
    """Return the index sets of the outputs of `step.op`.

    Raises:
        NoIndexSets: where nothing is known about ops of this type, or about this use of one, or where its gradient is a
            custom one.
    """
    if has_custom_gradient(step.op) and not step.walk.by_value:
        raise NoIndexSets("it has a custom gradient, which may be anything")
    if not has_rule(step.op.type):
        raise NoIndexSets("nothing is known about ops of this type")
    function, covers = _RULES[step.op.type]
    if not covers(step):
        raise NoIndexSets("its rule does not cover such inputs and outputs")
    return function(step)


def all_of_all(step: Step) -> Patterns:
    """The index sets where nothing is known: every output element depends on everything."""
    patterns = [step.patterns[k] for k in step.carriers]
    rows = [each.all_elements() if isinstance(each, ListSets) else all_elements(each) for each in patterns]
    row = union([row for row in rows if row is not None])
    return [
        None
        if k not in step.wanted
        else ListSets(anywhere=row)
        if output.dtype == tf.variant
        else repeated(row, step.out_size(k))
        for k, output in enumerate(step.op.outputs)
    ]
