"""One forward product for each parameter: exact whatever the graph does, and less work where parameters are few."""

from collections.abc import Sequence

import tensorflow as tf

from tfjac._warn import warn
from tfjac.graph import axes
from tfjac.jacobians.factors.strategies.problem import Problem
from tfjac.jacobians.passes.chunks import in_chunks, unless_empty
from tfjac.jacobians.passes.linearise import NoForwardMode, forward_is_less_work, push_forward
from tfjac.jacobians.passes.nests import like
from tfjac.linear.factors.forms import DenseFactor, Factor
from tfjac.linear.shapes import product
from tfjac.types import Tensor

FEW = 256
"""Columns up to which it needs no warning that each costs a product."""


def by_columns(problem: Problem) -> list[Factor] | None:
    """The `Strategy` where examples mix and parameters are few beside rows; with a warning where both are many."""
    mix, columns = problem.mix, problem.num_columns
    assert mix is not None and mix.op is not None
    if not forward_is_less_work(problem.num_rows, columns):
        return None
    chunk_size = problem.chunk_size if problem.passes_at_once is None else problem.passes_at_once(mix, 2 * columns)
    factors = columns_of(problem, chunk_size)
    if factors is not None and columns > FEW:
        warn(
            f"tfjac: examples mix, or may, at op {mix.op.name!r} of type {mix.op.type} ({mix.reason}): each of the "
            f"{columns:,} parameters costs a forward product. That is exact, and slow for many parameters. Layers that "
            "treat examples independently are fast: LayerNormalization, GroupNormalization, or BatchNormalization with "
            "trainable=False."
        )
    return factors


def columns_of(problem: Problem, chunk_size: int | Tensor | None) -> list[Factor] | None:
    """Return the factors by a product for each column, so many at once; None where there is no forward mode."""
    ys, likes = problem.ys, [like(variable) for variable in problem.variables]
    try:
        forward = push_forward(ys, problem.dependence.sources).with_zeros(ys)
    except NoForwardMode:
        return None
    sizes = [x.shape.num_elements() for x in likes]
    specs = [tf.TensorSpec([None, *y.shape], y.dtype) for y in ys]
    tangents = unless_empty(
        ys[0],
        lambda: in_chunks(
            lambda columns: forward.on_stacks(*_basis(columns, likes, sizes)),
            sum(sizes),
            specs,
            chunk_size if forward.vectorises() else 1,
        ),
        [[sum(sizes), *axes(y)] for y in ys],
        [y.dtype for y in ys],
    )
    parts = [tf.split(_columns_last(each, y), sizes, axis=2) for each, y in zip(tangents, ys)]
    blocks = [[tf.cast(part[k], x.dtype) for part in parts] for k, x in enumerate(likes)]
    return [DenseFactor(block[0] if len(block) == 1 else tf.concat(block, 1)) for block in blocks]


def _basis(columns: Tensor, likes: Sequence[Tensor], sizes: Sequence[int]) -> list[Tensor]:
    """Return the tangents of the parameters numbered `columns`: for each variable a tensor `[c, *shape]`."""
    parts = tf.split(tf.one_hot(columns, sum(sizes), dtype=tf.float32), sizes, axis=1)
    return [tf.reshape(tf.cast(part, x.dtype), [-1, *x.shape]) for part, x in zip(parts, likes)]


def _columns_last(tangents: Tensor, y: Tensor) -> Tensor:
    """Return tangents `[p, *y.shape]` as rows `[n, m, p]`."""
    n, *rest = axes(y)
    return tf.transpose(tf.reshape(tangents, [axes(tangents)[0], n, product(rest)]), [1, 2, 0])
