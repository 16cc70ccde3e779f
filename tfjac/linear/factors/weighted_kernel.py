"""Kernels of several blocks of rows: J Jᵀ, and J W Jᵀ with a weight for each column, as 1/D for a scaling D."""

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from tfjac import ops
from tfjac.graph import axes
from tfjac.linear.factors.forms import DenseFactor, Factor, OuterFactor, listed
from tfjac.linear.factors.gather_factor import GatherFactor, of_one_width, of_rows_that_occur
from tfjac.linear.shapes import Size
from tfjac.types import Tensor

SLICE = 16
"""Output features at a time, at least: products of fewer columns than that are slow."""


def weighted_kernel(blocks: Sequence, sizes: Sequence, weights: Tensor, dtype: tf.DType) -> Tensor:
    """Return J W Jᵀ `[rows, rows]` of blocks of rows of J that stand one below the other.

    Columns that are kept as they are, or in the rows of a table, take √W. For a matrix of weights used at one position,

        Σ_{i,o} a[n,i] d[n,m,o] W[i,o] a[k,i] d[k,l,o] = Σ_o d[n,m,o] d[k,l,o] Σ_i a[n,i] W[i,o] a[k,i]

    and J is not formed; that of other variables is, one after the other.

    Args:
        blocks: list of lists of factors, one per variable; None where a block does not depend on the variable.
        sizes: list of pairs (n, m) of each block, integers or scalar tensors.
        weights: list of W, `[q]` for each variable, not negative.
        dtype: of the factors.

    Cost: n²·i·o + n²·m²·o multiply-adds for such a matrix, n²·m²·q for q columns that are formed.
    """
    scaled, total = [list(block) for block in blocks], None
    for index, weight in enumerate(weights):
        factors = [block[index] for block in blocks]
        present = [factor for factor in factors if factor is not None]
        if present and _is_matrix(present):
            part = _of_matrix(factors, sizes, weight)
            total = part if total is None else total + part
            factors = [None] * len(factors)
        for block, factor in zip(scaled, factors):
            block[index] = None if factor is None else scaled_columns(factor, tf.sqrt(weight))
    if total is None:
        return kernel_of_blocks(scaled, sizes, dtype)
    if not any(factor is not None for block in scaled for factor in block):
        return total
    return total + kernel_of_blocks(scaled, sizes, dtype)


def is_weighed_as_factors(t: Any, g: Any, is_table: bool) -> bool:
    """Whether J of a variable with such factors is not formed where its columns are weighed."""
    return is_table or (t == 1 and g == 1)


def scaled_columns(factor: Any, scales: Tensor) -> Factor:
    """Return a factor with its columns times `scales` `[q]`."""
    if isinstance(factor, GatherFactor):
        table = tf.reshape(scales, [-1, axes(factor.d)[3]])
        return GatherFactor(factor.ids, factor.d * tf.gather(table, factor.ids)[:, None], factor.rows)
    return DenseFactor(factor.dense() * scales)


def _is_matrix(factors: Sequence) -> bool:
    """Whether all are outer factors of one matrix of known size, used at one position."""
    if not all(isinstance(factor, OuterFactor) for factor in factors):
        return False
    known = {(factor.layout, *factor.a.shape[1:], *factor.d.shape[4:]) for factor in factors}
    return len(known) == 1 and None not in (shape := known.pop()) and shape[1:3] == (1, 1)


def _of_matrix(factors: Sequence, sizes: Sequence, weight: Tensor) -> Tensor:
    """Return J W Jᵀ of one variable, `[rows, rows]`; zeros where a block does not depend on it."""
    rows = []
    for left, (n, m) in zip(factors, sizes):
        row = [
            tf.zeros([n * m, k * l], weight.dtype) if None in (left, right) else _product(left, right, weight)
            for right, (k, l) in zip(factors, sizes)  # noqa: E741
        ]
        rows.append(tf.concat(row, axis=1))
    return tf.concat(rows, axis=0)


def _product(left: OuterFactor, right: OuterFactor, weight: Tensor) -> Tensor:
    """Return J_left W J_rightᵀ of one matrix, `[rows of left, rows of right]`, some output features at a time."""
    layout = left.layout.replace("g", "")
    i, o = left.a.shape[3], left.d.shape[4]
    (n, m, *_), (k, l, *_) = axes(left.d), axes(right.d)  # noqa: E741
    table = tf.einsum(f"{layout}->oi", tf.reshape(weight, [{"i": i, "o": o}[axis] for axis in layout]))
    width = min(o, max(SLICE, m if isinstance(m, int) else SLICE))
    count = -(-o // width)

    def sliced(tensor: Tensor) -> Tensor:
        padded = tf.pad(tensor, [[0, count * width - o], *[[0, 0]] * (tensor.shape.rank - 1)])
        return tf.reshape(padded, [count, width, *axes(tensor)[1:]])

    table = sliced(table)
    d_left, d_right = (sliced(tf.transpose(each.d[:, :, 0, 0], [2, 0, 1])) for each in (left, right))
    a_left, a_right = left.a[:, 0, 0], right.a[:, 0, 0]

    def add(index: int, total: Tensor) -> tuple:
        inputs = tf.matmul(a_left * table[index][:, None], a_right[None], transpose_b=True)
        pulled = tf.reshape(inputs[..., None] * d_right[index][:, None], [width, n, k * l])
        outputs = tf.transpose(d_left[index], [1, 2, 0])
        return index + 1, total + tf.matmul(outputs, tf.transpose(pulled, [1, 0, 2]))

    total = tf.zeros([n, m, k * l], weight.dtype)
    if count == 1:
        total = add(0, total)[1]
    else:
        shapes = tf.TensorShape([]), tf.TensorShape([None, None, None])
        total = tf.while_loop(lambda index, _: index < count, add, (tf.constant(0), total), shapes)[1]
    return tf.reshape(total, [n * m, k * l])


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
