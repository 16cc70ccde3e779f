"""`laplace`: from a trained Keras model to the posterior of its weights."""

import functools
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import keras
import numpy as np

from tfjac.arguments import choice, positive, positive_integer
from tfjac.graph import as_tf_variable
from tfjac.laplace.bases import Examples, Weights
from tfjac.laplace.curvature import NetworkCurvature, size_of
from tfjac.laplace.inputs import check_trained, chosen_variables, inputs_like
from tfjac.laplace.likelihoods import likelihood_of
from tfjac.laplace.marginal_likelihood import most_probable
from tfjac.laplace.posterior import LaplacePosterior
from tfjac.types import LikelihoodName, Nest, Side, TensorLike, Variable


class Fit(NamedTuple):
    """The data that a posterior is made of, as far as it needs them.

    Attributes:
        latent: z of all examples, `[n, ...]`.
        targets: y, an array, or None.
        squared_norm: ‖w‖².
        num_parameters, num_examples, num_outputs: p, n, m.
        as_inputs: function from arrays to tensors like the model's inputs.
    """

    latent: np.ndarray
    targets: np.ndarray | None
    squared_norm: float
    num_parameters: int
    num_examples: int
    num_outputs: int
    as_inputs: Any


def laplace(
    model: keras.Model,
    x: Nest[TensorLike],
    y: TensorLike | None = None,
    *,
    variables: Literal["all", "last_layer"] | Sequence[Variable] = "all",
    prior_precision: float | None = None,
    noise: float | None = None,
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
        prior_precision: δ; where None, that of the largest marginal likelihood.
        noise: σ of a regression; where None, likewise.
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
    about 10·min(p, n·m)³; memory a few times min(p, n·m)².
    Reference: D. J. C. MacKay, "A practical Bayesian framework for backpropagation networks", 1992; A. Immer, M.
    Korzepa, M. Bauer, "Improving predictions of Bayesian neural nets via local linearization", 2021.
    """
    check_trained("laplace", model, x)
    distribution, from_logits = likelihood_of(model, likelihood, from_logits)
    if noise is not None and not distribution.has_noise:
        raise ValueError(f"A {distribution.name} likelihood has no noise to be given. Received: noise={noise!r}")
    noise = noise if distribution.has_noise else 1.0
    given = {"prior_precision": prior_precision, "noise": noise}
    prior_precision, noise = (None if each is None else positive(name, each) for name, each in given.items())
    if noise is None and y is None:
        raise ValueError("The noise is found from the targets: give y, or noise. Received: y=None, noise=None")
    choice("side", side, ("auto", "weights", "examples"))
    batch_size = None if batch_size is None else positive_integer("batch_size", batch_size)
    variables = chosen_variables(model, variables)
    as_inputs = functools.partial(inputs_like, dtype=as_tf_variable(variables[0]).dtype)
    x = as_inputs(x)
    curvature = NetworkCurvature(model, variables, distribution, from_logits, x, batch_size)
    fit = _fit(curvature, x, y, variables, as_inputs)
    smaller = "weights" if fit.num_parameters <= fit.latent.size else "examples"
    kind = {"weights": Weights, "examples": Examples}[smaller if side == "auto" else side]
    basis = kind.of(curvature, x, fit.num_outputs, fit.num_parameters)
    error = fit.targets.reshape(fit.latent.shape) - fit.latent if noise is None else np.zeros(0)
    delta, sigma = most_probable(
        basis.eigenvalues, fit.squared_norm, prior_precision, noise, np.sum(error**2), fit.latent.size
    )
    return LaplacePosterior(basis, distribution, fit, delta, sigma, model)


def _fit(curvature, x, y, variables, as_inputs):
    latent = curvature.latent(x)
    values = [as_tf_variable(variable).numpy().astype(float) for variable in variables]
    targets = None if y is None else np.asarray(y, dtype=float)
    if targets is not None and len(targets) != len(latent):
        raise ValueError(f"x and y must have as many examples. Received: {len(latent)} and {len(targets)}")
    return Fit(
        latent=latent,
        targets=targets,
        squared_norm=float(sum(np.sum(value**2) for value in values)),
        num_parameters=sum(value.size for value in values),
        num_examples=size_of(x),
        num_outputs=int(np.prod(latent.shape[1:])),
        as_inputs=as_inputs,
    )
