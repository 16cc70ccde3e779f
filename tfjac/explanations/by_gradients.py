"""Explanations by gradients of the scores: integrated, smoothed, guided."""

from typing import Literal

import numpy as np
import tensorflow as tf

from tfjac.arguments import choice, positive_integer
from tfjac.explanations.explanation import Explanation
from tfjac.explanations.inputs import repeated_parts
from tfjac.explanations.scores import Explained
from tfjac.graph.facts import facts_of, is_loop
from tfjac.interception import rules
from tfjac.types import Function, Nest, NestLike, Selector, TensorLike


def integrated_gradients(
    model: Function,
    x: NestLike,
    class_index: int | TensorLike | None = None,
    baseline: Nest[TensorLike] | None = None,
    steps: int = 50,
    score_at: Selector | None = None,
    batch_size: int = 64,
) -> Explanation:
    """Attribute the change of a score from that of a baseline to each input, by its gradients along the way.

        (x − x₀) ∫₀¹ ∂score/∂x(x₀ + t (x − x₀)) dt, by Gauss–Legendre quadrature

    Args:
        model, x, class_index, score_at, batch_size: as in `grad_cam`.
        baseline: x₀: zeros if None, for tokens an embedding of zeros; a number; an array like one example or like the
            batch; or a nest like x of these. For tokens it is one of tokens; masks stay those of x.
        steps: so many gradients for each example.

    Returns:
        An `Explanation`. Its `gap` is what the attributions miss, for want of steps, of the change of the score.

    Raises:
        TypeError, ValueError: as in `grad_cam`; and for integers that no embedding looks up.

    Cost: `steps` gradients for each example.
    Reference: M. Sundararajan, A. Taly, Q. Yan, "Axiomatic attribution for deep networks", 2017.
    """
    explained = Explained(model, x, class_index, score_at, batch_size)
    points, start = explained.points(), explained.baseline_points(baseline)
    places, weights = np.polynomial.legendre.leggauss(positive_integer("steps", steps))
    places, weights = (1 + places) / 2, weights / 2

    def on_the_way(point, origin, chosen):
        t = places[chosen].reshape(-1, *(1 for _ in point.shape))
        return (origin + t * (point - origin)).astype(point.dtype)

    (means,) = sums_of_gradients(
        explained,
        points,
        len(places),
        lambda chosen, rows: [on_the_way(p[rows], o[rows], chosen) for p, o in zip(points, start)],
        [lambda gradient, chosen, _: np.tensordot(weights[chosen].astype(gradient.dtype), gradient, 1)],
    )
    contributions = [mean * (point - origin) for mean, point, origin in zip(means, points, start)]
    return explained.adding_up("integrated_gradients", contributions, explained.scores_at(start))


def smooth_grad(
    model: Function,
    x: NestLike,
    class_index: int | TensorLike | None = None,
    samples: int = 25,
    noise: float = 0.15,
    combine: Literal["mean", "squares", "variance"] = "mean",
    seed: int = 0,
    score_at: Selector | None = None,
    batch_size: int = 64,
) -> Explanation:
    """Average the gradient of a score over copies of the inputs with noise.

    Args:
        model, x, class_index, score_at, batch_size: as in `grad_cam`.
        samples: so many copies of each example.
        noise: the standard deviation, as a fraction of the range, largest less smallest, of each example. For tokens
            the noise is added to the embedding.
        combine: "mean", "squares" for the mean of squared gradients, or "variance".
        seed: of the noise, `numpy.random.default_rng(seed).normal`, a sample of all inputs after the other.

    Returns:
        An `Explanation`.

    Raises:
        TypeError, ValueError: as in `integrated_gradients`.

    Cost: `samples` gradients for each example.
    References: D. Smilkov et al., "SmoothGrad: removing noise by adding noise", 2017; J. Adebayo et al., "Local
    explanation methods for deep neural networks lack sensitivity to parameter values", 2018, for the variance.
    """
    choice("combine", combine, ("mean", "squares", "variance"))
    if not np.isfinite(noise) or noise < 0:
        raise ValueError(f"noise must be zero or positive. Received: noise={noise!r}")
    explained = Explained(model, x, class_index, score_at, batch_size)
    points, rng, drawn = explained.points(), np.random.default_rng(seed), {}
    deviations = [noise * (_over_example(np.max, p) - _over_example(np.min, p)) for p in points]

    def with_noise(chosen, rows):
        if rows.start == 0:  # the first rows of these samples: draw them for all rows
            drawn["now"] = [[rng.normal(size=p.shape) for p in points] for _ in range(chosen.start, chosen.stop)]
        return [
            np.stack([p[rows] + d[rows] * sample[k][rows] for sample in drawn["now"]]).astype(p.dtype)
            for k, (p, d) in enumerate(zip(points, deviations))
        ]

    count = positive_integer("samples", samples)
    powers = [lambda gradient, *_: gradient.sum(axis=0) / count, lambda gradient, *_: (gradient**2).sum(axis=0) / count]
    means, squares = sums_of_gradients(explained, points, count, with_noise, powers)
    found = {"mean": means, "squares": squares, "variance": [s - m**2 for s, m in zip(squares, means)]}
    return explained.explanation("smooth_grad", explained.attributions(found[combine]))


