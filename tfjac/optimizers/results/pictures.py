"""Pictures of fits."""

from typing import Any

import numpy as np
import tensorflow as tf

from tfjac.optimizers.results.curve_fit_result import CurveFitResult
from tfjac.types import Axes


def plot_fit(result: CurveFitResult, axes: Axes = None, level: float = 0.95, points: int = 200) -> Axes:
    """Draw data, the curve through them, the confidence band of the curve, and the prediction band of measurements.

    Args:
        result: a `CurveFitResult` of one curve y(x): xdata and ydata of one axis.
        axes: the `matplotlib.axes.Axes` to draw on; those of a new figure where left out.
        level: a number between 0 and 1, what fraction the bands hold.
        points: at how many places to compute the curve.

    Returns:
        The axes. Where the errors cannot be estimated the bands are left out.

    Raises:
        ImportError: where Matplotlib is not installed.
        TypeError, ValueError: for anything but a curve.
    """
    import matplotlib.pyplot as plt

    x, y = _curve_data(result)
    axes = plt.subplots(figsize=(8, 4.5))[1] if axes is None else axes
    errors = np.broadcast_to(result.sigma.of_each(y.shape), y.shape) if result.absolute_sigma else None
    axes.errorbar(x, y, yerr=errors, fmt="o", markersize=4, color="black", label="data", zorder=1)
    grid = np.linspace(x.min(), x.max(), points)
    axes.plot(grid, result.predict(grid), color="C0", label="fit", zorder=3)
    if result.degrees_of_freedom > 0 and result.rank == result.x.size:
        axes.fill_between(
            grid, *result.prediction_band(grid, level), color="C0", alpha=0.12, lw=0, label=f"{level:.0%} prediction"
        )
        axes.fill_between(
            grid, *result.confidence_band(grid, level), color="C0", alpha=0.35, lw=0, label=f"{level:.0%} confidence"
        )
    axes.set(xlabel="x", ylabel="y")
    axes.legend()
    return axes


def _curve_data(result: Any) -> Any:
    if not isinstance(result, CurveFitResult):
        raise TypeError(
            f"plot_fit draws what tfjac.curve_fit returns. Received: result={result!r} of type {type(result).__name__}"
        )
    if np.iscomplexobj(result.ydata):
        raise ValueError(
            "Complex values are no curve y(x): draw result.predict(x).real and .imag by hand. Received: complex ydata"
        )
    x = tf.nest.flatten(result.xdata)
    if len(x) != 1 or np.ndim(x[0]) != 1 or np.ndim(result.ydata) != 1:
        raise ValueError(
            "Only a curve y(x) can be drawn, of xdata and ydata with one axis each. "
            f"Received: xdata of {[tuple(np.shape(item)) for item in x]}, ydata of {np.shape(result.ydata)}"
        )
    return np.asarray(x[0]), result.ydata
