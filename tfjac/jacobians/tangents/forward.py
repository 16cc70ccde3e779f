"""The walk from a few parameters to results, and the factors of a Jacobian that it gives."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tfjac.graph import Dependence, has_custom_gradient, inline_calls, mend_gradients
from tfjac.jacobians.factors.factorize import real_source_in
from tfjac.jacobians.factors.forms import DenseFactor, Factor
from tfjac.jacobians.factors.strategies import in_dtype_of
from tfjac.jacobians.passes.nests import like
from tfjac.jacobians.passes.random_cotangents import verify_factors
from tfjac.jacobians.tangents.rules import NoTangents, Step, rule_of, spread
from tfjac.types import Tensor, Variable

COLUMNS = 16
"""Parameters up to which their tangents are carried all at once."""

DTYPES = (tf.float32, tf.float64)

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
        fewest: of how many ops the way must be.

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
    dependence = Dependence(sources)
    path, sizes = dependence.path(ys), [_size(variable) for variable in variables]
    if len(path) < fewest:
        raise NoTangents
    _check(path, ys, dependence, sources, variables)
    rows = _rows(ys, _carried(path, _seeds(sources, variables)), sum(sizes))
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


def _carried(path: Iterable[tf.Operation], seeds: Mapping[Any, Tensor]) -> dict[Any, Tensor]:
    """Return the tangents of all tensors on the path, a dict from `ref()`."""
    found, kept = dict(seeds), dict[Any, Tensor]()
    count = next(iter(seeds.values())).shape[0]
    for op in path:
        step = Step(op, [found.get(each.ref()) for each in op.inputs], count, kept)
        for output, tangents in zip(op.outputs, rule_of(op)(step)):
            own = seeds.get(output.ref())  # a source may be computed from another
            found[output.ref()] = tangents if own is None else own + tangents
    return found


def _rows(ys: Sequence[Tensor], found: Mapping[Any, Tensor], count: int) -> Tensor:
    """Return the tangents of ys as one tensor `[n,m,p]`."""
    parts = []
    for y in ys:
        shape = [count, *y.shape]
        tangents = spread(found[y.ref()], shape) if y.ref() in found else tf.zeros(shape, y.dtype)
        parts.append(tf.reshape(tangents, [count, y.shape[0], math.prod(y.shape[1:])]))
    return tf.transpose(parts[0] if len(parts) == 1 else tf.concat(parts, 2), [1, 2, 0])


def _check(
    path: Sequence[tf.Operation],
    ys: Sequence[Tensor],
    dependence: Dependence,
    sources: Sequence[Tensor],
    variables: Sequence[Variable | Tensor],
) -> None:
    """Raise `NoTangents` where rules will not do, before an op is added to the graph."""
    if dependence.sources_of_any(ys) != set(range(len(sources))) or not all(y.shape.is_fully_defined() for y in ys):
        raise NoTangents
    if len({source.ref() for source in sources}) < len(sources) or len({y.dtype for y in ys}) > 1:
        raise NoTangents
    most = NUMBERS // sum(map(_size, variables))
    for op in path:
        rule_of(op)
        if has_custom_gradient(op):
            raise NoTangents
        for tensor in (each for each in (*op.inputs, *op.outputs) if each.dtype != tf.resource):
            if not tensor.shape.is_fully_defined():
                raise NoTangents
            if dependence.reaches(tensor) and (tensor.dtype not in DTYPES or tensor.shape.num_elements() > most):
                raise NoTangents
    try:
        mend_gradients(path, sources)
    except LookupError:
        raise NoTangents from None


def _size(variable: Variable | Tensor) -> int | Any:
    return like(variable).shape.num_elements()
