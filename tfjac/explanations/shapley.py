"""Shapley values: how a change of a score is shared out fairly among the features, exactly or by samples."""

import math

import numpy as np

from tfjac.arguments import positive_integer
from tfjac.explanations.explanation import Explanation
from tfjac.explanations.masking import Features
from tfjac.explanations.scores import Explained
from tfjac.types import Array, Function, Nest, NestLike, Selector, TensorLike


def shapley_values(
    model: Function,
    x: NestLike,
    class_index: int | TensorLike | None = None,
    groups: Nest[TensorLike] | None = None,
    baseline: Nest[TensorLike] | None = None,
    score_at: Selector | None = None,
    batch_size: int = 64,
) -> Explanation:
    """Attribute the change of a score from a baseline's to each feature, exactly, over all coalitions S of the others.

        φ_i = Σ_S |S|! (m − |S| − 1)! / m! · (score(S ∪ {i}) − score(S)), features outside hidden by the baseline

    Args:
        model: as in `grad_cam`.
        x: as in `grad_cam`.
        class_index: as in `grad_cam`.
        groups: which elements make a feature: integers like one example, the number of its feature for each element; a
            nest like x for several inputs, which share features of one number. If None, each column of
            `[n, columns]`, each step of `[n, steps, columns]`, and sixteen patches of images.
        baseline: what stands in the place of a hidden feature: zeros if None, else as in `integrated_gradients`; for
            tokens a token.
        score_at: as in `grad_cam`.
        batch_size: so many rows are computed at once.

    Returns:
        An `Explanation`. Each element has the value of its feature, and `details["features"]` are the values
        `[n, m]`, which add up to the change of the score.

    Raises:
        TypeError, ValueError: as in `grad_cam`; for groups that do not fit, and for more than 16 features.

    Cost: 2^m evaluations for each example.
    Reference: L. S. Shapley, "A value for n-person games", 1953.
    """
    explained = Explained(model, x, class_index, score_at, batch_size)
    features = Features(explained, groups, baseline)
    m = features.count
    if m > _MOST:
        raise ValueError(
            f"All coalitions of more than {_MOST} features are too many: use tfjac.explanations.kernel_shap or "
            f"shapley_sampling, or fewer features by groups=. Received: {m} features"
        )
    numbers = np.arange(2**m)
    present = _bits(numbers, m)
    scores, sizes = features.scores(present).astype(np.float64), present.sum(axis=1)
    shares = np.array([1 / (m * math.comb(m - 1, size)) for size in range(m)])
    values = np.empty((explained.inputs.count, m))
    for i in range(m):
        without = numbers[~present[:, i]]
        values[:, i] = shares[sizes[without]] @ (scores[without | 1 << i] - scores[without])
    return features.explanation("shapley_values", values, scores[0].astype(explained.scores.dtype))


def shapley_sampling(
    model: Function,
    x: NestLike,
    class_index: int | TensorLike | None = None,
    groups: Nest[TensorLike] | None = None,
    baseline: Nest[TensorLike] | None = None,
    samples: int = 25,
    seed: int = 0,
    score_at: Selector | None = None,
    batch_size: int = 64,
) -> Explanation:
    """Estimate Shapley values by random orders, in which one feature after the other is let into the baseline.

    Args:
        model, x, class_index: as in `grad_cam`.
        groups: as in `shapley_values`.
        baseline: as in `shapley_values`.
        samples: so many orders, the same for all examples.
        seed: of the orders, `numpy.random.default_rng(seed).permutation(m)`, one after the other.
        score_at: as in `grad_cam`.
        batch_size: so many rows are computed at once.

    Returns:
        An `Explanation`, as `shapley_values`: the values add up to the change of the score, whatever `samples` is.
        `details["standard_errors"]` `[n, m]` are those of the means over the orders; NaN of one order.

    Raises:
        TypeError, ValueError: as in `shapley_values`.

    Cost: samples · (m − 1) evaluations for each example.
    Reference: E. Štrumbelj, I. Kononenko, "An efficient explanation of individual classifications using game theory",
    2010.
    """
    explained = Explained(model, x, class_index, score_at, batch_size)
    features, rng = Features(explained, groups, baseline), np.random.default_rng(seed)
    m, count = features.count, positive_integer("samples", samples)
    nothing, everything = features.ends()
    orders = np.array([rng.permutation(m) for _ in range(count)])
    ranks = orders.argsort(axis=1)
    changes = np.empty((count, explained.inputs.count, m))
    for change, order, rank in zip(changes, orders, ranks):
        between = features.scores(rank < np.arange(1, m)[:, None])
        along = np.concatenate([nothing[None], between, everything[None]]).astype(np.float64)
        change[:, order] = np.diff(along, axis=0).T
    errors = changes.std(axis=0, ddof=1) / math.sqrt(count) if count > 1 else np.full(changes.shape[1:], np.nan)
    return features.explanation("shapley_sampling", changes.mean(axis=0), nothing, standard_errors=errors)


