"""What a Laplace approximation knows: the posterior of the weights, and what it says of new inputs."""

from __future__ import annotations

import copy
from typing import Any, NamedTuple

import numpy as np

from tfjac.arguments import choice, positive_integer
from tfjac.laplace.marginal_likelihood import effective_parameters, most_probable, occam_factor, scale_of
from tfjac.types import Array, AverageName, Nest, TensorLike

AVERAGES = ("probit", "monte_carlo")
"""How probabilities are averaged over the posterior."""


class Prediction(NamedTuple):
    """Mean and variance of the latent outputs of new inputs, NumPy, both of the shape of these outputs.

    Attributes:
        mean: what the network says, its outputs, or a classifier's logits.
        variance: how uncertain that is as the weights are uncertain; noise is not in it.
    """

    mean: np.ndarray
    variance: np.ndarray


class LaplacePosterior:
    """The weights' normal distribution around those that were trained, with precision P = JᵀHJ/σ² + δI.

    Made by `laplace`. It is about the weights that the network had then: after further training it refuses to answer.

    Attributes:
        likelihood: `"gaussian"`, `"categorical"` or `"bernoulli"`.
        prior_precision: δ, a float, or an array with one for each variable.
        noise: σ, the standard deviation of targets around the network's outputs, a float, or an array with one for each
            output; None for classifiers.
        structure: `"full"`, or `"kronecker"` where JᵀHJ of each variable was taken for A ⊗ G.
        side: `"weights"` where JᵀHJ was decomposed, `"examples"` where RᵀJJᵀR was, which has the same eigenvalues.
        num_parameters, num_examples, num_outputs: p, n, m.
    """

    prior_precision: float | Array
    noise: float | Array | None

    def __init__(
        self,
        basis: Any,
        fit: Any,
        prior_precision: float | None = None,
        sigma: float | None = None,
    ) -> None:
        """Take what `laplace` found: a `Basis` and a `Fit`; δ and σ, None to be found."""
        self._basis, self._fit, self._curvature = basis, fit, basis.curvature
        self._likelihood = self._curvature.likelihood
        self.likelihood, self.structure, self.side = self._likelihood.name, fit.structure, basis.side
        self.num_parameters, self.num_outputs = self._curvature.num_parameters, self._curvature.num_outputs
        self.num_examples = len(fit.latent)
        self._settle(prior_precision, sigma)

    def tuned(
        self, prior_precision: float | TensorLike | None = None, noise: float | TensorLike | None = None
    ) -> LaplacePosterior:
        """Return the posterior with another δ and σ, at no further decomposition.

        Args:
            prior_precision, noise: δ and σ; those of the largest marginal likelihood where None. Noises of several
                outputs, and priors of several variables, keep their ratios.

        Raises:
            ValueError: for other ratios, or where the targets are needed and `laplace` was not given them.
        """
        delta, sigma = self._delta_of(prior_precision), self._sigma_of(noise)
        if sigma is None and self._likelihood.has_noise and self._fit.labels is None:
            raise ValueError("The noise is found from the targets: call laplace with y, or give it. Received: y=None")
        found = copy.copy(self)
        found._settle(delta, sigma)
        return found

    def predict(self, x: Nest[TensorLike]) -> Prediction:
        """Return the `Prediction` for inputs `x`: mean and variance of outputs, or of a classifier's logits.

        A new target varies by `variance + noise**2`. Cost: a backward pass per output, and n·m·p² multiply-adds on the
        side of the weights; on that of the examples, J·Jᵀ with all training examples.
        """
        mean, covariance = self._predicted(x)
        variance = np.diagonal(covariance, axis1=1, axis2=2)
        return Prediction(mean, variance.reshape(mean.shape))

    def covariance(self, x: Nest[TensorLike]) -> Array:
        """Return the covariance J P⁻¹ Jᵀ of the outputs, or logits, of each input, `[n, m, m]`."""
        return self._predicted(x)[1]

    def probabilities(
        self, x: Nest[TensorLike], method: AverageName = "probit", num_draws: int = 1000, seed: int = 0
    ) -> Array:
        """Return a classifier's probabilities, averaged over the posterior, in the shape of its outputs.

        Args:
            x: inputs.
            method: "probit", MacKay's approximation, those of logits divided by √(1 + πv/8), v being their variance;
                or "monte_carlo", the mean over draws of the logits of each input, with their covariance.
            num_draws, seed: of these draws.

        Raises:
            ValueError: for a regression.
        """
        if self._likelihood.has_noise:
            raise ValueError("Probabilities are for classifiers; use predict. Received: a gaussian likelihood")
        if choice("method", method, AVERAGES) == "probit":
            mean, variance = self.predict(x)
            return self._likelihood.mean(mean / np.sqrt(1 + np.pi / 8 * variance))
        mean, covariance = self._predicted(x)
        values, vectors = np.linalg.eigh(covariance)
        root = vectors * np.sqrt(np.maximum(values, 0))[:, None]
        draws = np.random.default_rng(seed).normal(size=(positive_integer("num_draws", num_draws), root.shape[-1]))
        total = sum(self._likelihood.mean(mean + (root @ draw).reshape(mean.shape)) for draw in draws)
        return total / num_draws

    def sample(self, num_draws: int, x: Nest[TensorLike] | None = None, seed: int = 0) -> Any:
        """Return draws of the weights, or of the outputs of inputs `x`, or of a classifier's logits.

        Each draw of outputs is that of one network, to first order around the trained weights: all inputs share it.

        Args:
            num_draws: how many.
            x: inputs, or None for weights.
            seed: an integer; the same weights for the same seed, with `x` and without.

        Returns:
            For weights, a list of arrays `[num_draws, ...v]`, one for each variable, in the order of `variables`; for
            outputs, an array `[num_draws, n, ...]`.
        """
        self._curvature.check_weights()
        size = (positive_integer("num_draws", num_draws), self.num_parameters)
        normal = np.random.default_rng(seed).normal(size=size).T
        drawn = self._basis.deviations(normal, 1 / self._sigma**2, self._delta)
        if x is not None:
            x = self._curvature.as_inputs(x)
            mean = self._curvature.outputs(x)[0]
            return mean + self._curvature.product(x, drawn).T.reshape(num_draws, *mean.shape)
        parts = np.split(drawn.T, np.cumsum([each.size for each in self._fit.weights])[:-1], axis=1)
        roots = np.broadcast_to(np.sqrt(self._fit.shares), [len(parts)])
        triples = zip(self._fit.weights, parts, roots)
        return [each + part.reshape(num_draws, *each.shape) / root for each, part, root in triples]

    def log_marginal_likelihood(
        self, prior_precision: float | TensorLike | None = None, noise: float | TensorLike | None = None
    ) -> float:
        """Return the logarithm of p(y | X), the evidence for the model, by which priors and networks can be compared.

        Args:
            prior_precision, noise: δ and σ other than those of this posterior.

        Raises:
            ValueError: where `laplace` was not given the targets.
        """
        if self._fit.labels is None:
            raise ValueError("The marginal likelihood is that of targets: call laplace with y. Received: y=None")
        delta = self._delta if prior_precision is None else self._delta_of(prior_precision)
        sigma = self._sigma if noise is None else self._sigma_of(noise)
        fitted = self._likelihood.log_likelihood(
            self._fit.latent, self._fit.labels, sigma * self._fit.ratios, self._fit.counts
        )
        return float(fitted + occam_factor(self._basis.eigenvalues / sigma**2, self._fit.squared_norm, delta))

    @property
    def effective_parameters(self) -> float:
        """γ, how many parameters the data determine, a float."""
        return effective_parameters(self._basis.eigenvalues / self._sigma**2, self._delta)

    def _settle(self, delta, sigma):
        """Take δ and σ, those of the largest marginal likelihood where None."""
        has_noise, fit = self._likelihood.has_noise, self._fit
        sigma = sigma if has_noise else 1.0
        squared_error = np.sum(fit.errors**2) if sigma is None else 0.0
        self._delta, self._sigma = most_probable(
            self._basis.eigenvalues, fit.squared_norm, delta, sigma, squared_error, np.sum(fit.numbers)
        )
        self.prior_precision = unwrapped(self._delta * fit.shares)
        self.noise = unwrapped(self._sigma * fit.ratios) if has_noise else None

    def _delta_of(self, prior_precision):
        """Return δ of a prior, None where it is."""
        return scale_of("prior_precision", prior_precision, self._fit.shares, (len(self._fit.weights),))

    def _sigma_of(self, noise):
        """Return σ of noises, None where they are."""
        if noise is not None and not self._likelihood.has_noise:
            raise ValueError(f"A {self.likelihood} likelihood has no noise to be given. Received: noise={noise!r}")
        return scale_of("noise", noise, self._fit.ratios, self._fit.latent.shape[1:])

    def _predicted(self, x):
        self._curvature.check_weights()
        x = self._curvature.as_inputs(x)
        return self._curvature.outputs(x)[0], self._basis.covariance(x, 1 / self._sigma**2, self._delta)

    def __repr__(self):
        noise = "" if self.noise is None else f", noise {listed(self.noise)}"
        return (
            f"LaplacePosterior({self.likelihood}, {self.structure}, {self.num_parameters:,} parameters, "
            f"{self.num_examples:,} examples of {self.num_outputs} outputs, on the side of the {self.side}: "
            f"prior precision {listed(self.prior_precision)}{noise}, "
            f"{self.effective_parameters:.1f} effective parameters)"
        )


def unwrapped(values):
    """Return an array, or the float that it is."""
    return values if np.ndim(values) else float(values)


def listed(values):
    """Return the first of some numbers as a text."""
    texts = [f"{each:.4g}" for each in np.ravel(values)]
    return ", ".join(texts[:4] + ["…"] * (len(texts) > 4))
