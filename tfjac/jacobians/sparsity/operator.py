"""The Jacobian as an operator whose factors are what each residual depends on, element by element.

Factors by rules know rows: an example reads some rows of a table. Where an example is one *element*, with a
neighbourhood as in a grid, a stencil or a slice of a long vector, the pattern of the Jacobian knows what it reads,
whatever ops moved it there, and a product for each colour of the pattern has the values.
"""

import itertools
from collections.abc import Iterable, Sequence

import numpy as np
import scipy.sparse
import tensorflow as tf

from tfjac.jacobians.passes.linearise import NoForwardMode
from tfjac.jacobians.passes.nests import like
from tfjac.jacobians.passes.random_cotangents import verify_factors
from tfjac.jacobians.sparsity.analysis import Ends
from tfjac.jacobians.sparsity.index_sets import TooManyEntries, at_most
from tfjac.jacobians.sparsity.jacobian import held, values_of
from tfjac.jacobians.sparsity.layout import Groups, Layout
from tfjac.jacobians.sparsity.pattern import SparsityPattern
from tfjac.linear.factors.gather_factor import GatherFactor
from tfjac.linear.operator import JacobianOperator
from tfjac.linear.shapes import wide_dtype
from tfjac.types import Tensor, Variable

MEMORY = 2**28
"""Bytes that the products may take at once."""


def compressed_operator(
    y: Tensor, variables: Sequence[Variable | Tensor], rows_of_example: Iterable[int], most: int
) -> JacobianOperator | None:
    """Return ∂y/∂variables as a `JacobianOperator` of what each element of y depends on.

    Its factors are `GatherFactor`s of rows of the columns that are read together. An example is an element of y, or
    some in a row.

    Args:
        y: vector of the `tf.function` being traced, whose elements are the rows; of static shape.
        variables: list of variables, or tensors, of static shape; y depends on each.
        rows_of_example: integers that divide the number of elements of y: how many consecutive ones may make an
            example. That is chosen which costs least: elements of one observation read the same columns.
        most: so many numbers the factors may have, and so many entries the index sets of any tensor on the way.

    Returns:
        The operator. None where it would have more numbers, where dtypes meet, or where ops on the way have neither a
        forward mode nor few products backward.

    Cost: as `sparse_jacobian`: while tracing, that of the pattern; when it runs, a product for each of its colours.
    """
    dtypes = {like(variable).dtype for variable in variables}
    if len(dtypes) > 1:
        return None
    try:
        ends = Ends.of([y], variables)
        with at_most(most):
            pattern = ends.pattern()
        parts = _cut(pattern, ends.sizes)
        size = min(rows_of_example, key=lambda size: _work(parts, size))
        layouts = _layouts(parts, size, most)
        values = values_of(pattern, "auto", ends.with_static_ys(), wide_dtype(dtypes.pop()), (None, MEMORY))
    except (TooManyEntries, NoForwardMode):
        return None
    factors = [_factor(layout, values) for layout in layouts]
    rows = [tf.reshape(each, [-1, size]) for each in (y, ends.ys[0])]
    verify_factors(None, rows[:1], rows[1:], ends.sources, factors, variables)
    return JacobianOperator(factors, [like(variable).shape for variable in variables], len(layouts[0].ids), size)


def _cut(pattern: SparsityPattern, sizes: Sequence[int]) -> list[scipy.sparse.csr_array]:
    """Cut a pattern `[rows, p]` into the columns of each variable; their data number the entries from 1 on."""
    columns, ends = scipy.sparse.csc_array(pattern.csr(np.arange(1, pattern.num_entries + 1))), np.cumsum([0, *sizes])
    return [scipy.sparse.csr_array(columns[:, first:last]) for first, last in itertools.pairwise(ends)]


def _work(parts: Sequence[scipy.sparse.csr_array], size: int) -> tuple[int, int]:
    """How many numbers J has, and products JᵀJ, where an example is so many rows; among equals, larger examples."""
    groups = [Groups(part, size) for part in parts]
    width = sum(each.width for each in groups)
    return groups[0].number * width * (size + width), -size


def _layouts(parts: Sequence[scipy.sparse.csr_array], size: int, most: int) -> list[Layout]:
    width = sum(Groups(part, size).width for part in parts)
    if parts[0].shape[0] * width > most:
        raise TooManyEntries
    return [Layout.of(part, size) for part in parts]


def _factor(layout: Layout, values: Tensor) -> GatherFactor:
    """The factor of one variable, of the entries of J, `[entries]`."""
    d = tf.gather(tf.concat([tf.zeros([1], values.dtype), values], 0), held(layout.entries))
    return GatherFactor(held(layout.ids), d, layout.rows)
