"""From the tensors that meet the data back to the variables they were computed from."""

import math
from collections.abc import Iterable, Sequence
from typing import Any

import tensorflow as tf

from tfjac.graph import Dependence, axes, handle_shape, references
from tfjac.graph.facts import facts_of, reads_variable
from tfjac.jacobians.factors.slices import sliced
from tfjac.jacobians.factors.tables import factors_before_rows
from tfjac.jacobians.passes.linearise import pull_back
from tfjac.linear.factors.forms import DenseFactor, Factor, OuterFactor, sums
from tfjac.linear.factors.gather_factor import GatherFactor
from tfjac.linear.shapes import Size, wide_dtype
from tfjac.types import Tensor


def columns_of_sources(parts: Sequence, dependence: Dependence) -> list[list[Factor]]:
    """Turn factors with respect to weights into factors with respect to the sources that these are computed from.

    Args:
        parts: list of pairs of a weight, the tensor at a use, and the `Factor` whose columns belong to its elements.
        dependence: the `Dependence` on the sources: handles of variables, or tensors.

    Returns:
        For each source the list of its factors, which add up. Where the path from it only reads, casts, reshapes, makes
        complex, or transposes a matrix they are made of the same tensors, dense columns are scaled where it scales
        elements, and what reads rows by index reads them of tables that are computed row by row; all others are pulled
        back together, by n·m products with the transposed Jacobian of their paths.
    """
    found: list[list[Factor]] = [[] for _ in dependence.sources]
    computed, pending = [], list(parts)
    while pending:
        computed = _follow(pending, found, dependence)
        tables = _parts_of_tables([weight for weight, _ in computed], dependence)
        pending = _pulled_back(computed, tables) if tables else []
    indices = sorted(dependence.sources_of_any([weight for weight, _ in computed]))
    sources = [dependence.sources[index] for index in indices]
    for index, (_, factor) in zip(indices, _pulled_back(computed, sources) if computed else []):
        found[index].append(factor)
    return found


def _follow(parts: Sequence, found: list, dependence: Dependence) -> list:
    """Follow weights back to the sources, by their ops; return those, with factors, that must be pulled back.

    The last weights first, so that dense factors of one that several others are computed from add up: paths that fork
    and meet again, such as w + C·w many times over, are exponentially many.

    Args:
        parts: list of pairs of a weight and its factor.
        found: for each source the list of its factors, which grows.
        dependence: the `Dependence` on the sources.
    """
    waiting: dict[Any, list] = {}
    _wait(parts, waiting)
    path = dependence.path([weight for weight, _ in parts])
    backwards = [output for op in reversed(path) for output in op.outputs]
    computed: list = []
    for weight in backwards + [source for source in dependence.sources if source is not None]:
        for factor in _added_up(waiting.pop(weight.ref(), [])):
            _wait(_one_op_back(weight, factor, found, computed, dependence), waiting)
    if waiting:
        lost = next(iter(waiting)).deref()
        raise RuntimeError(f"tfjac lost the path from {lost.name!r} to the variables; please report this")
    return computed


def _wait(parts: Iterable, waiting: dict) -> None:
    for weight, factor in parts:
        waiting.setdefault(weight.ref(), []).append(factor)


def _added_up(factors: Sequence[Factor]) -> list[Factor]:
    """Factors of one weight, with those that are dense, or read rows of a table by index, joined; others stay apart."""
    grow = [factor for factor in factors if isinstance(factor, (DenseFactor, GatherFactor))]
    return [*sums(grow), *(factor for factor in factors if not isinstance(factor, (DenseFactor, GatherFactor)))]


def _one_op_back(weight: Tensor, factor: Factor, found: list, computed: list, dependence: Dependence) -> list:
    """Pairs of each input of the op of `weight` and its factor, none where it goes to `found` or `computed` instead."""
    indices = dependence.sources_of(weight)
    sources = [index for index in indices if dependence.sources[index] is weight]
    if sources == indices:
        for index in sources:
            found[index].append(factor)
        return []
    before = None if sources else _factors_before(weight.op, factor, weight, dependence)
    if before is not None:
        return before
    rows = factors_before_rows(factor, weight, dependence) if isinstance(factor, GatherFactor) else None
    if rows is None:
        computed.append((weight, factor))
    for index, row in rows or ():
        found[index].append(row)
    return []


