"""`laplace`: from a trained Keras model to the posterior of its weights."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

import keras
import numpy as np

from tfjac.arguments import choice
from tfjac.laplace.bases import Examples, Kronecker, Weights
from tfjac.laplace.curvature import NetworkCurvature
from tfjac.laplace.marginal_likelihood import noise_of_each, numbers, ratios_of
from tfjac.laplace.posterior import LaplacePosterior
from tfjac.types import LikelihoodName, Nest, Side, StructureName, TensorLike, Variable

STRUCTURES = ("full", "kronecker")
"""What JᵀHJ is taken for."""


class Fit(NamedTuple):
    """The data that a posterior is made of, as far as it needs them.

    Attributes:
        latent: z of all examples, `[n, ...]`.
        labels: y in the shape of z, or None.
        counts: one for each position that counts, `[n, *positions, 1]`, zero where Keras masks it.
        weights: w, arrays of float64, one for each variable.
        structure: `"full"` or `"kronecker"`.
        ratios: the noise of each output over σ, an array in the shape of the outputs, or one number, 1.
        shares: the prior's precision of each variable over δ, an array, or one number, 1.
    """

    latent: np.ndarray
    labels: np.ndarray | None
    counts: np.ndarray
    weights: list[np.ndarray]
    structure: str
    ratios: np.ndarray
    shares: np.ndarray

    @property
    def squared_norm(self):
        """‖w‖², that of each variable times its share."""
        return float(np.sum(self.shares * [np.sum(each**2) for each in self.weights]))

    @property
    def errors(self):
        """What the network misses, in units of the noise but for σ, `[n, ...]`."""
        return self.counts * (self.labels - self.latent) / self.ratios

    @property
    def numbers(self):
        """How many targets count for each output, in the shape of the outputs."""
        return np.sum(np.broadcast_to(self.counts, self.latent.shape), axis=0)


def laplace(
    model: keras.Model,
    x: Nest[TensorLike],
    y: TensorLike | None = None,
    *,
    variables: Literal["all", "last_layer"] | Sequence[Variable] = "all",
    structure: StructureName = "full",
    prior_precision: float | TensorLike | None = None,
    noise: float | TensorLike | Literal["each_output"] | None = None,
    likelihood: LikelihoodName | None = None,
    from_logits: bool | None = None,
    side: Literal["auto"] | Side = "auto",
    batch_size: int | None = None,
) -> LaplacePosterior:
    """Return the Laplace approximation of the posterior of a trained model's weights: how sure its predictions are.

        posterior = tfjac.laplace(model, x, y)
        mean, variance = posterior.predict(x_new)

    The posterior is the normal distribution around the trained weights with precision P = JᵀHJ + δI, JᵀHJ being the
    generalised Gauss-Newton matrix over all examples, which count alike, H the Hessian of −log p(y | z) at the outputs
    z; δ is the precision of a prior around zero. To first order in the weights, outputs of new inputs then are normal
    with covariance J P⁻¹ Jᵀ. The model is used in inference mode: batch normalisation with its moving statistics,
    dropout without effect.

    Args:
        model: a Keras model with one output, trained.
        x: array or tensor `[n, ...]`, or nest of them: the inputs that it was trained on.
        y: their targets, as for `fit`. Not needed where `noise` and `prior_precision` are given, or for a classifier:
            but for the marginal likelihood.
        variables: "all" (trainable ones), "last_layer" (those of the last layer that has some), or a list.
        prior_precision: δ, or an array with one for each variable; where None, that of the largest marginal likelihood.
        structure: "full", or "kronecker" to take JᵀHJ of each variable for A ⊗ G, a product of two small matrices, and
            that between variables for zero: for large networks.
        noise: σ of a regression, for all outputs, or an array with one for each; where None, that of the largest
            marginal likelihood, one for all; where "each_output", one for each.
        likelihood: "gaussian", "categorical" or "bernoulli"; where None, by the loss that the model is compiled with.
        from_logits: whether the model's output are logits; where None, by that loss. Otherwise they are found below
            the last softmax or sigmoid.
        side: "weights" to decompose `[p, p]`, "examples" to decompose `[n·m, n·m]`, or "auto" for the smaller.
        batch_size: how many examples at a time; by their sizes where None.

    Returns:
        A `LaplacePosterior`.

    Raises:
        ValueError, TypeError: for options that do not fit, or a likelihood that cannot be told.

    Cost: JᵀHJ, n·p²/2 multiply-adds by way of factors, or J·Jᵀ between all pairs of chunks; an eigendecomposition,
    about 10·min(p, n·m)³; memory a few times min(p, n·m)². With Kronecker factors i³ + o³ for each layer. The noise of
    each output takes some ten decompositions.
    Reference: D. J. C. MacKay, "A practical Bayesian framework for backpropagation networks", 1992; A. Immer, M.
    Korzepa, M. Bauer, "Improving predictions of Bayesian neural nets via local linearization", 2021; H. Ritter, A.
    Botev, D. Barber, "A scalable Laplace approximation for neural networks", 2018.
    """
    curvature = NetworkCurvature("laplace", model, x, variables, likelihood, from_logits, batch_size)
    distribution = curvature.likelihood
    if noise is not None and not distribution.has_noise:
        raise ValueError(f"A {distribution.name} likelihood has no noise to be given. Received: noise={noise!r}")
    noise = _checked_noise(noise, y) if distribution.has_noise else None
    prior_precision = None if prior_precision is None else numbers("prior_precision", prior_precision)
    _check_names(structure, side, noise)
    latent, variables = curvature.latent, curvature.variables
    labels = None if y is None else distribution.labels(y, latent.shape)
    weights = [variable.numpy().astype(float) for variable in variables]
    shares, delta = ratios_of("prior_precision", prior_precision, (len(variables),), "variable")
    fit = Fit(latent, labels, curvature.counts, weights, structure, np.ones(()), shares)
    smaller = "weights" if curvature.num_parameters <= latent.size else "examples"
    kind = {"weights": Weights, "examples": Examples}[smaller if side == "auto" else side]
    kind = Kronecker if structure == "kronecker" else kind

    def posterior(ratios, sigma):
        curvature.weigh_by(ratios, shares)
        return LaplacePosterior(kind(curvature), fit._replace(ratios=ratios), delta, sigma)

    if isinstance(noise, str):
        return noise_of_each(posterior, fit, x)
    return posterior(*ratios_of("noise", noise, latent.shape[1:], "output"))


def _check_names(structure, side, noise):
    choice("structure", structure, STRUCTURES)
    choice("side", side, ("auto", "weights", "examples"))
    if structure == "kronecker" and side == "examples":
        raise ValueError(
            'Kronecker factors are of weights: leave side out, or take structure="full". '
            f"Received: structure={structure!r}, side={side!r}"
        )
    if structure == "kronecker" and isinstance(noise, str):
        raise ValueError(
            'The noise of each output is found where structure="full": give the noises, or None for one. '
            f"Received: structure={structure!r}, noise={noise!r}"
        )


def _checked_noise(noise, y):
    """Return σ as a float or an array, `"each_output"` or None."""
    if (noise is None or isinstance(noise, str)) and y is None:
        raise ValueError(f"The noise is found from the targets: give y, or noise. Received: y=None, noise={noise!r}")
    if noise is None or isinstance(noise, str):
        return noise if noise is None else choice("noise", noise, ("each_output",))
    return numbers("noise", noise)
