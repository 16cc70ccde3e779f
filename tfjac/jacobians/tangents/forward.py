"""The walk from a few parameters to results, and the factors of a Jacobian that it gives."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tfjac.graph import Dependence, inline_calls, mend_gradients
from tfjac.graph.op_types import LOOPS
from tfjac.jacobians.factors.factorize import real_source_in
from tfjac.jacobians.factors.strategies import in_dtype_of
from tfjac.jacobians.passes.nests import like
from tfjac.jacobians.passes.random_cotangents import verify_factors
from tfjac.jacobians.tangents.rules import NoTangents, carried, check_path, spread
from tfjac.linear.factors.forms import DenseFactor, Factor
from tfjac.types import Tensor, Variable

COLUMNS = 16
"""Parameters up to which their tangents are carried all at once."""

NUMBERS = 2**14
"""Numbers of the tangents of one tensor up to which an op takes hardly longer than for one number."""


def few_columns(variables: Sequence[Variable | Tensor]) -> bool:
    """Return whether variables have so few elements that forward mode may be the shortest way."""
    sizes = [_size(variable) for variable in variables]
    return None not in sizes and 0 < sum(sizes) <= COLUMNS


def forward_factors(ys: Sequence[Tensor], variables: Sequence[Variable | Tensor], fewest: int = 0) -> list[Factor]:
    """Return a `DenseFactor` of ∂ys/∂v for each variable v, from tangents that are carried forward.

    Args:
        ys: list of tensors `[n, ...]` of the `tf.function` being traced, with the same n.
        variables: list of variables, or tensors, of few elements, see `few_columns`.
        fewest: of how many ops the way must be, if there is no loop on it.

    Raises:
        NoTangents: where there are fewer ops; where an op on the way has no rule, a custom gradient, or a tensor of
            another dtype, of an open shape or too large for this to be the shortest way; or where no y depends on a
            variable.

    Cost: one or two ops for each op on the way, whose results have p times the numbers.
    """
    graph = ys[0].graph
    sources = [real_source_in(graph, variable) for variable in variables]
    if None in sources:
        raise NoTangents
    given, ys = ys, inline_calls(ys, depends_on=sources)
    sizes = [_size(variable) for variable in variables]
    path = _checked_path(ys, sources, NUMBERS // sum(sizes), fewest)
    rows = _rows(ys, carried(path, _seeds(sources, variables), sum(sizes)), sum(sizes))
    factors = [in_dtype_of(DenseFactor(part), v) for part, v in zip(tf.split(rows, sizes, 2), variables)]
    verify_factors(None, given, ys, sources, factors, variables)
    return factors


def _seeds(sources: Sequence[Tensor], variables: Sequence[Variable | Tensor]) -> dict[Any, Tensor]:
    """Return the tangents of the parameters themselves, a dict from `ref()` of the sources: slices of the identity."""
    shapes = [like(variable).shape for variable in variables]
    identity = np.eye(sum(shape.num_elements() for shape in shapes))
    parts = np.split(identity, np.cumsum([shape.num_elements() for shape in shapes])[:-1], axis=1)
    return {
        source.ref(): tf.constant(part.reshape(-1, *shape), like(variable).dtype)
        for source, variable, shape, part in zip(sources, variables, shapes, parts)
    }


def _rows(ys: Sequence[Tensor], found: Mapping[Any, Tensor], count: int) -> Tensor:
    """Return the tangents of ys as one tensor `[n,m,p]`."""
    parts = []
    for y in ys:
        shape = [count, *y.shape]
        tangents = spread(found[y.ref()], shape) if y.ref() in found else tf.zeros(shape, y.dtype)
        parts.append(tf.reshape(tangents, [count, y.shape[0], math.prod(y.shape[1:])]))
    return tf.transpose(parts[0] if len(parts) == 1 else tf.concat(parts, 2), [1, 2, 0])


def _checked_path(ys: Sequence[Tensor], sources: Sequence[Tensor], most: int, fewest: int) -> list[tf.Operation]:
    """Return the ops on the way; or raise `NoTangents` where rules will not do, before an op is added to the graph."""
    dependence = Dependence(sources)
    path = dependence.path(ys)
    if len(path) < fewest and not any(op.type in LOOPS for op in path):
        raise NoTangents
    if dependence.sources_of_any(ys) != set(range(len(sources))) or not all(y.shape.is_fully_defined() for y in ys):
        raise NoTangents
    if len({source.ref() for source in sources}) < len(sources) or len({y.dtype for y in ys}) > 1:
        raise NoTangents
    check_path(path, dependence, most)
    try:
        mend_gradients(path, sources)
    except LookupError:
        raise NoTangents from None
    return path


def _size(variable: Variable | Tensor) -> int | Any:
    return like(variable).shape.num_elements()
