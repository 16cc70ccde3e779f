"""One backward pass for each output of each example: exact whatever the graph does."""

from collections.abc import Callable

import tensorflow as tf

from tfjac._warn import warn
from tfjac.graph import axes
from tfjac.jacobians.factors.strategies.column_by_column import columns_of
from tfjac.jacobians.factors.strategies.problem import Problem
from tfjac.jacobians.passes.linearise import forward_is_less_work, over_basis, pull_back
from tfjac.jacobians.passes.nests import like
from tfjac.linear.factors.forms import DenseFactor, Factor
from tfjac.linear.shapes import product
from tfjac.types import Tensor


def of_one_example(problem: Problem) -> list[Factor] | None:
    """The `Strategy` of one example: it has none to mix with, and costs no more passes than by rules."""
    if problem.ys[0].shape[0] != 1:
        return None
    by_forward = forward_is_less_work(problem.num_rows, problem.num_columns)
    factors = columns_of(problem, problem.chunk_size) if by_forward else None
    return rows_of(problem, problem.chunk_size)() if factors is None else factors


def by_rows(problem: Problem) -> list[Factor]:
    """The `Strategy` that is left where examples mix, with a warning."""
    chunk_size, mix, rows = problem.chunk_size, problem.mix, problem.num_rows
    assert mix is not None and mix.op is not None
    chunk_size = chunk_size if problem.passes_at_once is None else problem.passes_at_once(mix, rows)
    warn(
        f"tfjac: examples mix, or may, at op {mix.op.name!r} of type {mix.op.type} ({mix.reason}): "
        f"{'every row' if rows is None else f'each of the {rows:,} rows'} costs a "
        "backward pass. That is exact, and slow for many rows. Layers that treat examples independently are fast: "
        "LayerNormalization, GroupNormalization, or BatchNormalization with trainable=False.",
    )
    return rows_of(problem, chunk_size)()


def rows_of(problem: Problem, chunk_size: int | Tensor | None) -> Callable[[], list[Factor]]:
    """Return a function that takes the passes, so many at once; the graph is differentiated where this is called."""
    likes, passes, dependence = [like(variable) for variable in problem.variables], [], problem.dependence
    for y in problem.ys:
        connected = dependence.sources_of(y)
        passes.append((y, connected, pull_back([y], [dependence.sources[k] for k in connected])))

    def compute() -> list[Factor]:
        rows: list[list[Tensor]] = [[] for _ in likes]
        for y, connected, backward in passes:
            n, *rest = axes(y)
            m = product(rest)
            blocks = dict(zip(connected, over_basis(backward, y, [likes[k] for k in connected], y, chunk_size)))
            for k, x in enumerate(likes):
                shape = [n, m, product(axes(x))]
                rows[k].append(tf.reshape(blocks[k], shape) if k in blocks else tf.zeros(shape, x.dtype))
        return [DenseFactor(part[0] if len(part) == 1 else tf.concat(part, 1)) for part in rows]

    return compute
