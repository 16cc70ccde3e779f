"""From residuals to their Jacobian: those that share their examples together, as one block."""

from typing import Any

import tensorflow as tf

from tfjac.graph import Dependence, ExampleAxis, ExamplesMix, SymbolicSizes, analyse_examples, source_in
from tfjac.graph.facts import facts_of
from tfjac.jacobians.rows.forms_of_blocks import block_of, flattened
from tfjac.jacobians.sparsity.known import Known
from tfjac.linear.columns import Columns
from tfjac.linear.contracts import AS_FACTORS, Allowed, JacobianBlock
from tfjac.linear.factors.forms import DenseFactor
from tfjac.linear.model.right_factor import BlockTimes, Selection
from tfjac.linear.model.stacked import StackedJacobian
from tfjac.linear.operator import JacobianOperator
from tfjac.types import Tensor


def stacked_jacobian(
    rows: list[tuple[Tensor, Tensor]], variables: list, columns: Columns, dtype: tf.DType, allowed: Allowed = AS_FACTORS
) -> tuple[StackedJacobian, Tensor]:
    """Return the `StackedJacobian` of tensors, and the residuals in the order of its rows.

    Args:
        rows: list of pairs of a tensor of any shape, of the graph being traced, whose Jacobian is taken, and its
            residuals, of the same shape; the leading axis is that of examples, where they do not mix.
        variables: list of variables, or of tensors, in the order of the columns.
        columns: `Columns` of the variables.
        dtype: of the variables.
        allowed: how J may be had, see `Allowed`.
    """
    sources = [source_in(tf.compat.v1.get_default_graph(), variable) for variable in variables]
    dependence = Dependence(sources)
    groups = _grouped(rows, dependence)
    tensors = [[tensor for tensor, _ in group] for group in groups]
    blocks = [_block(group, variables, columns, dependence, allowed) for group in tensors]
    operators, passes = [block for block, _ in blocks], sum((taken for _, taken in blocks), start=0.0)
    parts = [flattened([residual for _, residual in group]) for group in groups]
    jacobian = StackedJacobian(operators, [_size(part) for part in parts], columns, dtype, passes, _value_of)
    return jacobian, jacobian.stack(parts)


def stacked_rows(rows: list[tuple[Tensor, Tensor]], variables: list) -> Tensor:
    """Return what belongs to the rows of a `StackedJacobian`, `[rows]`, in their order: the second of each pair.

    Args:
        rows, variables: as for `stacked_jacobian`.
    """
    sources = [source_in(tf.compat.v1.get_default_graph(), variable) for variable in variables]
    groups = _grouped(rows, Dependence(sources))
    return tf.concat([flattened([part for _, part in group]) for group in groups], axis=0)


def _block(
    group: list, variables: list, columns: Columns, dependence: Dependence, allowed: Allowed
) -> tuple[JacobianBlock, float]:
    """Return the Jacobian of a group of tensors, with columns for all variables, and the bytes of its passes."""
    present = sorted(dependence.sources_of_any(group))
    if present:
        block, passes = block_of(group, [variables[index] for index in present], allowed)
    else:
        size = _size(flattened(group))
        no_columns = DenseFactor(tf.zeros([size, 1, 0], group[0].dtype))
        block, passes = JacobianOperator([no_columns], [tf.TensorShape([0])], size, 1), 0.0
    return block if len(present) == len(variables) else BlockTimes(block, Selection(present, columns)), passes


def _size(vector: Tensor) -> int | Tensor:
    return tf.size(vector) if vector.shape[0] is None else vector.shape[0]


def _with_examples(tensor: Tensor) -> Tensor:
    """Return `tensor` with a leading axis; a scalar residual is one example."""
    return tf.reshape(tensor, [1, 1]) if tensor.shape.rank == 0 else tensor


def _grouped(rows: list[tuple[Tensor, Tensor]], dependence: Dependence) -> list[list]:
    """Group pairs by the examples of their first: those that share them have one operator, for a kernel of both."""
    groups: list[list] = []
    indices: list[dict] = []
    for pair in (tuple(map(_with_examples, pair)) for pair in rows):
        own = _row_indices(pair[0], dependence)
        for group, held in zip(groups, indices):
            if not _pick_other_rows(held, own) and _same_examples([t for t, _ in group], pair[0], dependence.sources):
                group.append(pair)
                held.update((source, held.get(source, set()) | own[source]) for source in own)
                break
        else:
            groups.append([pair])
            indices.append(own)
    return groups


def _row_indices(tensor: Tensor, dependence: Dependence) -> dict[int, set]:
    """Return by what `tensor` picks rows of each source: names of tensors, or bytes of constants."""
    found: dict[int, set] = {}
    for op in dependence.path([tensor]):
        if facts_of(op).takes == "rows by index":
            value = tf.get_static_value(op.inputs[1])
            index = op.inputs[1].name if value is None else value.tobytes()
            for source in dependence.sources_of(op.inputs[0]):
                found.setdefault(source, set()).add(index)
    return found


def _pick_other_rows(one: dict[int, set], other: dict[int, set]) -> bool:
    """Whether both pick rows of a source, and never the same: they have other examples, as photographs."""
    common = one.keys() & other.keys()
    return bool(common) and all(one[source].isdisjoint(other[source]) for source in common)


def _same_examples(group: list, tensor: Tensor, sources: list) -> bool:
    """Whether a tensor has the examples of others that belong together: apart they are right as well, but cost more."""
    if tensor.shape[0] != group[0].shape[0]:
        return False
    try:
        analyse_examples(sources, [*group, tensor])
    except ExamplesMix:
        return False
    if tensor.shape[0] is not None:
        return True
    known = set().union(*(_numbers_of_examples(member, sources) for member in group))
    return not known.isdisjoint(_numbers_of_examples(tensor, sources))


def _numbers_of_examples(tensor: Tensor, sources: list) -> set:
    """Return a set of `Size`, by number or name: of the examples of `tensor`, and of what it is computed from."""
    analysis, sizes = analyse_examples(sources, [tensor]), SymbolicSizes().sizes
    given = [pair for op in analysis.path for pair in zip(op.inputs, analysis.input_axes.get(op.name, ()))]
    whole = [(x, axis.axis) for x, axis in given if isinstance(axis, ExampleAxis) and axis == ExampleAxis(axis.axis)]
    return {sizes(x)[axis] for x, axis in [(tensor, 0), *whole] if x.shape.rank is not None}


def _value_of(tensor: Tensor) -> Any:
    """Return the value of a tensor, where it is the same in every run; else None."""
    return Known(tensor.graph)(tensor) if tf.is_symbolic_tensor(tensor) else tensor.numpy()
