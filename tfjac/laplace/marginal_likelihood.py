"""The marginal likelihood of a Laplace approximation, as a function of the prior's precision and of the noise.

With eigenvalues λ of JᵀHJ, of which those for σ = 1 are known, τ = 1/σ² (1 for a classifier), and weights w:

    log p(y | X) ≈ log p(y | w) − ½ δ‖w‖² − ½ Σ log(1 + τλ/δ)

At its maximum γ = Σ τλ/(τλ + δ), δ = γ/‖w‖² and σ² = ‖e‖²/(N − γ) (MacKay 1992).
"""

import numpy as np

from tfjac.arguments import as_numbers, positive


def occam_factor(eigenvalues, squared_norm, precision):
    """Return −½ δ‖w‖² − ½ Σ log(1 + λ/δ): what the prior, and the width of the posterior, cost."""
    return -0.5 * (precision * squared_norm + np.sum(np.log1p(eigenvalues / precision)))


def effective_parameters(eigenvalues, precision):
    """Return γ = Σ λ/(λ + δ)."""
    return float(np.sum(eigenvalues / (eigenvalues + precision)))


def most_probable(eigenvalues, squared_norm, precision=None, noise=None, squared_error=None, number=None):
    """Return δ and σ that maximise the marginal likelihood; those that are given stay what they are.

    Args:
        eigenvalues: λ, for σ = 1.
        squared_norm: ‖w‖².
        precision, noise: δ and σ; None for what is to be found. For a classifier, σ = 1 is given.
        squared_error, number: ‖e‖² and N, where σ is to be found.

    Raises:
        ValueError: where weights, or errors, are all zero, and the maximum is at infinity.
    """
    if (precision is None and squared_norm == 0) or (noise is None and squared_error == 0):
        what = "weights" if precision is None and squared_norm == 0 else "errors"
        raise ValueError(
            f"The marginal likelihood has no maximum where all {what} are zero: give prior_precision, and noise. "
            f"Received: {what} that are all zero"
        )
    gamma = 0.5 * min(len(eigenvalues), number or len(eigenvalues))
    for _ in range(10000):
        delta = gamma / squared_norm if precision is None else precision
        sigma = np.sqrt(squared_error / (number - gamma)) if noise is None else noise
        before, gamma = gamma, effective_parameters(eigenvalues / sigma**2, delta)
        if noise is None:
            gamma = min(gamma, number * (1 - 1e-9))
        if abs(gamma - before) <= 1e-12 * before:
            break
    return float(delta), float(sigma)


MOST_ROUNDS = 100
"""At most so many decompositions for the noise of each output."""

ROUNDING = 1e-2
"""Changes below this that no longer shrink are rounding errors, of Jacobians in single precision."""


def ratios_of(name, values, shape, each):
    """Return ratios in a shape, and the geometric mean that they are of; 1 and the value of one number or None.

    Args:
        name: of the argument, for the error.
        values: a float, an array, or None.
        shape: of the outputs, or of the list of variables.
        each: what there is one number for.

    Raises:
        ValueError: for another number of values.
    """
    if not isinstance(values, np.ndarray):
        return np.ones(()), values
    if values.size != np.prod(shape, dtype=int):
        raise ValueError(
            f"{name} must be one number, or one for each {each}, of which there are {np.prod(shape, dtype=int)}. "
            f"Received: {name} of shape {values.shape}"
        )
    mean = np.exp(np.mean(np.log(values)))
    return values.reshape(shape) / mean, float(mean)


def scale_of(name, values, ratios, shape):
    """Return the number that values are of, in given ratios; None where they are.

    Raises:
        ValueError: for values in other ratios.
    """
    if values is None or (np.ndim(values) == 0 and np.ndim(ratios) == 0):
        return values if values is None else positive(name, values)
    values, ratios = np.asarray(values, dtype=float), np.broadcast_to(ratios, shape)
    scale = values.reshape(ratios.shape) / ratios if values.size == ratios.size else np.zeros(1)
    if not (np.isfinite(scale) & (scale > 0)).all() or np.ptp(scale) > 1e-9 * np.max(scale):
        raise ValueError(
            f"{name} must be in the ratios that the curvature was weighed by: call laplace with this {name}. "
            f"Received: {name}={values}, where the ratios are {ratios}"
        )
    return float(scale.flat[0])


def numbers(name, values):
    """Return a positive float, or an array of such.

    Raises:
        ValueError: for what is not positive and finite.
    """
    if np.ndim(values) == 0:
        return positive(name, values)
    values = as_numbers(name, values).astype(float)
    if not (np.isfinite(values).all() and (values > 0).all()):
        raise ValueError(f"{name} must be positive and finite, each of its numbers. Received: {values}")
    return values


def noise_of_each(posterior_of, fit, x):
    """Return the posterior with the noises, one for each output, that maximise the marginal likelihood.

    At the maximum σ² = ‖e‖²/(n − γ) for each output, e being its errors, γ = Σ v/σ² and v the variances of this output
    at the training inputs (MacKay 1992).

    Args:
        posterior_of: function from ratios and σ, None to be found, to a posterior.
        fit: `Fit`, with labels.
        x: the training inputs.

    Raises:
        ValueError: where all errors of an output are zero, or the rounds do not settle.
    """
    shape, squared, numbers_of_targets = fit.latent.shape[1:], np.sum(fit.errors**2, axis=0), fit.numbers
    if not (squared > 0).all():
        raise ValueError(
            "The marginal likelihood has no maximum where all errors of an output are zero: give noise. "
            f"Received: {np.count_nonzero(squared == 0)} outputs without an error"
        )
    noise, change = np.sqrt(squared / numbers_of_targets), np.inf
    for _ in range(MOST_ROUNDS):
        posterior = posterior_of(ratios_of("noise", noise, shape, "output")[0], None)
        gamma = np.sum(fit.counts * posterior.predict(x).variance, axis=0) / posterior.noise**2
        noise = np.sqrt(squared / np.maximum(numbers_of_targets - gamma, 1e-9))
        last, change = change, np.max(np.abs(noise / posterior.noise - 1))
        if change < 1e-6 or last <= change < ROUNDING:
            return posterior
    raise ValueError(
        "The noise of each output was not found, as the network may pass through its targets: give noise. "
        f"Received: after {MOST_ROUNDS} rounds, noise that still changes by {change:.1%}"
    )
