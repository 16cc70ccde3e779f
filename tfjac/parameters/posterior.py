"""Draws from the posterior of a fit, by emcee where it is installed.

Priors are flat within bounds, and Gaussian where a parameter has one. Where the deviations σ of the data are meant as
they are, log p = −χ²/2. Else σ times a common factor is unknown, with a prior 1/σ. Its integral leaves
log p = −(N/2) log χ² for N residuals: for linear models that is Student's t, whose intervals a fit states.
Reference: D. Foreman-Mackey et al., "emcee: The MCMC Hammer", PASP 125, 306 (2013).
"""

from collections.abc import Mapping, Sequence

import numpy as np
import tensorflow as tf

from tfjac._warn import warn
from tfjac.arguments import positive_integer
from tfjac.parameters.draws import Draws
from tfjac.progress import shown
from tfjac.tables import aligned, without_empty_columns
from tfjac.types import Array

_LEAST_LENGTH = 20
"""So many autocorrelation times are the least that a chain should have."""


class Posterior(Draws):
    """Parameters drawn from their posterior. Printed, it is a table.

    Attributes:
        values: dict from the names of all parameters to `[draws]`, tied ones among them.
        best: dict from names to the values that the fit found.
        names: tuple of the free parameters, which were sampled.
        chain: `[steps, walkers, free]`, what was kept.
        log_probability: `[steps, walkers]`, up to a constant.
        acceptance: the share of proposals that were accepted.
        autocorrelation: dict from the free parameters to the time, in steps, after which draws are independent.
    """

    def __init__(
        self,
        values: Mapping[str, Array],
        best: Mapping[str, float],
        names: Sequence[str],
        chain: Array,
        log_probability: Array,
        acceptance: float,
        autocorrelation: Mapping[str, float],
    ) -> None:
        super().__init__(values, best)
        self.names, self.chain, self.log_probability = tuple(names), chain, log_probability
        self.acceptance, self.autocorrelation = acceptance, dict(autocorrelation)

    def medians(self) -> dict[str, float]:
        """Return the medians of the values, by name."""
        return {name: float(np.median(each)) for name, each in self.values.items()}

    def summary(self, level: float = 0.95) -> str:
        """Return a table."""
        medians, errors, ends = self.medians(), self.standard_errors(), self.confidence_intervals(level)
        rows = [["parameter", "best", "median", "deviation", f"{100 * level:.4g} % interval", "autocorrelation"]]
        for name, best in self.best.items():
            if errors[name] > 0:
                low, high = ends[name]
                time = f"{self.autocorrelation[name]:.3g}" if name in self.autocorrelation else ""
                middle = f"{medians[name]:.8g}", f"{errors[name]:.4g}", f"[{low:.6g}, {high:.6g}]"
                rows.append([name, f"{best:.8g}", *middle, time])
        steps, walkers = self.log_probability.shape
        title = f"{steps} steps of {walkers} walkers, {self.acceptance:.0%} of the proposals accepted"
        return "\n".join([title, *aligned(without_empty_columns(rows))])

    def __repr__(self):
        return self.summary()


