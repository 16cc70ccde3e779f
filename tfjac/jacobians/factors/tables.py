"""Tables whose rows are computed from the same rows of variables, before they are read by index.

Quaternions that are normalised, positions and rotations put side by side, scales that are exponentials: J of what is
read from such a table is that of the table, times the Jacobian of each row, of those rows that are read.
"""

from collections.abc import Sequence

import tensorflow as tf

from tfjac.graph import Dependence, ExampleAnalysis, ExampleAxis, ExamplesMix, analyse_examples, axes
from tfjac.graph.facts import facts_of
from tfjac.jacobians.factors.cotangents import asking_for
from tfjac.jacobians.passes.linearise import pull_back
from tfjac.jacobians.shapes import after, check_when_run
from tfjac.linear.factors.gather_factor import GatherFactor
from tfjac.linear.shapes import product
from tfjac.types import Tensor


def factors_before_rows(factor: GatherFactor, weight: Tensor, dependence: Dependence) -> list | None:
    """Return pairs of the index of a source and its factor, given that of a table; None where rows are not made so.

    Args:
        weight: the tensor `[rows, ...]` that is read.
        dependence: the `Dependence` on the sources.
    """
    tables = _tables(weight, dependence)
    known = weight.shape.is_fully_defined() and weight.shape.rank > 0 and weight.shape[0] == factor.rows
    if not known or not tables or any(table.shape[:1] != weight.shape[:1] for _, table in tables):
        return None
    try:
        analysis = analyse_examples([table for _, table in tables], [weight])
    except ExamplesMix:
        return None
    if analysis.insides or any(analysis.axis(table) != ExampleAxis(0) for _, table in tables):
        return None
    found: dict[int, Tensor] = {}
    blocks = _blocks_of_rows(weight, [table for _, table in tables], analysis)
    for (index, _), block in zip(tables, blocks):
        found[index] = found[index] + block if index in found else block
    return [(index, _through(factor, block)) for index, block in found.items()]


def _tables(weight: Tensor, dependence: Dependence) -> list | None:
    """List the values of the sources on the way to `weight`, with their indices; None where one is used otherwise."""
    tables: list[tuple[int, Tensor]] = []
    for op in dependence.path([weight]):
        for tensor in op.inputs:
            index = next((k for k, source in enumerate(dependence.sources) if source is tensor), None)
            if index is None:
                continue
            if tensor.dtype == tf.resource and facts_of(op).kind != "read":
                return None
            table = op.outputs[0] if tensor.dtype == tf.resource else tensor
            if not any(table is other for _, other in tables):
                tables.append((index, table))
    return tables


def _blocks_of_rows(weight: Tensor, tables: Sequence[Tensor], analysis: ExampleAnalysis) -> list[Tensor]:
    """The Jacobians `[rows, outputs, inputs]` of the rows of `weight` with respect to those of each table."""
    rows, *outputs = axes(weight)
    stacks = pull_back([weight], tables).on_stacks(asking_for(weight, tf.range(product(outputs))))
    stacks = after(check_when_run(analysis.assumed, rows), stacks)
    return [tf.transpose(tf.reshape(stack, [product(outputs), rows, -1]), [1, 0, 2]) for stack in stacks]


def _through(factor: GatherFactor, blocks: Tensor) -> GatherFactor:
    """The factor of what the rows of a table are made of, row by row with the Jacobians `blocks[rows, p, o]`."""
    d = tf.einsum("nmtp,ntpo->nmto", factor.d, tf.cast(tf.gather(blocks, factor.ids), factor.d.dtype))
    return GatherFactor(factor.ids, d, factor.rows)
