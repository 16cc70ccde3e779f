"""Attention rollout: how much of each position reaches the last layer of a transformer."""

from typing import Literal

import numpy as np
import tensorflow as tf

from tfjac._warn import warn
from tfjac.arguments import choice
from tfjac.explanations.attention_weights import AttentionWeights
from tfjac.explanations.explanation import Explanation
from tfjac.explanations.scores import Explained
from tfjac.types import Function, NestLike, Selector, TensorLike


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
    values, as in `keras.layers.MultiHeadAttention`, `GroupQueryAttention` and `Attention`, in any model inside, and in
    blocks that are written by hand. Masks and scales between the softmax and the product count. Where a softmax over
    the steps is not known to be attention, there is a warning, or an error if it is `[..., steps, steps]`.

    Args:
        model, x, batch_size: as in `grad_cam`.
        class_index: as in `grad_cam`. Attention is the same for all classes: the choice is only recorded.
        position: from which position of the last layer to go back, such as 0 for a token of classification. None for
            the mean of all, which a model that takes the mean of its positions has.
        heads: "mean", "max" or "min" over the heads.
        score_at: as in `grad_cam`: attention that the scores do not depend on does not count.

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
    weights = AttentionWeights(program)
    if not weights.found:
        raise ValueError(
            "There is no attention between the inputs and the scores, no softmax of [n, heads, steps, steps] that is "
            "multiplied with values outside of a loop: use tfjac.explanations.integrated_gradients. "
            f"Received: a model with scores of shape {program.scores.shape}{_listed(weights.others)}"
        )
    sizes = {size for tensor in weights.found for size in tensor.shape[-2:] if size is not None}
    if len(sizes) > 1:
        shapes = {str(tuple(tensor.shape[-2:])) for tensor in weights.found}
        raise ValueError(
            "Attention rollout is for attention of one sequence to itself, with the same steps in all layers: use "
            f"tfjac.explanations.integrated_gradients. Received: attention of shapes {sorted(shapes)}"
        )
    _say_what_is_left_out(weights)
    return weights.found


def _say_what_is_left_out(weights):
    """Refuse softmaxes that look like attention and are not known to be; warn of those that may be over steps."""
    like = [each for each in weights.others if each.shape[-2:].is_compatible_with(weights.found[0].shape[-2:])]
    if like:
        raise ValueError(
            "A softmax of [..., steps, steps] is not known to be attention, as it is not seen to be multiplied with "
            "values: without it the product would be that of another model. Use "
            f"tfjac.explanations.integrated_gradients.{_listed(like, ' Received')}"
        )
    if weights.others or weights.hidden:
        warn(
            "tfjac.explanations.attention_rollout: what follows is no part of the product, and may be attention: a "
            "softmax over the steps, or a loop or branch with a softmax inside."
            f"{_listed([*weights.others, *weights.hidden], ' Received')}"
        )


def _listed(found, before="; softmaxes that are not known to be attention"):
    shown = ", ".join(f"{each.name!r}" for each in found)
    return f"{before}: {shown}" if found else ""


def _of_heads(tensor, heads):
    reduce = {"mean": tf.reduce_mean, "max": tf.reduce_max, "min": tf.reduce_min}[heads]
    return reduce(tensor, axis=list(range(1, tensor.shape.rank - 2))) if tensor.shape.rank > 3 else tensor


def _checked_position(position, rollout):
    steps = rollout.shape[1]
    if not -steps <= position < steps:
        raise ValueError(f"position must be one of the {steps} steps. Received: position={position!r}")
    return position


def _has_steps(array, positions):
    return array.ndim in (2, 3) and array.shape[1] == positions.shape[1]