def sampled(fit, refits, steps, walkers, burn, thin, seed):
    """Return the `Posterior` of a `NamedFit`; arguments as of `NamedFit.emcee`."""
    emcee = _emcee()
    if refits.is_robust:
        raise ValueError(
            "A robust loss is no logarithm of a probability: use bootstrap, or squares. Received: a robust loss"
        )
    if not refits.absolute and not (fit.degrees_of_freedom > 0 and fit.chi_square > 0):
        raise ValueError(
            "Residuals that are all zero, or no more than the parameters, say nothing of the deviations: give them by "
            f"sigma and absolute_sigma=True. Received: chi-square {fit.chi_square:.6g}, "
            f"{fit.degrees_of_freedom} degrees of freedom"
        )
    steps, thin = positive_integer("steps", steps), positive_integer("thin", thin)
    layout, names = refits.layout, fit.free_names()
    walkers = max(32, 4 * len(names)) if walkers is None else positive_integer("walkers", walkers)
    burn = steps // 4 if burn is None else burn
    if not 0 <= burn < steps or walkers < 2 * len(names) or (steps - burn) < thin:
        raise ValueError(
            f"emcee needs twice as many walkers as free parameters, and steps after burn. Received: {walkers} walkers, "
            f"{len(names)} free parameters, steps={steps}, burn={burn}, thin={thin}"
        )
    log_probability = _log_probability(fit, refits)
    random = np.random.RandomState(seed)
    sampler = emcee.EnsembleSampler(walkers, len(names), log_probability, vectorize=True)
    sampler.random_state = random.get_state()
    start = _starts(fit, layout, walkers, np.random.default_rng(seed), log_probability)
    with shown("emcee") as progress:
        found = sampler.sample(start, iterations=steps, skip_initial_state_check=True)
        for k, _ in enumerate(found, start=1):
            progress.at(k, steps, of="steps")
    times = np.atleast_1d(sampler.get_autocorr_time(discard=burn, tol=0, quiet=True))
    _warn_where_short(names, times, steps - burn)
    chain = sampler.get_chain(discard=burn, thin=thin)
    values = layout.of_fits(tf.constant(_with_fixed(fit, layout, chain.reshape([-1, len(names)]))))
    return Posterior(
        {name: each.numpy() for name, each in values.items()},
        fit.values,
        names,
        chain,
        sampler.get_log_prob(discard=burn, thin=thin),
        float(np.mean(sampler.acceptance_fraction)),
        dict(zip(names, times.tolist())),
    )


def _log_probability(fit, refits):
    """Return a function from free parameters `[walkers, free]` to log p `[walkers]`."""
    layout, rows = refits.layout, fit.num_residuals
    free = ~layout.fixed

    def log_probability(some):
        inside = np.all((some >= layout.lower[free]) & (some <= layout.upper[free]), axis=1)
        found = np.full(len(some), -np.inf)
        clipped = np.clip(some, layout.lower[free], layout.upper[free])
        of_data, of_priors = refits.squares(_with_fixed(fit, layout, clipped))
        with np.errstate(divide="ignore", invalid="ignore"):
            log = -of_data / 2 if refits.absolute else -rows / 2 * np.log(of_data)
            log = log - of_priors / 2
        known = inside & np.isfinite(log)
        found[known] = log[known]
        return found

    return log_probability


def _with_fixed(fit, layout, some):
    """Return the independent parameters `[draws, k]`, of free ones `[draws, free]`."""
    found = np.tile(np.asarray(fit.fit.x, np.float64), [len(some), 1])
    found[:, ~layout.fixed] = some
    return found


def _starts(fit, layout, walkers, rng, log_probability):
    """Draw starts `[walkers, free]` by the linear model about what was found, within bounds."""
    free = ~layout.fixed
    best, lower, upper = np.asarray(fit.fit.x, np.float64)[free], layout.lower[free], layout.upper[free]
    spread = 1e-3 * np.minimum(np.maximum(np.abs(best), 1e-3), upper - lower)
    try:
        matrix = np.array(fit.fit.covariance(), np.float64)[np.ix_(free, free)]
    except (ValueError, np.linalg.LinAlgError):
        matrix = np.diag(spread**2)
    held = ~(np.diag(matrix) > 0)  # by a bound
    matrix[held, held] = spread[held] ** 2
    drawn = rng.multivariate_normal(best, matrix, size=walkers, method="svd")
    drawn = np.where(drawn < lower, 2 * lower - drawn, np.where(drawn > upper, 2 * upper - drawn, drawn))
    drawn = np.clip(drawn, lower, upper)
    for _ in range(60):
        lost = ~np.isfinite(log_probability(drawn))
        if not lost.any():
            return drawn
        drawn[lost] = best + (drawn[lost] - best) / 2
    raise ValueError(
        "Around the values found the residuals must be finite. Received: "
        f"{', '.join(f'{name}={value:.6g}' for name, value in fit.values.items())}"
    )


def _warn_where_short(names, times, length):
    for name, time in zip(names, times):
        if not time * _LEAST_LENGTH <= length:
            warn(
                f"tfjac: the chain of {name!r} is short: {length} steps after burn, for an autocorrelation time of "
                f"{time:.3g}. Take more steps: {_LEAST_LENGTH} such times at least."
            )
            return


def _emcee():
    try:
        import emcee
    except ImportError:
        raise ImportError(
            "The sampler is the package emcee: pip install emcee. Received: an environment without it"
        ) from None
    return emcee
