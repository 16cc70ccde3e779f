"""What is shown of fits of named parameters: reports, tables of pandas, and pictures."""

import itertools

import numpy as np

from tfjac.fits.results.summary import MOST_CORRELATIONS, OF_ERRORS, cells_of_error, line_of_steps, lines_of_fit
from tfjac.optimizers import Status
from tfjac.tables import aligned, lines_of_correlations, without_empty_columns


def summary_of(fit, min_correlation):
    """Return the report of a `NamedFit`, several lines of text."""
    lines = [fit.message, line_of_steps(fit.fit)]
    if fit.starts is not None:
        lines.append(f"the best of {fit.starts.costs.size} starts, {fit.starts.basins().max() + 1} basins")
    return "\n".join([*lines, *_of_fit(fit), *_of_parameters(fit), *_of_correlations(fit, min_correlation)])


def _of_fit(fit):
    try:
        last = f"AIC {fit.aic:.6g}, BIC {fit.bic:.6g}"
        return [*lines_of_fit(fit.fit), last if fit._f is None else f"{last}, R² {fit.r_squared():.8g}"]
    except (ValueError, np.linalg.LinAlgError):
        return ["the residuals or their derivatives are not finite"]


def _of_parameters(fit):
    rows = [["parameter", "value", "unit", *OF_ERRORS, "start", "remark"]]
    held = dict(zip(fit._layout.independent, fit.fit.held()))
    try:
        undetermined, reach = (
            dict(zip(fit._layout.independent, fit.fit.undetermined)),
            fit.fit.statistics.quantile(0.95),
        )
    except (ValueError, np.linalg.LinAlgError):
        undetermined, reach = {}, np.nan
    for name, each in fit.params.items():
        value, error = fit.values[name], each.stderr
        cells = ["not determined" if undetermined.get(name) else "", ""]
        if error is not None and error > 0:
            cells = cells_of_error(value, error, reach * error)
        start = "" if each.init_value is None else f"{each.init_value:.6g}"
        rows.append([name, f"{value:.8g}", each.unit, *cells, start, _remark(each, held.get(name, ""))])
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


def frame_of_parameters(params):
    """Return a row for each of `Parameters`, as a fit found them."""
    columns = {
        "value": [each.value for each in params.values()],
        "stderr": [np.nan if each.stderr is None else each.stderr for each in params.values()],
        "start": [np.nan if each.init_value is None else each.init_value for each in params.values()],
        "min": [each.min for each in params.values()],
        "max": [each.max for each in params.values()],
        "vary": [each.is_free for each in params.values()],
        "expr": [each.expr for each in params.values()],
        "unit": [each.unit for each in params.values()],
    }
    index = _pandas().Index(list(params), name="parameter")
    return _pandas().DataFrame(columns, index=index)


def frame_of_fits(fits):
    """Return a row for each of `NamedFits`: values, errors beside them, and how it ended."""
    errors, columns = fits.standard_errors(), {}
    for name, values in fits.values.items():
        columns |= {name: values, f"{name}_stderr": errors[name]}
    ended = [Status(int(each)).name for each in fits.status]
    columns |= {"cost": fits.cost, "steps": fits.fit.steps, "success": fits.success, "status": ended}
    return _pandas().DataFrame(columns)


def _pandas():
    try:
        import pandas
    except ImportError:
        raise ImportError(
            "to_dataframe makes a table of pandas: pip install pandas. Without it, values and standard_errors() "
            "of a fit are dicts by name. Received: an environment without it"
        ) from None
    return pandas


def drawn_fit(fit, curve, axes, level, points, residuals, components, x):
    """Draw a `NamedFit`; arguments and what is returned as of `NamedFit.plot`, and `curve` its `CurveFitResult`."""
    has_panel = axes is None if residuals is None else bool(residuals)
    if has_panel and axes is not None:
        raise ValueError("The residuals are a panel of a new figure: leave axes out, or residuals. Received: both")
    panel = None
    if has_panel:
        import matplotlib.pyplot as plt

        sizes = {"height_ratios": [3, 1]}
        _, (axes, panel) = plt.subplots(2, 1, sharex=True, gridspec_kw=sizes, figsize=(8, 6), layout="constrained")
    axes = curve.plot(axes, level, points, x)
    if components and len(getattr(fit._f, "parts", list)()) > 1:
        grid = axes.lines[-1].get_xdata()
        for number, (title, values) in enumerate(fit.components(grid).items(), start=1):
            axes.plot(grid, values, "--", lw=1, color=f"C{number % 10}", label=title, zorder=2)
        axes.legend()
    if panel is not None:
        panel.axhline(0, color="C0", lw=1)
        panel.plot(curve.xdata, fit.residuals(), "o", color="black", markersize=3)
        panel.set(xlabel=axes.get_xlabel(), ylabel="residuals")
        axes.set_xlabel("")
    return axes
