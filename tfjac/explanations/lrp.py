"""Layer-wise relevance propagation: a score, handed back from layer to layer in the shares of what came in."""

import functools
from typing import Literal

import numpy as np
import tensorflow as tf

from tfjac.arguments import choice
from tfjac.explanations.explanation import Explanation
from tfjac.explanations.program import Path
from tfjac.explanations.scores import Explained
from tfjac.graph import static_value
from tfjac.graph.facts import facts_of
from tfjac.graph.op_types import CONTRACTIONS, SAME_ORDER
from tfjac.interception.deep_lift import LARGEST, op_like, own_gradients
from tfjac.types import Function, NestLike, Selector, TensorLike


def lrp(
    model: Function,
    x: NestLike,
    class_index: int | TensorLike | None = None,
    rule: Literal["epsilon", "gamma"] = "epsilon",
    epsilon: float = 1e-9,
    gamma: float = 0.25,
    score_at: Selector | None = None,
    batch_size: int = 64,
) -> Explanation:
    """Hand a score back from layer to layer, to each input in the share that it has of the sum.

        R_i = Σ_j a_i w'_ij / (Σ_i a_i w'_ij + b_j ± ε) R_j,  w' = w, or w + γ max(w, 0) by the gamma rule

    with the sign of the sum in the place of ±. Activations pass relevance on as it is, pooling of the largest to the
    largest, other sums in the shares of what is summed up.

    Args:
        model, x, class_index, score_at, batch_size: as in `grad_cam`.
        rule: "epsilon" or "gamma", for all dense layers and convolutions.
        epsilon: ε, not negative: a large one keeps the strongest contributions alone.
        gamma: γ of the gamma rule, not negative: it prefers what speaks for the class.

    Returns:
        An `Explanation`. Its `gap` is what biases and ε absorb: zero without these.

    Raises:
        TypeError, ValueError: as in `integrated_gradients`; and for ops on the way that have no rule, by name, such as
            a softmax or sigmoid inside, and attention.

    Cost: one gradient; with the gamma rule one more product for each layer.
    Reference: S. Bach et al., "On pixel-wise explanations for non-linear classifier decisions by layer-wise relevance
    propagation", 2015; G. Montavon et al., "Layer-wise relevance propagation: an overview", 2019.
    """
    choice("rule", rule, ("epsilon", "gamma"))
    for name, value in (("epsilon", epsilon), ("gamma", gamma)):
        if not 0 <= value < float("inf"):
            raise ValueError(f"{name} must be zero or positive. Received: {name}={value!r}")
    gamma = gamma if rule == "gamma" else 0.0
    explained = Explained(model, x, class_index, score_at, batch_size)
    points = explained.points()
    key = ["lrp", float(epsilon), float(gamma)]
    gradients = explained.gradients(
        points, explained.classes, explained.inputs.arrays, key, lambda program: _rules(program, epsilon, gamma)
    )
    found = [gradient * point for gradient, point in zip(gradients, points)]
    return explained.adding_up("lrp", found)


def _rules(program, epsilon, gamma):
    """The rules, in terms of gradients: relevance is gradient times value at every node."""
    path, rules = Path(program, "LRP"), {}
    for op in path.ops:
        alive = path.alive(op)
        if path.is_linear(op):
            weighted = _weighted_before(op, path) if facts_of(op).arithmetic == "sum" else None
            if weighted is not None:
                (data,) = path.alive(weighted)
                rules[op.name] = _biased(alive[0], data, epsilon, gamma)
                rules[weighted.name] = _weighted(data, None, gamma)
            elif _is_weighted(op):
                rules.setdefault(op.name, None)
        elif facts_of(op).activation == "at zero":
            rules[op.name] = _activation
        elif _is_bounded_beyond_zero(op, alive):
            rules[op.name] = _bounded(*alive)
        elif op.type not in LARGEST or alive != [0]:
            raise ValueError(
                "LRP has no rule for an op that is not linear, but for activations that are zero at zero and pooling: "
                "use tfjac.explanations.deep_lift or integrated_gradients, or attention_rollout for transformers. "
                f"Received: op {op.name!r} of type {op.type}"
            )
    alone = {op.name: op for op in path.ops if op.name in rules and rules[op.name] is None}
    return rules | {name: _weighted(path.alive(op)[0], epsilon, gamma) for name, op in alone.items()}


def _is_weighted(op):
    return facts_of(op).maps == "made" or op.type in CONTRACTIONS


def _weighted_before(op, path):
    """The product with weights that a bias is added to, if nothing else reads it."""
    alive = path.alive(op)
    if len(alive) != 1 or len(op.inputs) != 2:
        return None
    before = op.inputs[alive[0]].op
    while before.type in SAME_ORDER and len(before.outputs[0].consumers()) == 1:
        before = before.inputs[0].op
    ours = _is_weighted(before) and path.is_linear(before) and len(before.outputs[0].consumers()) == 1
    return before if ours and path.alive(before) else None


def _is_bounded_beyond_zero(op, alive):
    """Return whether an op is a minimum or maximum with a constant that leaves zero as it is."""
    if op.type not in ("Minimum", "Maximum") or len(alive) != 1:
        return False
    bound = static_value(op.inputs[1 - alive[0]])
    return bound is not None and bool(np.all(bound >= 0 if op.type == "Minimum" else bound <= 0))


@functools.cache  # one rule for one place, the same in every trace
def _bounded(index):
    def rule(op, gradient):
        passed = gradient * tf.math.divide_no_nan(op.outputs[0], op.inputs[index])
        return [passed if each == index else None for each in range(2)]

    return rule


def _activation(op, gradient):
    value, result = op.inputs[0], op.outputs[0]
    return gradient * tf.math.divide_no_nan(result, value)


@functools.cache  # one rule for one choice, the same in every trace
def _biased(product, data, epsilon, gamma):
    """The rule of a sum: of a product with weights, its input `product`, and a bias."""

    def rule(op, gradient):
        before = op.inputs[product].op
        while before.type in SAME_ORDER:
            before = before.inputs[0].op
        shared = gradient * _share(op.outputs[0], _positive_part(before, data, gamma), epsilon)
        return [shared if index == product else None for index in range(len(op.inputs))]

    return rule


@functools.cache
def _weighted(data, epsilon, gamma):
    """The rule of a product with weights; with an epsilon of None the bias behind it has done the division."""

    def rule(op, gradient):
        if epsilon is not None:
            gradient = gradient * _share(op.outputs[0], _positive_part(op, data, gamma), epsilon)
        found = own_gradients(op, op.inputs, gradient)[data]
        if gamma:
            found += gamma * own_gradients(op, _positive_weights(op, data), gradient)[data]
        return [found if index == data else None for index in range(len(op.inputs))]

    return rule


def _positive_weights(op, data):
    """The inputs of a product, with what is positive of the weights alone."""
    weights = [x.dtype.is_floating and index != data for index, x in enumerate(op.inputs)]
    return [tf.nn.relu(x) if positive else x for x, positive in zip(op.inputs, weights)]


def _positive_part(op, data, gamma):
    """What the gamma rule adds to the result of a product with weights."""
    return gamma * op_like(op, _positive_weights(op, data)) if gamma else None


def _share(sums, added, epsilon):
    """What a sum is, per what relevance is divided by."""
    whole = sums if added is None else sums + tf.reshape(added, tf.shape(sums))
    away_from_zero = tf.where(whole >= 0, tf.constant(epsilon, sums.dtype), tf.constant(-epsilon, sums.dtype))
    return tf.math.divide_no_nan(sums, whole + away_from_zero)
