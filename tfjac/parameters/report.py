"""The report of a fit of named parameters."""

import itertools

import numpy as np

from tfjac.tables import aligned, lines_of_correlations, without_empty_columns

MOST_CORRELATIONS = 12
"""So many correlations are listed, the strongest first."""


def summary_of(fit, min_correlation):
    """Return the report of a `NamedFit`, several lines of text."""
    lines = [fit.message, f"status {fit.status.name}, cost {fit.cost:.10g}, {fit.fit.steps} steps"]
    if fit.starts is not None:
        lines.append(f"the best of {fit.starts.costs.size} starts, {fit.starts.basins().max() + 1} basins")
    return "\n".join([*lines, *_of_fit(fit), *_of_parameters(fit), *_of_correlations(fit, min_correlation)])


def _of_fit(fit):
    try:
        names, held = fit.free_names(), dict(zip(fit._layout.independent, fit.fit.held()))
        at_bounds = sum(bool(held[name]) for name in names)
        free = f"{len(names)} free parameters" + (f", {at_bounds} of them at a bound" if at_bounds else "")
        counts = [f"{fit.num_residuals} residuals", free]
        lines = [", ".join([*counts, f"{fit.degrees_of_freedom:.6g} degrees of freedom"])]
        if fit.degrees_of_freedom > 0:
            lines.append(f"chi-square {fit.chi_square:.6g}, reduced chi-square {fit.reduced_chi_square:.6g}")
        last = f"AIC {fit.aic:.6g}, BIC {fit.bic:.6g}"
        return [*lines, last if fit._f is None else f"{last}, R² {fit.r_squared():.8g}"]
    except (ValueError, np.linalg.LinAlgError):
        return ["the residuals or their derivatives are not finite"]


def _of_parameters(fit):
    rows = [["parameter", "value", "unit", "standard error", "", "start", "remark"]]
    held = dict(zip(fit._layout.independent, fit.fit.held()))
    try:
        undetermined = dict(zip(fit._layout.independent, fit.fit.undetermined))
    except (ValueError, np.linalg.LinAlgError):
        undetermined = {}
    for name, each in fit.params.items():
        value, error = fit.values[name], each.stderr
        known = error is not None and error > 0
        shown = f"{error:.4g}" if known else "not determined" if undetermined.get(name) else ""
        relative = f"({error / abs(value):.2%})" if known and value else ""
        start = "" if each.init_value is None else f"{each.init_value:.6g}"
        rows.append([name, f"{value:.8g}", each.unit, shown, relative, start, _remark(each, held.get(name, ""))])
    return aligned(without_empty_columns(rows))


def _remark(parameter, held):
    """What to say of a parameter: its tie, or what holds it, or its prior."""
    if parameter.expr is not None:
        return f"= {parameter.expr}" if isinstance(parameter.expr, str) else "tied by a function"
    return held or ("" if parameter.prior is None else "prior {:.6g} ± {:.6g}".format(*parameter.prior))


def _of_correlations(fit, least):
    try:
        found = fit.correlations()
    except (ValueError, np.linalg.LinAlgError):
        return []
    pairs = [(found[one][other], one, other) for one, other in itertools.combinations(found, 2)]
    return lines_of_correlations(pairs, least, MOST_CORRELATIONS)