def guided_backprop(
    model: Function,
    x: NestLike,
    class_index: int | TensorLike | None = None,
    score_at: Selector | None = None,
    batch_size: int = 64,
) -> Explanation:
    """Take the gradient of a score, of which each ReLU passes what is positive alone.

    Args:
        model, x, class_index, score_at, batch_size: as in `grad_cam`.

    Returns:
        An `Explanation`.

    Raises:
        TypeError, ValueError: as in `integrated_gradients`; and for a model without a ReLU.

    Cost: one gradient.
    Reference: J. T. Springenberg et al., "Striving for simplicity: the all convolutional net", 2015.
    """
    explained = Explained(model, x, class_index, score_at, batch_size)
    gradients = explained.gradients(
        explained.points(), explained.classes, explained.inputs.arrays, ["guided"], _guided_rules
    )
    return explained.explanation("guided_backprop", explained.attributions(gradients))


def _guided_rules(program):
    path = program.path()
    found = {op.name: _GUIDED[op.type] for op in path if op.type in _GUIDED}
    if not found:
        activations = sorted({op.type for op in path if facts_of(op).activation or is_loop(op)})
        raise ValueError(
            "Guided backpropagation needs ReLU, and there is none between the inputs and the scores: use "
            "tfjac.explanations.smooth_grad or integrated_gradients. "
            f"Received: a model with {', '.join(activations) or 'no activation'}"
        )
    return found


def _guided_relu6(op, gradient):
    return tf.raw_ops.Relu6Grad(gradients=tf.nn.relu(gradient), features=op.inputs[0])


_GUIDED = {"Relu": rules.guided, "Relu6": _guided_relu6}


def sums_of_gradients(explained, points, repeats, moved, parts):
    """Return sums over gradients at `repeats` moved copies of each row: for each of `parts` a list like the points.

    Args:
        moved: function of a slice of repeats and one of rows that returns the points, `[repeats, rows, ...]`.
        parts: functions of gradients `[repeats, rows, ...]`, the slice of repeats and the number of the point, to what
            is summed `[rows, ...]`.
    """
    sums = [[np.zeros_like(point) for point in points] for _ in parts]
    for chosen, rows in repeated_parts(explained.inputs.count, repeats, explained.batch_size):
        copies, repeated = moved(chosen, rows), chosen.stop - chosen.start
        flat = [each.reshape(-1, *each.shape[2:]) for each in copies]
        classes, *arrays = (np.concatenate([a[rows]] * repeated) for a in (explained.classes, *explained.inputs.arrays))
        gradients = explained.gradients(flat, classes, arrays)
        for totals, part in zip(sums, parts):
            for number, (total, gradient, copy) in enumerate(zip(totals, gradients, copies)):
                total[rows] += part(gradient.reshape(copy.shape), chosen, number)
    return sums


def _over_example(reduce, point):
    return reduce(point, axis=tuple(range(1, point.ndim)), keepdims=True)
