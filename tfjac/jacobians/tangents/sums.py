"""Ops that add up: sums, means, products of matrices."""

from collections.abc import Callable

import numpy as np
import tensorflow as tf

from tfjac.jacobians.tangents.rules import NoTangents, Step, rule
from tfjac.types import Tensor


def _axes(step: Step) -> list[int]:
    rank = step.op.inputs[0].shape.rank
    return [int(axis) % rank + 1 for axis in np.reshape(step.fixed(1), [-1])]


@rule("Sum")
def _sum(step: Step) -> list[Tensor]:
    return [tf.reduce_sum(step.full(0), _axes(step), step.op.get_attr("keep_dims"))]


@rule("Mean")
def _mean(step: Step) -> list[Tensor]:
    return [tf.reduce_mean(step.full(0), _axes(step), step.op.get_attr("keep_dims"))]


@rule("MatMul")
def _product(step: Step) -> list[Tensor]:
    adjoint = {"transpose_a": step.op.get_attr("transpose_a"), "transpose_b": step.op.get_attr("transpose_b")}
    return [_product_rule(step, lambda a, b: tf.matmul(a, b, **adjoint))]


@rule("BatchMatMulV2")
def _product_of_stacks(step: Step) -> list[Tensor]:
    adjoint = {"adjoint_a": step.op.get_attr("adj_x"), "adjoint_b": step.op.get_attr("adj_y")}
    if any(step.op.inputs[k].shape.rank != step.op.outputs[0].shape.rank for k in step.carriers):
        raise NoTangents
    return [_product_rule(step, lambda a, b: tf.matmul(a, b, **adjoint))]


def _product_rule(step: Step, product: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
    x, y = step.op.inputs
    parts = [product(step.full(0), y) if k == 0 else product(x, step.full(1)) for k in step.carriers]
    return parts[0] if len(parts) == 1 else tf.add_n(parts)
