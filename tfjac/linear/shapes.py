"""Sizes of tensors, which may be open while tracing, and the dtypes that sums are made in."""

import math
from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

import tensorflow as tf

from tfjac.types import Tensor

Size: TypeAlias = int | Tensor
"""A size: an integer, or a scalar tensor where it is open while tracing."""


def product(sizes: Iterable[Any]) -> Any:
    """Return the product of `sizes`, a Python integer where all are."""
    return math.prod(sizes, start=1)


def reshaped(tensor: Tensor, sizes: list) -> Tensor:
    """`tf.reshape`, without an op where the tensor has these sizes."""
    return tensor if tensor.shape.is_fully_defined() and tensor.shape == sizes else tf.reshape(tensor, sizes)


def reordered(tensor: Tensor, order: Sequence[int], sizes: list) -> Tensor:
    """Return a tensor with its axes in another order, then in other sizes; one op where only axes of size one move."""
    moved = [k for k in order if tensor.shape[k] != 1]
    return tf.reshape(tensor if moved == sorted(moved) else tf.transpose(tensor, order), sizes)


def widened(tensor: Tensor) -> Tensor:
    """Return `tensor` in at least single precision: squares and long sums of less overflow, or lose what is small."""
    return tf.cast(tensor, wide_dtype(tensor.dtype)) if tensor.dtype.is_floating else tensor


def wide_dtype(dtype: tf.DType) -> tf.DType:
    """Return the dtype that `widened` gives: float32 in place of half precision, every other dtype as it is."""
    return tf.float32 if dtype.is_floating and dtype.size < tf.float32.size else dtype
