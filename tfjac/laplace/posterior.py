"""What a Laplace approximation knows: the posterior of the weights, and what it says of new inputs."""

import hashlib
from typing import Any, NamedTuple

import keras
import numpy as np

from tfjac.laplace.marginal_likelihood import effective_parameters, occam_factor
from tfjac.types import Array, Nest, TensorLike


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
        prior_precision: δ.
        noise: σ, the standard deviation of targets around the network's outputs; None for classifiers.
        side: `"weights"` where JᵀHJ was decomposed, `"examples"` where RᵀJJᵀR was, which has the same eigenvalues.
        num_parameters, num_examples, num_outputs: p, n, m.
    """

    def __init__(
        self, basis: Any, likelihood: Any, fit: Any, prior_precision: float, noise: float, model: keras.Model
    ) -> None:
        """Take what `laplace` found: a `Basis`, a `Likelihood`, a `Fit`, δ, σ and the model."""
        self._basis, self._likelihood, self._fit, self._model = basis, likelihood, fit, model
        self.likelihood, self.side = likelihood.name, basis.side
        self.prior_precision, self._sigma = prior_precision, noise
        self.noise = noise if likelihood.has_noise else None
        self.num_parameters, self.num_examples, self.num_outputs = fit.num_parameters, fit.num_examples, fit.num_outputs
        self._weights = fingerprint(model)

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

    def probabilities(self, x: Nest[TensorLike]) -> Array:
        """Return a classifier's probabilities, averaged over the posterior, in the shape of its outputs.

        MacKay's approximation: those of logits divided by √(1 + πv/8), v being their variance.

        Raises:
            ValueError: for a regression.
        """
        if self._likelihood.has_noise:
            raise ValueError("Probabilities are for classifiers; use predict. Received: a gaussian likelihood")
        return self._likelihood.probabilities(*self.predict(x))

    def log_marginal_likelihood(self, prior_precision: float | None = None, noise: float | None = None) -> float:
        """Return the logarithm of p(y | X), the evidence for the model, by which priors and networks can be compared.

        Args:
            prior_precision, noise: δ and σ other than those of this posterior.

        Raises:
            ValueError: where `laplace` was not given the targets.
        """
        if self._fit.targets is None:
            raise ValueError("The marginal likelihood is that of targets: call laplace with y. Received: y=None")
        delta, sigma = prior_precision or self.prior_precision, noise or self._sigma
        fitted = self._likelihood.log_likelihood(self._fit.latent, self._fit.targets, sigma)
        return float(fitted + occam_factor(self._basis.eigenvalues / sigma**2, self._fit.squared_norm, delta))

    @property
    def effective_parameters(self) -> float:
        """γ, how many parameters the data determine, a float."""
        return effective_parameters(self._basis.eigenvalues / self._sigma**2, self.prior_precision)

    def _predicted(self, x):
        if fingerprint(self._model) != self._weights:
            raise ValueError(
                "The weights of the model are others than when the posterior was made: call laplace again. "
                "Received: a model that was changed"
            )
        x = self._fit.as_inputs(x)
        return self._basis.latent(x), self._basis.covariance(x, 1 / self._sigma**2, self.prior_precision)

    def __repr__(self):
        noise = "" if self.noise is None else f", noise {self.noise:.4g}"
        return (
            f"LaplacePosterior({self.likelihood}, {self.num_parameters:,} parameters, {self.num_examples:,} examples "
            f"of {self.num_outputs} outputs, on the side of the {self.side}: prior precision {self.prior_precision:.4g}"
            f"{noise}, {self.effective_parameters:.1f} effective parameters)"
        )


def fingerprint(model):
    """Return what changes with any weight of a model."""
    digest = hashlib.sha1()
    for weight in model.get_weights():
        digest.update(np.ascontiguousarray(weight).tobytes())
    return digest.hexdigest()
