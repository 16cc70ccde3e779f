"""The table from op type to rule: from the tangents of an op's inputs to those of its outputs.

The tangents of a tensor are one tensor `[p, *shape]`, slice k that of parameter k. Axes of size 1 may stand for larger
ones, as in broadcasting. A rule is `rule(step) -> list`, the tangents of each output, or None where these are zero. It
raises `NoTangents` where it does not know.
"""

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import tensorflow as tf

from tfjac.graph import Dependence, has_custom_gradient, registering
from tfjac.types import Array, Tensor

_RULES: dict[str, "Rule"] = {}

_CHECKS: dict[str, Callable] = {}


class NoTangents(Exception):
    """What the tangents are is not known by rules."""


@dataclasses.dataclass
class Step:
    """An op that tangents are carried through.

    Attributes:
        op: the op; the shapes of its inputs and outputs are static.
        tangents: for each input its tangents, or None where it does not depend on the parameters.
        count: p.
        kept: dict of what was made for earlier steps of the same walk.
    """

    op: tf.Operation
    tangents: list[Tensor | Any]
    count: int
    kept: dict[Any, Tensor]

    @property
    def carriers(self) -> list[int]:
        """Positions of the inputs that depend on the parameters."""
        return [k for k, tangents in enumerate(self.tangents) if tangents is not None]

    def aligned(self, k: int) -> Tensor:
        """Return the tangents of input k with as many axes as the first output's, for broadcasting."""
        tangents, rank = self.tangents[k], self.op.outputs[0].shape.rank + 1
        if tangents.shape.rank == rank:
            return tangents
        shape = [self.count, *[1] * (rank - tangents.shape.rank), *tangents.shape[1:]]
        return self._once((tangents.ref(), rank), lambda: tf.reshape(tangents, shape))

    def ones(self) -> Tensor:
        """Return ones like the first output."""
        (output, *_) = self.op.outputs
        return self._once((*output.shape, output.dtype), lambda: tf.ones(output.shape, output.dtype))

    def _once(self, key: tuple, make: Callable[[], Tensor]) -> Tensor:
        if key not in self.kept:
            self.kept[key] = make()
        return self.kept[key]

    def full(self, k: int) -> Tensor:
        """Return the tangents of input k, `[p, *shape]`: zeros where there are none, and nothing stands for more."""
        shape = [self.count, *self.op.inputs[k].shape]
        if self.tangents[k] is None:
            return tf.zeros(shape, self.op.inputs[k].dtype)
        return spread(self.tangents[k], shape)

    def fixed(self, k: int) -> Array:
        """Return the value of input k, an array.

        Raises:
            NoTangents: where the graph does not fix it.
        """
        value = tf.get_static_value(self.op.inputs[k])
        if value is None:
            raise NoTangents
        return value

    def only(self, *positions: int) -> None:
        """Raise `NoTangents` unless inputs at `positions` alone depend on the parameters."""
        if not set(self.carriers) <= set(positions):
            raise NoTangents


Rule: TypeAlias = Callable[["Step"], list[Tensor]]
"""From a step to the tangents of each output of its op."""


def spread(tangents: Tensor, shape: Sequence[int]) -> Tensor:
    """Return tangents with the axes that stand for larger ones at full size."""
    return tangents if tangents.shape == shape else tf.broadcast_to(tangents, shape)


rule = registering(_RULES)


def rule_of(op: tf.Operation) -> Rule:
    """Return the rule for `op`.

    Raises:
        NoTangents: where there is none.
    """
    if op.type not in _RULES:
        raise NoTangents
    return _RULES[op.type]


check = registering(_CHECKS)
"""Register what is looked at besides before the rule is used: `(op, dependence, most)`, as for `check_path`."""


def types_with_rules() -> set[str]:
    """Return the op types that have a rule, a set."""
    return set(_RULES)


DTYPES = (tf.float32, tf.float64)

WITHOUT_SHAPES = (tf.resource, tf.variant)
"""The dtypes of handles of variables, and of lists of tensors."""


def carried(path: Iterable[tf.Operation], seeds: Mapping[Any, Tensor], count: int) -> dict[Any, Tensor]:
    """Return the tangents of all tensors on the path, a dict from `ref()`.

    Args:
        path: ops of the current graph, inputs before consumers.
        seeds: the tangents where it begins, a dict from `ref()`.
        count: p.
    """
    found, kept = dict(seeds), dict[Any, Tensor]()
    for op in path:
        step = Step(op, [found.get(each.ref()) for each in op.inputs], count, kept)
        for output, tangents in zip(op.outputs, rule_of(op)(step)):
            own = seeds.get(output.ref())  # a source may be computed from another
            if tangents is not None:
                found[output.ref()] = tangents if own is None else own + tangents
    return found


def check_path(path: Sequence[tf.Operation], dependence: Dependence, most: int) -> None:
    """Raise `NoTangents` where rules will not do, before an op is added to the graph.

    Args:
        path: ops of one graph, inputs before consumers.
        dependence: the `Dependence` on what tangents are carried from.
        most: numbers of a tensor up to which this may be the shortest way.
    """
    for op in path:
        rule_of(op)
        if has_custom_gradient(op):
            raise NoTangents
        for tensor in (each for each in (*op.inputs, *op.outputs) if each.dtype not in WITHOUT_SHAPES):
            if not tensor.shape.is_fully_defined():
                raise NoTangents
            if dependence.reaches(tensor) and (tensor.dtype not in DTYPES or tensor.shape.num_elements() > most):
                raise NoTangents
        if op.type in _CHECKS:
            _CHECKS[op.type](op, dependence, most)
