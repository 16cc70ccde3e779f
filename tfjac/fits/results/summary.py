"""The report of a minimisation for people: how it ended, and a table of its parameters."""

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tfjac.tables import aligned, lines_of_correlations
from tfjac.types import Array

MANY = 40
"""From so many parameters on, a line for each variable rather than for each parameter."""

LARGE = 2**22
"""A Jacobian of more elements is not formed for a report."""

MOST_CORRELATIONS = 10
"""So many correlations are listed, the strongest first."""

OF_ERRORS = "standard error", "95 % confidence interval"
"""Heads of the columns of `cells_of_error`."""


def summary_of(result: Any, min_correlation: float) -> str:
    """Return the report of a `LeastSquaresResult`, several lines of text; it never raises.

    Args:
        result: a `LeastSquaresResult`.
        min_correlation: weaker correlations are not listed.
    """
    head = f"{result.message}\n{line_of_steps(result)}"
    values = tf.nest.flatten(result.x)
    if sum(np.size(value) for value in values) > MANY:
        return "\n".join([head, *aligned([_of_variable(*pair) for pair in zip(result.names, values)])])
    return "\n".join([head, *lines_of_fit(result), *_of_parameters(result, min_correlation)])


def line_of_steps(result: Any) -> str:
    """Return a line of how a `LeastSquaresResult` ended."""
    return (
        f"status {result.status.name}, cost {result.cost:.10g}, largest gradient {result.gradient_norm:.3g}, "
        f"{result.steps} steps, {result.evaluations} evaluations, {result.jacobians} Jacobians, "
        f"damping {result.damping:.3g}"
    )


def _of_variable(name: str, value: Array) -> list[str]:
    shape = "×".join(map(str, value.shape))
    return [name, shape, f"from {value.min():.6g}" if value.size else "", f"to {value.max():.6g}" if value.size else ""]


def lines_of_fit(result: Any) -> list[str]:
    """Return lines of the statistics of a `LeastSquaresResult`; none where J is too large to be formed."""
    if not _may_be_formed(result):
        return []
    statistics = result.statistics
    left, used = statistics.degrees_of_freedom, statistics.effective_parameters
    counts = [f"{statistics.rows} residuals", *_of_free(result.held()), f"rank {statistics.rank}"]
    if isinstance(used, float):  # with a prior
        counts.append(f"{used:.6g} effective parameters")
        left = f"{left:.6f}".rstrip("0").rstrip(".")
    lines = [", ".join([*counts, f"{left} degrees of freedom"])]
    if statistics.degrees_of_freedom > 0:
        lines.append(f"chi-square {statistics.chi_square:.6g}, reduced chi-square {result.reduced_chi_square:.6g}")
    return lines


def _of_free(held: Sequence[str]) -> list[str]:
    """What to say of parameters that are not fixed: how many there are, and how many of them a bound holds."""
    free = [each for each in held if each != "fixed"]
    at_bounds = sum(map(bool, free))
    return [f"{len(free)} free parameters", *([f"{at_bounds} of them at a bound"] if at_bounds else [])]


def _of_parameters(result: Any, min_correlation: float) -> list[str]:
    """A line for each parameter: its value, its error, and its interval; then the correlations."""
    values = tf.nest.flatten(result.x)
    names, flat = result.parameter_names(), np.concatenate([np.ravel(value) for value in values])
    try:
        covariance = result.statistics.covariance() if _may_be_formed(result) else None
    except (ValueError, np.linalg.LinAlgError):
        covariance = None  # no degrees of freedom are left, or J is not finite: there are no errors to tell
    if covariance is None:
        return aligned([[name, f"{value:.8g}"] for name, value in zip(names, flat)])
    errors, determined = np.sqrt(np.diag(covariance)), result.statistics.determined
    reach = result.statistics.quantile(0.95) * errors
    rows = [["parameter", "value", *OF_ERRORS]]
    for name, value, error, width, known, held in zip(names, flat, errors, reach, determined, result.held()):
        if held:
            rows.append([name, f"{value:.8g}", held])
            continue
        rows.append([name, f"{value:.8g}", *(cells_of_error(value, error, width) if known else ("not determined",))])
    return [*aligned(rows), *_of_correlations(names, covariance, determined & (errors > 0), min_correlation)]


def cells_of_error(value: float, error: float, width: float) -> tuple[str, str]:
    """Return what a table of parameters says of an error, and of an interval that reaches so far to both sides."""
    relative = f" ({error / abs(value):.2%})" if value else ""
    return f"{error:.4g}{relative}", f"[{value - width:.6g}, {value + width:.6g}]"


def _of_correlations(names: Sequence[str], covariance: Array, meant: Array, least: float) -> list[str]:
    """The strongest correlations between the parameters that are `meant`."""
    errors = np.sqrt(np.diag(covariance))
    pairs = [
        (covariance[i, j] / errors[i] / errors[j], names[i], names[j])
        for i, j in itertools.combinations(np.flatnonzero(meant), 2)
    ]
    return lines_of_correlations(pairs, least, MOST_CORRELATIONS)


def _may_be_formed(result: Any) -> bool:
    """Whether J is small enough to be formed for a report, and the values are finite."""
    if not all(np.all(np.isfinite(value)) for value in tf.nest.flatten(result.x)) or not np.isfinite(result.cost):
        return False
    return result.num_residuals * sum(np.size(value) for value in tf.nest.flatten(result.x)) <= LARGE


def parameter_names(names: Sequence[str], shapes: Sequence) -> list[str]:
    """Return a list of what to call each parameter: the name of its variable, with indices where it has a shape.

    Args:
        names, shapes: of the variables.
    """
    named = []
    for name, shape in zip(names, shapes):
        named += [f"{name}[{', '.join(map(str, index))}]" if index else name for index in np.ndindex(*shape)]
    return named


def active_sides(values: Array, box: Any) -> Array:
    """Return −1 for values at their lower bound, 1 at their upper one or fixed, 0 between; integers.

    Args:
        values: array `[..., p]`.
        box: a `Box` of the same shape, or an empty tuple.
    """
    if not box:
        return np.zeros(values.shape, int)
    above = values >= box.upper
    return above.astype(int) - (~above & (values <= box.lower))
