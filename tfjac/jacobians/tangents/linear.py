"""Ops that are linear: their tangents are slices that the op works on, all at once, as the vectoriser has them."""

import tensorflow as tf

from tfjac.graph.facts import facts_of, types_where
from tfjac.jacobians.tangents.rules import NoTangents, Step, rule
from tfjac.types import Tensor


@rule(*types_where(lambda facts: facts.shortcut is not None and facts.linear in ("in the first", "in each")))
def _of_slices(step: Step) -> list[Tensor]:
    facts = facts_of(step.op)
    if facts.linear == "in the first":
        step.only(0)
    parts = []
    for k in step.carriers:
        is_stacked = [each == k for each in range(len(step.op.inputs))]
        inputs = [step.full(k) if stacked else x for x, stacked in zip(step.op.inputs, is_stacked)]
        found = facts.shortcut(step.op, inputs, is_stacked) if facts.shortcut else None
        if found is None:
            raise NoTangents
        parts.append(found[0])
    return [parts[0] if len(parts) == 1 else tf.add_n(parts)]


@rule("BatchMatMulV2")
def _product_of_stacks(step: Step) -> list[Tensor]:
    adjoint = {"adjoint_a": step.op.get_attr("adj_x"), "adjoint_b": step.op.get_attr("adj_y")}
    if any(step.op.inputs[k].shape.rank != step.op.outputs[0].shape.rank for k in step.carriers):
        raise NoTangents
    x, y = step.op.inputs
    return [
        tf.add_n(
            [tf.matmul(step.full(0) if k == 0 else x, y if k == 0 else step.full(1), **adjoint) for k in step.carriers]
        )
    ]
