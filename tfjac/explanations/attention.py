"""Attention rollout: how much of each position reaches the last layer of a transformer."""

from typing import Literal

import numpy as np
import tensorflow as tf

from tfjac._warn import warn
from tfjac.arguments import choice
from tfjac.explanations.explanation import Explanation
from tfjac.explanations.program import SOFTMAX, passes_on
from tfjac.explanations.scores import Explained
from tfjac.graph import Dependence, axis_labels, ops_inside
from tfjac.graph.facts import facts_of
from tfjac.graph.op_types import CONTRACTIONS, PERMUTING
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


class AttentionWeights:
    """The softmaxes between the inputs of a `Program` and its scores, sorted by what becomes of them.

    From a softmax on, a tensor is followed as long as it keeps its layout `[n, ..., steps, steps]`: through masks,
    dropout, scales, and products that mix the heads. What enters the product with the values is the attention.

    Attributes:
        found: list of tensors `[n, ..., steps, steps]`, the attention of all layers, the first layer first.
        others: list of the softmaxes over steps that are multiplied with no values that are known.
        hidden: list of the loops and branches with a softmax inside.
    """

    def __init__(self, program):
        path = program.path_of_inputs()
        self._on_path = set(path)
        self._depends = Dependence(program.inputs, by_value=True)
        softmaxes = [op.outputs[0] for op in path if _is_softmax(op) and (op.outputs[0].shape.rank or 0) >= 3]
        ends = [(each, self._end(each)) for each in softmaxes]
        self.found = list({end.ref(): end for _, end in ends if end is not None}.values())
        sizes = {size for end in self.found for size in end.shape[-2:]}
        self.others = [each for each, end in ends if end is None and _may_be_over(each, sizes)]
        self.hidden = [op for op in path if SOFTMAX in {each.type for each in ops_inside(op)}]

    def _end(self, softmax):
        """What of a softmax, masked and scaled, is multiplied with values; None where nothing is known to be."""
        waiting, seen = [(softmax, softmax)], set()  # a tensor, and the last on the way to it in the layout
        while waiting:
            here, weights = waiting.pop(0)
            for op in self._next(here, seen):
                if op.type in CONTRACTIONS and (here is not weights or self._mixes_steps(op, here)):
                    return weights
                if here is weights and (_keeps_layout(op) or _mixes_heads(op, here) or _scales(op, here)):
                    waiting.append((op.outputs[0], op.outputs[0]))
                elif op.type in PERMUTING or _keeps_layout(op):
                    waiting.append((op.outputs[0], weights))
        return None

    def _next(self, tensor, seen):
        found = [op for op in tensor.consumers() if op in self._on_path and op not in seen]
        seen.update(found)
        return found

    def _mixes_steps(self, op, weights):
        """Whether a product sums over the last axis of the weights, times what depends on the inputs."""
        index = next(k for k, each in enumerate(op.inputs) if each is weights)
        if not any(self._depends.reaches(each) for k, each in enumerate(op.inputs) if k != index):
            return False
        labels, output = _labels(op, index)
        return not labels or labels[-1] not in output


def _is_softmax(op):
    """Whether an op is a softmax along the last axis: TensorFlow's, or an exponential over its sum."""
    if op.type == SOFTMAX:
        return True
    if op.type not in ("RealDiv", "DivNoNan") or op.inputs[1].op.type != "Sum":
        return False
    above, below = op.inputs[0], op.inputs[1].op
    axes = tf.get_static_value(below.inputs[1])
    last = axes is not None and axes.size == 1 and int(axes.ravel()[0]) in (-1, (above.shape.rank or 0) - 1)
    return last and below.inputs[0] is above and _is_exponential(above)


def _is_exponential(tensor):
    """Whether a tensor is an exponential, or one times a mask."""
    if passes_on(tensor.op) or tensor.op.type in ("Mul", "SelectV2"):
        return any(_is_exponential(each) for each in tensor.op.inputs if each.dtype.is_floating)
    return tensor.op.type == "Exp"


def _keeps_layout(op):
    """Whether an op keeps values and layout."""
    return passes_on(op) or facts_of(op).kind == "stop"


def _scales(op, weights):
    """Whether an op masks, scales or bounds the weights, element by element, and keeps their layout."""
    return facts_of(op).elementwise in ("several inputs", "as it is") and _same(op.outputs[0], weights)


def _same(one, other):
    return one.shape.rank == other.shape.rank and one.shape[-2:].is_compatible_with(other.shape[-2:])


def _may_be_over(softmax, sizes):
    """Whether a softmax may be over steps: of the number of them that other layers have, or of a square."""
    rows, columns = softmax.shape[-2:]
    return columns is None or columns in sizes or (not sizes and rows in (None, columns))


def _labels(op, index):
    """The labels of an input of a product, and of its output; none where ranks are unknown."""
    operands, output = axis_labels(op) or ([[], []], [])
    return operands[index], output


def _mixes_heads(op, weights):
    """Whether a product leaves the last two axes of the weights where they are."""
    if op.type != "Einsum":
        return False
    index = next(k for k, each in enumerate(op.inputs) if each is weights)
    labels, output = _labels(op, index)
    return len(labels) >= 2 and output[-2:] == labels[-2:]