def _factors_before(op: tf.Operation, factor: Any, weight: Tensor, dependence: Dependence) -> list | None:
    """Pairs of each input of `op` that the sources reach, and the factor for it; None where one must be computed."""
    live = [index for index, tensor in enumerate(op.inputs) if dependence.reaches(tensor)]
    factors = [_factor_before(op, index, factor, weight, dependence) for index in live]
    return None if any(each is None for each in factors) else [(op.inputs[k], each) for k, each in zip(live, factors)]


def _factor_before(op: tf.Operation, index: int, factor: Any, weight: Tensor, dependence: Dependence) -> Any:
    """Return the factor with respect to input `index`, of which `op` made `weight`; None where it must be computed."""
    before, facts = op.inputs[index], facts_of(op)
    if facts.columns == "the same":  # the real part of a complex weight has real columns of its own
        factor = factor.real() if weight.dtype.is_complex and before.dtype.is_floating else factor
        return factor.cast(wide_dtype(before.dtype)) if facts.kind == "cast" else factor
    if facts.columns == "conjugated":
        return factor.conjugated()
    if facts.columns == "of one part" and before.shape.is_fully_defined() and before.shape == weight.shape:
        return factor.real() if index == 0 else factor.imag()
    if facts.takes == "rows by index":
        return _before_gather(op, index, factor, weight)
    if facts.takes in ("a slice", "a strided slice") and index == 0:
        return _before_slice(op, factor, weight)
    if facts.columns in ("transposed", "transposed conjugates"):
        moved = _before_transpose(op, factor, weight)
        return moved.conjugated() if moved is not None and facts.columns == "transposed conjugates" else moved
    if facts.arithmetic is not None and isinstance(factor, DenseFactor) and not weight.dtype.is_complex:
        return _before_arithmetic(op, index, factor, weight)
    return None


def _before_arithmetic(op: tf.Operation, index: int, factor: Any, weight: Tensor) -> Factor | None:
    """The factor before sums and products, as in the scale of a batch normalisation."""
    if not weight.shape.is_fully_defined() or op.inputs[index].shape != weight.shape:
        return None
    kind = facts_of(op).arithmetic
    if kind == "sum":
        return factor
    if kind in ("negative", "difference"):
        return factor if kind == "difference" and index == 0 else factor.scaled(-1)
    if kind == "quotient" and index == 1:
        return None
    other = op.inputs[1 - index]
    slope = tf.cast(other, factor.dtype)
    slope = slope if slope.shape == weight.shape else tf.broadcast_to(slope, weight.shape)
    slope = slope if slope.shape.rank == 1 else tf.reshape(slope, [-1])
    return DenseFactor(factor.j * slope if kind == "product" else factor.j / slope)


def _before_slice(op: tf.Operation, factor: Any, weight: Tensor) -> Factor | None:
    """The factor of a table of which some rows and columns are used; None where dense ones are of most of the table."""
    found = sliced(op) if _keeps_to_rows(factor, weight) or isinstance(factor, GatherFactor) else None
    if found is None:
        return None
    rows = 1 if found.is_one_row else weight.shape[0]
    factor = _by_rows(factor, rows)
    return found.factor(factor) if factor.rows == rows else None


def _before_gather(op: tf.Operation, index: int, factor: Any, weight: Tensor) -> Factor | None:
    """The factor of a table of which rows are read by index, and then rows of these, or all of few."""
    ids, table = op.inputs[1], op.inputs[0]
    along = 0 if reads_variable(op) else tf.get_static_value(op.inputs[2])
    shape = _table_shape(table)
    if index != 0 or along is None or int(along) != 0 or op.get_attr("batch_dims") != 0:
        return None
    if ids.shape.rank != 1 or not isinstance(shape[0], int):
        return None
    if _keeps_to_rows(factor, weight):
        factor = _by_rows(factor, weight.shape[0])
    if not isinstance(factor, GatherFactor) or weight.shape[0] != factor.rows:
        return None
    return GatherFactor(tf.gather(tf.cast(ids, factor.ids.dtype), factor.ids), factor.d, shape[0])


