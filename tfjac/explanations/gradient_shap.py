"""Gradient SHAP: expected gradients between an example and a background."""

import numpy as np

from tfjac.arguments import positive_integer
from tfjac.explanations.by_gradients import sums_of_gradients
from tfjac.explanations.explanation import Explanation
from tfjac.explanations.inputs import Inputs
from tfjac.explanations.scores import Explained
from tfjac.types import Array, Function, NestLike, Selector, TensorLike


def gradient_shap(
    model: Function,
    x: NestLike,
    class_index: int | TensorLike | None = None,
    background: NestLike | None = None,
    samples: int = 25,
    noise: float = 0.0,
    seed: int = 0,
    score_at: Selector | None = None,
    batch_size: int = 64,
) -> Explanation:
    """Attribute the change of a score from that of a background, by gradients between x and examples drawn from it.

        mean over samples of (x + ν − b) · ∂score/∂x(b + t (x + ν − b)), b drawn from the background, t from [0, 1]

    These are expected gradients, which estimate Shapley values of a model that is nearly linear between b and x.

    Args:
        model, x, class_index, score_at, batch_size: as in `grad_cam`.
        background: examples like x, any number; zeros if None, for tokens an embedding of zeros. Masks stay those of x.
        samples: so many draws for each example.
        noise: the standard deviation of ν, in the units of x, or of the embedding.
        seed: of `numpy.random.default_rng(seed)`: for each sample of all examples `integers` for b, `random` for t,
            and `normal` for each input.

    Returns:
        An `Explanation`. `baseline_scores` are the mean scores of the b that were drawn, and `gap` is what the
        attributions miss of the change from these, for want of samples.

    Raises:
        TypeError, ValueError: as in `integrated_gradients`.

    Cost: `samples` gradients and evaluations for each example.
    References: S. Lundberg, S.-I. Lee, "A unified approach to interpreting model predictions", 2017; G. Erion et al.,
    "Improving performance of deep learning models with axiomatic attribution priors and expected gradients", 2021.
    """
    if not np.isfinite(noise) or noise < 0:
        raise ValueError(f"noise must be zero or positive. Received: noise={noise!r}")
    explained, count = Explained(model, x, class_index, score_at, batch_size), positive_integer("samples", samples)
    points, rng = explained.points(), np.random.default_rng(seed)
    origins = [np.zeros_like(point[:1]) for point in points]
    if background is not None:
        origins = explained.points(Inputs(model, background, "background").arrays)
        _check_like(origins, points)
    started, now = np.zeros(explained.inputs.count), _Draws()

    def draw():
        chosen, way = rng.integers(len(origins[0]), size=len(started)), rng.random(len(started))
        starts = [origin[chosen] for origin in origins]
        started[:] += explained.scores_at(starts) / count
        ends = [point + noise * rng.normal(size=point.shape) for point in points]
        now.starts.append(starts)
        now.steps.append([(end - start).astype(start.dtype) for end, start in zip(ends, starts)])
        now.ways.append([way.reshape(-1, *(1 for _ in p.shape[1:])).astype(p.dtype) for p in points])

    def on_the_way(chosen, rows):
        if rows.start == 0:  # the first rows of these samples: draw them for all rows
            now.clear()
            for _ in range(chosen.start, chosen.stop):
                draw()
        now.rows = rows
        return [now.of(now.starts, k) + now.of(now.ways, k) * now.of(now.steps, k) for k in range(len(points))]

    def contribution(gradient, _, number):
        return (gradient * now.of(now.steps, number)).sum(axis=0) / count

    (contributions,) = sums_of_gradients(explained, points, count, on_the_way, [contribution])
    return explained.adding_up("gradient_shap", contributions, started.astype(explained.scores.dtype))


class _Draws:
    """What was drawn for the samples that are computed now: a list of samples, each a list like the points."""

    def __init__(self) -> None:
        self.rows = slice(0)
        self.clear()

    def clear(self) -> None:
        self.starts: list[list[Array]] = []
        self.steps: list[list[Array]] = []
        self.ways: list[list[Array]] = []

    def of(self, samples: list[list[Array]], number: int) -> Array:
        """Return `[samples, rows, ...]` of a point, for the rows that are computed now."""
        return np.stack([sample[number][self.rows] for sample in samples])


def _check_like(background, points):
    for origin, point in zip(background, points):
        if origin.shape[1:] != point.shape[1:]:
            raise ValueError(
                "background must be examples like x, of the same shape. "
                f"Received: shape {origin.shape} for inputs of shape {point.shape}"
            )
