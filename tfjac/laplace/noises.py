"""One noise for each output: σ·r, r being ratios that the curvature is weighed by."""

import numpy as np

MOST_ROUNDS = 100
"""At most so many decompositions for the noise of each output."""


def ratios_of(noise, shape):
    """Return the ratios r of the noises, in the shape of the outputs, and σ, their geometric mean.

    Raises:
        ValueError: for noises that are not one for each output.
    """
    if noise.size != np.prod(shape, dtype=int):
        raise ValueError(
            f"noise must be one number, or one for each output, of which there are {np.prod(shape, dtype=int)}. "
            f"Received: noise of shape {noise.shape}"
        )
    sigma = np.exp(np.mean(np.log(noise)))
    return noise.reshape(shape) / sigma, float(sigma)


def noise_of_each(posterior_of, fit, x):
    """Return the posterior with the noises, one for each output, that maximise the marginal likelihood.

    At the maximum σ² = ‖e‖²/(n − γ) for each output, e being its errors, γ = Σ v/σ² and v the variances of this output
    at the training inputs (MacKay 1992).

    Args:
        posterior_of: function from a `Fit` and σ, None to be found, to a posterior.
        fit: `Fit`, with targets.
        x: the training inputs.

    Raises:
        ValueError: where all errors of an output are zero.
    """
    shape, squared = fit.latent.shape[1:], np.sum(fit.errors**2, axis=0)
    if not (squared > 0).all():
        raise ValueError(
            "The marginal likelihood has no maximum where all errors of an output are zero: give noise. "
            f"Received: {np.count_nonzero(squared == 0)} outputs without an error"
        )
    noise = np.sqrt(squared / len(fit.latent))
    for _ in range(MOST_ROUNDS):
        posterior = posterior_of(fit._replace(ratios=ratios_of(noise, shape)[0]), None)
        gamma = np.sum(posterior.predict(x).variance, axis=0) / posterior.noise**2
        before, noise = posterior.noise, np.sqrt(squared / np.maximum(len(fit.latent) - gamma, 1e-9))
        if np.max(np.abs(noise / before - 1)) < 1e-6:
            break
    return posterior
