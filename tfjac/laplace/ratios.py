"""One noise for each output, or one prior for each variable: one number times ratios that J is weighed by."""

import numpy as np

from tfjac.arguments import as_numbers, positive

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