def _keeps_to_rows(factor: Any, weight: Tensor) -> bool:
    """Whether a part of a table has a factor of columns that are best kept to its rows."""
    return _is_part(weight) and (factor.sizes_of_tensors()[0]["n"] == 1 or isinstance(factor, DenseFactor))


def _by_rows(factor: Any, rows: Any) -> GatherFactor:
    """The `GatherFactor` of so many rows, all of which each example reads, that is equal to a factor."""
    if isinstance(factor, GatherFactor):
        return factor
    columns = factor.dense()
    n, m, q = axes(columns)
    every = tf.tile(tf.range(rows)[None], [n, 1])
    return GatherFactor(every, tf.reshape(columns, [n, m, rows, q // rows]), rows)


def _before_transpose(op: tf.Operation, factor: Any, weight: Tensor) -> Factor | None:
    order = tf.get_static_value(op.inputs[1])
    if order is None or list(order) == sorted(order):
        return None if order is None else factor
    return factor.transposed(weight.shape) if isinstance(factor, OuterFactor) else None


def _parts_of_tables(weights: Sequence[Tensor], dependence: Dependence) -> list[Tensor]:
    """List the parts of tables that `weights` are computed from, where they are from nothing else of the sources.

    Those nearest to the sources; none of them is computed from another.
    """
    ends, path = references(weights), dependence.path(weights)
    cuts: dict[Any, dict | None] = {source.ref(): None for source in dependence.sources if source is not None}
    for op in path:
        before = [cuts.get(tensor.ref(), {}) for tensor in op.inputs if dependence.reaches(tensor)]
        for output in op.outputs:
            alone = {output.ref(): output} if _is_part(output) and output.ref() not in ends else None
            cuts.setdefault(output.ref(), alone if None in before else _merged(before))
    found = [cuts.get(weight.ref()) for weight in weights]
    if None in found:
        return []
    parts = _merged(found)
    way = dependence.path([tensor for part in parts.values() for tensor in part.op.inputs])
    apart = not any(output.ref() in parts for op in way for output in op.outputs)
    return list(parts.values()) if apart else []


def _merged(cuts: Sequence[dict | None]) -> dict:
    return {ref: part for cut in cuts for ref, part in (cut or {}).items()}


def _is_part(tensor: Tensor) -> bool:
    """Whether a tensor is half of a table, or less."""
    op = tensor.op
    if facts_of(op).takes is None:
        return False
    return 0 < 2 * (tensor.shape.num_elements() or 0) <= (_table_shape(op.inputs[0]).num_elements() or 0)


def _table_shape(table: Tensor) -> tf.TensorShape:
    return handle_shape(table) if table.dtype == tf.resource else table.shape


def _pulled_back(computed: list, sources: Sequence[Tensor]) -> list:
    """Pairs of each of `sources`, tensors, and the sum of the factors for all `computed` weights, taken back to it."""
    weights = [weight for weight, _ in computed]
    rows = [factor.dense() for _, factor in computed]
    n, m, _ = axes(rows[0])
    seeds = [tf.cast(_as_stack(each, n * m, weight), weight.dtype) for each, weight in zip(rows, weights)]
    results = pull_back(weights, sources).on_stacks(*seeds)
    return [(source, DenseFactor(_as_columns(result, n, m))) for source, result in zip(sources, results)]


def _as_stack(rows: Any, count: Size, weight: Tensor) -> Tensor:
    """`[n,m,q]` as `[count, *weight.shape]`."""
    if weight.shape.rank is None:
        return tf.reshape(rows, tf.concat([[count], tf.shape(weight)], 0))
    return tf.reshape(rows, [count, *axes(weight)])


def _as_columns(pulled: Tensor, n: Size, m: Size) -> Tensor:
    sizes = pulled.shape[1:]
    q = math.prod(sizes) if sizes.is_fully_defined() else tf.size(pulled) // (n * m)
    return tf.reshape(pulled, [n, m, q])
