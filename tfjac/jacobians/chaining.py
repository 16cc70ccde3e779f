"""The chain rule for Jacobians that are there as tensors."""

from __future__ import annotations

import tensorflow as tf

from tfjac.graph import axes
from tfjac.linear.shapes import product
from tfjac.types import Nest, NestLike, Tensor, TensorLike


def chain(outer: TensorLike, inner: Nest[TensorLike], node_rank: int = 1, batch_dims: int = 0) -> NestLike:
    """Return the Jacobian ∂y/∂x = ∂y/∂z · ∂z/∂x through an intermediate node z.

        J[b..., i..., j...] = Σ_k outer[b..., i..., k...] · inner[b..., k..., j...]

    Args:
        outer: ∂y/∂z, `[*batch, *y, *z]`.
        inner: ∂z/∂x, `[*batch, *z, *x]`, or a nest of such tensors, one for each x.
        node_rank: rank of z without its batch axes.
        batch_dims: number of batch axes in front: 0 for full Jacobians, 1 for those of each example, as
            `batch_jacobian` and `per_example_jacobian` give.

    Returns:
        `[*batch, *y, *x]`, or a nest of them like `inner`.

    Raises:
        ValueError: where the axes of z, or the batch axes, of `outer` and `inner` differ, or there are too few.
        TypeError: where the dtypes differ, or are not floating-point.

    Cost: one matrix product of `[Π y, Π z]` and `[Π z, Π x]` for each entry of the batch.
    """
    for name, value, least in (("node_rank", node_rank, 0), ("batch_dims", batch_dims, 0)):
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise ValueError(f"{name} must be an integer of at least {least}. Received: {value!r}")
    outer = tf.convert_to_tensor(outer)
    return tf.nest.map_structure(lambda each: _product(outer, tf.convert_to_tensor(each), node_rank, batch_dims), inner)


def _product(outer: Tensor, inner: Tensor, node_rank: int, batch_dims: int) -> Tensor:
    _check(outer, inner, node_rank, batch_dims)
    outer_axes, inner_axes = axes(outer), axes(inner)
    y, z = outer_axes[batch_dims : len(outer_axes) - node_rank], inner_axes[batch_dims : batch_dims + node_rank]
    batch, x = outer_axes[:batch_dims], inner_axes[batch_dims + node_rank :]
    left = tf.reshape(outer, [*batch, product(y), product(z)])
    right = tf.reshape(inner, [*batch, product(z), product(x)])
    return tf.reshape(tf.matmul(left, right), [*batch, *y, *x])


def _check(outer: Tensor, inner: Tensor, node_rank: int, batch_dims: int) -> None:
    if outer.dtype != inner.dtype or not outer.dtype.is_floating:
        raise TypeError(
            "outer and inner must be of one floating-point dtype; cast one of them. "
            f"Received: {outer.dtype.name} and {inner.dtype.name}"
        )
    least = node_rank + batch_dims
    if None in (outer.shape.rank, inner.shape.rank) or min(outer.shape.rank, inner.shape.rank) < least:
        raise ValueError(
            f"outer [*batch, *y, *z] and inner [*batch, *z, *x] must have at least node_rank + batch_dims = {least} "
            f"axes. Received: shapes {outer.shape} and {inner.shape}"
        )
    left, right = outer.shape[outer.shape.rank - node_rank :], inner.shape[batch_dims : batch_dims + node_rank]
    if not left.is_compatible_with(right):
        raise ValueError(
            f"The last {node_rank} axes of outer must be those of the node z, as in inner after {batch_dims} batch "
            f"axes; set node_rank to the rank of z, and batch_dims=1 for Jacobians of each example. "
            f"Received: {left} in outer of shape {outer.shape}, {right} in inner of shape {inner.shape}"
        )
    if not outer.shape[:batch_dims].is_compatible_with(inner.shape[:batch_dims]):
        raise ValueError(
            f"outer and inner must have the same {batch_dims} batch axes. "
            f"Received: {outer.shape[:batch_dims]} and {inner.shape[:batch_dims]}"
        )
