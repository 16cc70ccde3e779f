"""Estimates from random directions: their cost does not grow with the number of inputs, their variance does."""

import abc

import keras
import numpy as np

from tfjac.black_box.estimators.base import Estimator, Probe, as_sizes, checked_sizes, checked_step
from tfjac.types import Array, ArrayLike


class RandomDirections(Estimator):
    """Antithetic pairs f(x + s∘d), f(x − s∘d) along k random directions d, drawn afresh for each forward pass.

    Args:
        probes: k, the number of directions; 2k evaluations.
        seed: an integer: the same seed gives the same directions for the same sequence of forward passes.
        typical: the size that inputs typically have, one number or one for each; directions are drawn in units of it.
    """

    has_directions = True

    def __init__(self, probes: int, seed: int, typical: ArrayLike) -> None:
        if not isinstance(probes, int) or isinstance(probes, bool) or probes < 1:
            raise ValueError(f"probes must be a positive integer. Received: {probes!r}")
        if not isinstance(seed, int) or seed < 0:
            raise ValueError(f"seed must be an integer that is not negative. Received: {seed!r}")
        self.probes, self.seed, self.typical = probes, seed, checked_sizes(typical)

    @abc.abstractmethod
    def _draw(self, generator, shape):
        """Return random directions of unit variance in each input."""

    @abc.abstractmethod
    def _length(self, probe):
        """Return how far to go along a direction, in units of the typical sizes."""

    def estimate(self, probe: Probe) -> tuple[Array, Array | None]:
        """Return what changed along each direction `[n, k, o]`, and the directions that weigh it `[n, k, i]`.

        Σ_k [f(x + s∘d) − f(x − s∘d)] ⊗ (d/s) / 2k, whose mean is J as E[d dᵀ] = 1; s = length · typical.
        """
        n, size = probe.points.shape
        s = self._length(probe) * as_sizes(self.typical, size)
        generator = np.random.Generator(np.random.Philox(key=[self.seed, probe.visit]))
        directions = self._draw(generator, [n, self.probes, size])
        ends = [probe.points[:, None] + sign * s * directions for sign in (1, -1)]
        results = probe.evaluate(np.concatenate(ends, axis=1))
        changes = results[:, : self.probes] - results[:, self.probes :]
        return changes / (2 * self.probes), directions / s

    def number_of_probes(self, size: int | None) -> int:
        return self.probes


@keras.saving.register_keras_serializable("tfjac")
class SPSA(RandomDirections):
    """Simultaneous perturbation: all inputs at once, each up or down with equal chances; 2k evaluations.

    ĝ = [f(x + cΔ) − f(x − cΔ)] / 2c · Δ⁻¹ with Δ_j = ±1, averaged over the probes. Unbiased up to c².

    Args:
        probes: number k of random directions.
        step: c in units of `typical`; default ∛ε; a noisy measurement needs one about as large as its noise.
        seed: an integer, see `RandomDirections`.
        typical: the size that inputs typically have, one number or one for each.

    Reference: J. C. Spall, "Multivariate stochastic approximation using a simultaneous perturbation gradient
    approximation", IEEE Transactions on Automatic Control 37(3), 1992, equation 2.2.
    """

    def __init__(self, probes: int = 1, step: float | None = None, seed: int = 0, typical: ArrayLike = 1.0) -> None:
        super().__init__(probes, seed, typical)
        self.step = checked_step(step)

    def _draw(self, generator, shape):
        return 2.0 * generator.integers(0, 2, shape) - 1.0

    def _length(self, probe):
        return probe.resolution ** (1 / 3) if self.step is None else self.step


@keras.saving.register_keras_serializable("tfjac")
class EvolutionStrategies(RandomDirections):
    """The gradient of the function smoothed by a Gaussian, E f(x + σε), from antithetic pairs; 2k evaluations.

    ĝ = Σ_k [f(x + σε_k) − f(x − σε_k)] ε_k / 2kσ. Right for functions with steps and kinks, whose own derivative says
    nothing. The value is that of f itself.

    Args:
        probes: number k of pairs.
        sigma: σ in units of `typical`.
        seed: an integer, see `RandomDirections`.
        typical: the size that inputs typically have, one number or one for each.

    Reference: T. Salimans, J. Ho, X. Chen, S. Sidor, I. Sutskever, "Evolution strategies as a scalable alternative to
    reinforcement learning", 2017, section 2.
    """

    def __init__(self, probes: int = 8, sigma: float = 0.1, seed: int = 0, typical: ArrayLike = 1.0) -> None:
        super().__init__(probes, seed, typical)
        if not sigma > 0:
            raise ValueError(f"sigma must be positive. Received: {sigma!r}")
        self.sigma = sigma

    def _draw(self, generator, shape):
        return generator.standard_normal(shape)

    def _length(self, probe):
        return self.sigma
