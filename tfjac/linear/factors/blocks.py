"""The kernel of several blocks of rows of a Jacobian, each with examples of its own."""

from collections.abc import Sequence

import tensorflow as tf

from tfjac import ops
from tfjac.linear.factors.forms import DenseFactor, Factor, listed
from tfjac.linear.factors.gather_factor import GatherFactor, of_one_width, of_rows_that_occur
from tfjac.linear.shapes import Size
from tfjac.types import Tensor


def kernel_of_blocks(blocks: Sequence, sizes: Sequence, dtype: tf.DType) -> Tensor:
    """Return the product with its own transpose, `[rows, rows]`, of blocks of rows that stand one below the other.

    A variable whose factors have the same axes in all blocks is never formed; any other one is, `[rows, q]`.

    Args:
        blocks: list of lists of factors, one per variable; None where a block does not depend on the variable.
        sizes: list of pairs (n, m) of each block, integers or scalar tensors.
        dtype: of the factors.
    """
    variables = [factors for factors in zip(*blocks) if any(factor is not None for factor in factors)]
    if not variables:
        rows = sum(n * m for n, m in sizes)
        return tf.zeros([rows, rows], dtype)
    forms = [_in_each_block(factors, sizes) for factors in variables]
    a, d = ([form[block][side] for block in range(len(blocks)) for form in forms] for side in (0, 1))
    return ops.jacobian_kernel(a, d, blocks=len(blocks))


def _in_each_block(factors: Sequence[Factor], sizes: Sequence) -> list:
    """Return `(a, d)` of one variable in each block, with equal axes g, i and o; where it is absent, no positions."""
    present = iter(_with_equal_axes([factor for factor in factors if factor is not None]))
    forms = [next(present) if factor is not None else None for factor in factors]
    example = next(form for form in forms if form is not None)
    return [_without_positions(*size, *example) if form is None else form for form, size in zip(forms, sizes)]


def _with_equal_axes(factors: Sequence[Factor]) -> list:
    """Return `(a, d)` of each factor of one variable: their outer forms where these have the same axes g, i and o."""
    if all(isinstance(factor, GatherFactor) for factor in factors):
        factors = of_rows_that_occur(of_one_width(factors) or factors)
    elif all(factor.has_outer_form for factor in factors):
        a, d, layouts = listed(*factors)
        axes = {(layout, *x.shape[2:], y.shape[4]) for x, y, layout in zip(a, d, layouts)}
        if len(axes) == 1 and None not in axes.pop():
            return list(zip(a, d))
    a, d, _ = listed(*(DenseFactor(factor.dense()) for factor in factors))
    return list(zip(a, d))


def _without_positions(n: Size, m: Size, a: Tensor, d: Tensor) -> tuple[Tensor, Tensor]:
    """Return a factor of n examples and m outputs that is zero, with the axes g, i and o of another."""
    (*_, g, i), o = tf.unstack(tf.shape(a)), tf.shape(d)[4]
    return tf.zeros([n, 0, g, i], a.dtype), tf.zeros([n, m, 0, g, o], d.dtype)
