"""The marginal likelihood of a Laplace approximation, as a function of the prior's precision and of the noise.

With eigenvalues λ of JᵀHJ, of which those for σ = 1 are known, τ = 1/σ² (1 for a classifier), and weights w:

    log p(y | X) ≈ log p(y | w) − ½ δ‖w‖² − ½ Σ log(1 + τλ/δ)

At its maximum γ = Σ τλ/(τλ + δ), δ = γ/‖w‖² and σ² = ‖e‖²/(N − γ) (MacKay 1992).
"""

import numpy as np


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
