"""Attention rollout: how much of each position reaches the last layer of a transformer."""

from typing import Literal

import numpy as np
import tensorflow as tf

from tfjac.arguments import choice
from tfjac.explanations.explanation import Explanation
from tfjac.explanations.scores import Explained
from tfjac.graph.op_types import CONTRACTIONS
from tfjac.types import Function, NestLike, Selector, TensorLike

_BETWEEN = {"Identity", "Cast", "Reshape", "Transpose"}
"""Ops between a softmax and the product with the values."""


def attention_rollout(
    model: Function,
    x: NestLike,
    class_index: int | TensorLike | None = None,
    position: int | None = None,
    heads: Literal["mean", "max", "min"] = "mean",
    score_at: Selector | None = None,
    batch_size: int = 64,
) -> Explanation:
    """Follow the attention of a transformer from its last layer back to its first.

        rollout = Π_l row-normalised (½ A_l + ½ I), the last layer first

    with the attention probabilities A_l of layer l. They are read off the graph: every softmax that is multiplied with
    something, as in `keras.layers.MultiHeadAttention`, `GroupQueryAttention` and `Attention`, in any model inside.

    Args:
        model: as in `grad_cam`.
        x: as in `grad_cam`.
        class_index: as in `grad_cam`. Attention is the same for all classes: the choice is only recorded.
        position: from which position of the last layer to go back, such as 0 for a token of classification. None for
            the mean of all, which a model that takes the mean of its positions has.
        heads: "mean", "max" or "min" over the heads.
        score_at: as in `grad_cam`: attention that the scores do not depend on does not count.
        batch_size: so many rows are computed at once.

    Returns:
        An `Explanation`. An input that has as many steps as the attention gets `[n, steps]`, others None.
        `details["positions"]` is that for every model, `details["rollout"]` the whole product `[n, steps, steps]`, and
        `details["layers"]` the number of layers.

    Raises:
        TypeError, ValueError: as in `grad_cam`; and for models without attention, with attention between two different
            sequences, or with attention inside loops.

    Cost: one evaluation.
    Reference: S. Abnar, W. Zuidema, "Quantifying attention flow in transformers", 2020.
    """
    choice("heads", heads, ("mean", "max", "min"))
    explained = Explained(model, x, class_index, score_at, batch_size)

    def attentions(program, *flat):
        program(*flat)
        return [_of_heads(tensor, heads) for tensor in _attentions(program)]

    found = explained.in_parts(
        explained.compiled(["attention_rollout", heads], attentions).run, explained.inputs.arrays
    )
    rollout = np.eye(found[0].shape[-1], dtype=found[0].dtype)
    for attention in found:
        mixed = 0.5 * attention + 0.5 * np.eye(attention.shape[-1], dtype=attention.dtype)
        rollout = mixed / mixed.sum(axis=-1, keepdims=True) @ rollout
    positions = rollout.mean(axis=1) if position is None else rollout[:, _checked_position(position, rollout)]
    attributions = [positions if _has_steps(each, positions) else None for each in explained.inputs.arrays]
    details = {"positions": positions, "rollout": rollout, "layers": len(found)}
    return explained.explanation("attention_rollout", explained.inputs.pack(attributions), details=details)


def _attentions(program):
    """The attention probabilities `[n, ..., steps, steps]` of all layers, the first layer first."""
    found = [op.outputs[0] for op in program.path_of_inputs() if op.type == "Softmax" and _is_attention(op.outputs[0])]
    if not found:
        raise ValueError(
            "There is no attention between the inputs and the scores, no softmax of [n, heads, steps, steps] that is "
            "multiplied with values outside of a loop: use tfjac.explanations.integrated_gradients. "
            f"Received: a model with scores of shape {program.scores.shape}"
        )
    shapes = {tuple(tensor.shape[-2:]) for tensor in found}
    sizes = {size for shape in shapes for size in shape if size is not None}
    if len(sizes) > 1:
        raise ValueError(
            "Attention rollout is for attention of one sequence to itself, with the same steps in all layers: use "
            f"tfjac.explanations.integrated_gradients. Received: attention of shapes {sorted(map(str, shapes))}"
        )
    return found


def _is_attention(tensor):
    return tensor.shape.rank in (3, 4) and any(_is_multiplied(op) for op in tensor.consumers())


def _is_multiplied(op):
    if op.type in _BETWEEN:
        return any(_is_multiplied(each) for each in op.outputs[0].consumers())
    return op.type in CONTRACTIONS


def _of_heads(tensor, heads):
    reduce = {"mean": tf.reduce_mean, "max": tf.reduce_max, "min": tf.reduce_min}[heads]
    return reduce(tensor, axis=1) if tensor.shape.rank == 4 else tensor


def _checked_position(position, rollout):
    steps = rollout.shape[1]
    if not -steps <= position < steps:
        raise ValueError(f"position must be one of the {steps} steps. Received: position={position!r}")
    return position


def _has_steps(array, positions):
    return array.ndim in (2, 3) and array.shape[1] == positions.shape[1]