def kernel_shap(
    model: Function,
    x: NestLike,
    class_index: int | TensorLike | None = None,
    groups: Nest[TensorLike] | None = None,
    baseline: Nest[TensorLike] | None = None,
    samples: int | None = None,
    seed: int = 0,
    score_at: Selector | None = None,
    batch_size: int = 64,
) -> Explanation:
    """Estimate Shapley values by weighted least squares: the values that explain the scores of coalitions best.

        min_φ Σ_S w(S) (score(S) − score(∅) − Σ_{i ∈ S} φ_i)²  with Σ_i φ_i = score(all) − score(∅)

    Coalitions are drawn in pairs, each with the one of all other features. If there are no more than `samples`, all are
    taken, with their weights, and the values are exact.

    Args:
        model, x, class_index: as in `grad_cam`.
        groups: as in `shapley_values`.
        baseline: as in `shapley_values`.
        samples: number of coalitions, the same for all examples; 2 m + 2,048 if None.
        seed: of the coalitions.
        score_at: as in `grad_cam`.
        batch_size: so many rows are computed at once.

    Returns:
        An `Explanation`, as `shapley_values`: the values add up to the change of the score, whatever `samples` is.

    Raises:
        TypeError, ValueError: as in `shapley_values`; for too few samples to tell the features apart.

    Cost: at most `samples` evaluations for each example.
    References: S. Lundberg, S.-I. Lee, "A unified approach to interpreting model predictions", 2017; I. Covert, S.-I.
    Lee, "Improving KernelSHAP: practical Shapley value estimation using linear regression", 2021.
    """
    explained = Explained(model, x, class_index, score_at, batch_size)
    features = Features(explained, groups, baseline)
    m = features.count
    count = 2 * m + 2048 if samples is None else positive_integer("samples", samples)
    nothing, everything = features.ends()
    present, weights = _coalitions(m, count, np.random.default_rng(seed))
    values = features.scores(present).astype(np.float64) - nothing
    return features.explanation("kernel_shap", _fitted(present, weights, values, everything - nothing), nothing)


_MOST = 16
"""Of more features not all coalitions are computed."""


def _bits(numbers: Array, m: int) -> Array:
    return (numbers[:, None] >> np.arange(m) & 1).astype(bool)


def _coalitions(m: int, samples: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """Return `[k, m]` of bool, neither the empty coalition nor that of all, and their weights `[k]`."""
    if m < 2 or 2**m - 2 <= samples:
        present = _bits(np.arange(1, 2**m - 1), m)
        return present, np.array([1 / (math.comb(m, size) * size * (m - size)) for size in present.sum(axis=1)])
    sizes = np.arange(1, m)
    of_sizes = 1 / (sizes * (m - sizes))
    drawn = rng.choice(sizes, samples // 2, p=of_sizes / of_sizes.sum())
    ranks = rng.random((len(drawn), m)).argsort(axis=1).argsort(axis=1)
    half = ranks < drawn[:, None]
    present, weights = np.unique(np.concatenate([half, ~half]), axis=0, return_counts=True)
    return present, weights


def _fitted(present: Array, weights: Array, values: Array, change: Array) -> Array:
    """Return `[n, m]`, the values that fit `values[k, n]` best and add up to `change[n]`: the last is what is left."""
    last = present[:, -1:].astype(float)
    roots = np.sqrt(weights)[:, None]
    others = present[:, :-1] - last
    found, _, rank, _ = np.linalg.lstsq(roots * others, roots * (values - last * change), rcond=None)
    if rank < others.shape[1]:
        raise ValueError(
            f"Too few coalitions to tell {present.shape[1]} features apart: use more samples, or fewer features by "
            f"groups=. Received: samples that give {len(present)} coalitions"
        )
    return np.concatenate([found, (change - found.sum(axis=0))[None]]).T
