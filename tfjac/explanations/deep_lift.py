"""DeepLIFT: what each input contributes to the change of a score from that of a baseline, op by op."""

import functools

import numpy as np
import tensorflow as tf

from tfjac._warn import warn
from tfjac.explanations.explanation import Explanation
from tfjac.explanations.inputs import specs_of
from tfjac.explanations.program import SOFTMAX, Path, chosen
from tfjac.explanations.scores import Explained
from tfjac.graph import ancestors, bodies_of, has_custom_gradient, holds_bodies
from tfjac.graph.facts import facts_of
from tfjac.graph.op_types import SEVERAL_INPUTS, UNARY
from tfjac.interception.deep_lift import LARGEST, PRODUCTS, beyond_rounding, of_elementwise
from tfjac.interception.rules import rescale
from tfjac.types import Function, Nest, NestLike, Selector, TensorLike

_RESCALED = {*UNARY, *PRODUCTS, *LARGEST}
_SOFTMAXES = {SOFTMAX, "LogSoftmax"}


def deep_lift(
    model: Function,
    x: NestLike,
    class_index: int | TensorLike | None = None,
    baseline: Nest[TensorLike] | None = None,
    score_at: Selector | None = None,
    batch_size: int = 64,
) -> Explanation:
    """Attribute the change of a score from that of a baseline to each input, by the rescale rule of DeepLIFT.

    Each nonlinear op passes on differences in place of derivatives, see `tfjac.rules.rescale`; products and pooling as
    in DeepSHAP; a softmax inside, as that of attention, as the quotient that it is. Custom gradients do not count:
    what is computed does.

    Args:
        model, x, class_index, score_at: as in `grad_cam`.
        baseline: as in `integrated_gradients`.
        batch_size: so many rows are computed at once, examples and baselines together.

    Returns:
        An `Explanation`, whose attributions add up to the change of the score: `gap` is zero but for rounding. A
        larger gap, which loops may have, is warned of.

    Raises:
        TypeError, ValueError: as in `integrated_gradients`; and for ops on the way that are neither linear nor have a
            rule, by name.

    Cost: one gradient, of twice as many rows.
    References: as in `tfjac.rules.rescale`.
    """
    explained = Explained(model, x, class_index, score_at, batch_size)
    points, start = explained.points(), explained.baseline_points(baseline)
    count = len(points)

    def contributions(program, *flat):
        points, start, classes, inputs = flat[:count], flat[count : 2 * count], flat[2 * count], flat[2 * count + 1 :]
        both = [tf.concat(pair, 0) for pair in zip(points, start)]
        scores = program.of_points([tf.concat([each, each], 0) for each in inputs], both)
        of_examples, of_baselines = (chosen(half, classes) for half in tf.split(scores, 2))
        found = tf.gradients(of_examples, both)
        multipliers = [tf.zeros_like(x) if g is None else tf.split(g, 2)[0] for g, x in zip(found, points)]
        return [*(m * (x - x0) for m, x, x0 in zip(multipliers, points, start)), of_baselines]

    given = [*points, *start, explained.classes, *explained.inputs.arrays]
    traced = explained.compiled(["deep_lift"], contributions, specs_of(given), _rules)
    *found, baseline_scores = explained.in_parts(traced.run, given, rows=max(1, batch_size // 2))
    explanation = explained.adding_up("deep_lift", found, baseline_scores)
    _warn_of_gap(explanation, found)
    return explanation


def _rules(program):
    path = Path(program, "DeepLIFT")
    rules = {}
    for op in path.ops:
        if path.is_linear(op):
            continue
        if holds_bodies(op):
            rules |= {("inside", kind): rescale for kind in _rescaled_inside(op)}
        elif op.type in _SOFTMAXES:
            rules[op.name] = _softmax
        elif op.type in _RESCALED and all(op.inputs[k].dtype.is_floating for k in path.alive(op)):
            rules[op.name] = rescale
        elif _is_elementwise(op, path):
            rules[op.name] = _of_one_input(*path.alive(op))
        else:
            raise ValueError(
                "DeepLIFT has no rule for an op that is not linear: use tfjac.explanations.integrated_gradients. "
                f"Received: op {op.name!r} of type {op.type}"
            )
    return rules


def _is_elementwise(op, path):
    """Return whether all but one input of an elementwise op are constants, such as the bound of a minimum."""
    alive = path.alive(op)
    if op.type not in SEVERAL_INPUTS or len(alive) != 1 or has_custom_gradient(op):
        return False
    source, output = op.inputs[alive[0]], op.outputs[0]
    return source.dtype.is_floating and source.shape.rank == output.shape.rank and source.shape[1:] == output.shape[1:]


@functools.cache  # one rule for one place, the same in every trace
def _of_one_input(index):
    def rule(op, gradient):
        found = of_elementwise(op, gradient, index)
        return [found if each == index else None for each in range(len(op.inputs))]

    return rule


def _softmax(op, gradient):
    """Pass on differences of exp(x) / Σ exp(x): of an exponential, a sum, its inverse, and a product halfway.

    An output changes where its own input does not: so the rule for elementwise ops would lose a part.
    """
    x, reference = tf.split(op.inputs[0], 2)
    upstream, _ = tf.split(gradient, 2)
    top = tf.reduce_max(tf.maximum(x, reference), axis=-1, keepdims=True)
    powers, powers_0 = tf.exp(x - top), tf.exp(reference - top)
    total, total_0 = (tf.reduce_sum(each, axis=-1, keepdims=True) for each in (powers, powers_0))
    same, divisor = beyond_rounding(x - reference, x)
    slopes = tf.where(same, powers, (powers - powers_0) / divisor)
    if op.type == "LogSoftmax":
        of_total = tf.reduce_sum(upstream, axis=-1, keepdims=True) * _slope_of_log(total, total_0)
        multipliers = upstream - of_total * slopes
    else:
        of_total = tf.reduce_sum(upstream * (powers + powers_0) / 2, axis=-1, keepdims=True) / (total * total_0)
        multipliers = slopes * (upstream * (1 / total + 1 / total_0) / 2 - of_total)
    return tf.concat([multipliers, tf.zeros_like(multipliers)], 0)


def _slope_of_log(x, reference):
    same, divisor = beyond_rounding(x - reference, x)
    return tf.where(same, 1 / x, tf.math.log(x / reference) / divisor)


def _rescaled_inside(op):
    """The types of the activations and products in the bodies of a loop or branch."""
    bodies = [body for attribute in facts_of(op).bodies for body in bodies_of(op, attribute)]
    inside = [each for body in bodies for each in ancestors(body.outputs)]
    return {each.type for each in inside if facts_of(each).activation or each.type in SEVERAL_INPUTS & {*PRODUCTS}}


def _warn_of_gap(explanation, contributions):
    sizes = sum(np.abs(each).reshape(len(each), -1).sum(axis=1) for each in contributions)
    scores, start = np.abs(explanation.scores), np.abs(explanation.baseline_scores)
    rounding = 16 * np.finfo(scores.dtype).eps * (scores + start)  # of the difference of two scores that are near
    worst = np.max((np.abs(explanation.gap) - rounding) / np.maximum(sizes, 1e-6))
    if not worst <= _TOLERANCE:  # also if it is not a number
        warn(
            "The attributions of DeepLIFT do not add up to the change of the score: a loop holds ops without a rule, "
            "examples do not stay in their rows, an op is infinite at the baseline, or the numbers have few digits. "
            "Use another baseline, or tfjac.explanations.integrated_gradients. "
            f"Received: a gap of {worst:.1%} of the attributions",
        )


_TOLERANCE = 1e-3
