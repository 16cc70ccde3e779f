"""Fits of named parameters beside lmfit: NIST's Gauss2, two peaks on a decay, once and for data drawn again."""

import numpy as np

from benchmarks import lmfit_peer
from benchmarks.least_squares import installed
from benchmarks.questions import Case, question
from tfjac import models

NAMES = ("exp_amplitude", "exp_decay", "g1_amplitude", "g1_center", "g1_sigma", "g2_amplitude", "g2_center", "g2_sigma")


def two_peaks():
    """Return the model and the parameters of `lmfit_peer.two_peaks`, here."""
    model = models.exponential(prefix="exp_") + models.gaussian(prefix="g1_") + models.gaussian(prefix="g2_")
    params = model.parameters(exp_amplitude=100, exp_decay=100)
    for peak, center, low, high in (("g1", 105, 75, 125), ("g2", 155, 125, 175)):
        params[f"{peak}_center"].set(value=center, min=low, max=high)
        params[f"{peak}_sigma"].set(value=15, min=0)
        params[f"{peak}_amplitude"].set(value=2000, min=0)
    return model, params


@question("named-parameters")
def named_parameters(quick: bool):
    """Two peaks on a decay with bounds and derived quantities, 8 parameters, 250 points: against lmfit, once traced."""
    x, y = lmfit_peer.gauss2()
    model, params = two_peaks()
    fit = model.fit(x, y, params)

    def errors():
        found = model.fit(x, y, params)
        return [found.values[name] for name in NAMES], [found.standard_errors()[name] for name in NAMES]

    candidates = {"tfjac": errors}
    if installed("lmfit"):
        candidates["lmfit"] = lmfit_peer.fit_of_two_peaks(NAMES)
    yield Case("one fit, with errors", candidates)
    for count in (5,) if quick else (200, 1_000):
        candidates = {"tfjac, bootstrap": drawn_again(fit, count)}
        if installed("lmfit"):
            curves = curves_drawn_again(fit, count)
            candidates["lmfit, a loop"] = lmfit_peer.loop_over(NAMES, curves, fit.values)
        yield Case(f"{count:,} fits of data drawn again", candidates)


def drawn_again(fit, count):
    """All fits in one call; the parameters found `[count, 8]`."""

    def bootstrap():
        found = fit.bootstrap(count, seed=0).values
        return np.stack([found[name] for name in NAMES], axis=1)

    return bootstrap


def curves_drawn_again(fit, count):
    """The data that `fit.bootstrap` draws, `[count, points]`."""
    residuals = fit.residuals()
    centred = (residuals - residuals.mean()) * np.sqrt(residuals.size / fit.degrees_of_freedom)
    drawn = np.random.default_rng(0).integers(residuals.size, size=[count, residuals.size])
    return fit.predict() - centred[drawn]
