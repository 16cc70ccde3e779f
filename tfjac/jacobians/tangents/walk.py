"""The walk from op to op, in a graph or in the body of a loop, and what is looked at before."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import tensorflow as tf

from tfjac.graph import Dependence, has_custom_gradient
from tfjac.jacobians.tangents.rules import NoTangents, Step, check_of, rule_of
from tfjac.types import Tensor

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
        check_of(op)(op, dependence, most)
