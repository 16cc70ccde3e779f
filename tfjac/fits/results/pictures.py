"""Pictures of fits."""

from typing import Any

import numpy as np
import tensorflow as tf

from tfjac.types import Array, ArrayLike, Axes


def plot_fit(
    result: Any, axes: Axes = None, level: float = 0.95, points: int = 200, x: ArrayLike | None = None
) -> Axes:
    """Draw data, the curve through them, the confidence band of the curve, and the prediction band of measurements.

    Where deviations of the data differ, the prediction band has those between the data on both sides.

    Args:
        result: what `curve_fit` returned for one curve y(x): xdata and ydata of one axis. Its `plot` does the same.
        axes: the `matplotlib.axes.Axes` to draw on; those of a new figure where left out.
        level: a number between 0 and 1, what fraction the bands hold.
        points: at how many places to compute the curve, even along the axis, whatever its scale; at as many more
            between the data.
        x: the places instead.

    Returns:
        The axes. Where the errors cannot be estimated the bands are left out.

    Raises:
        ImportError: where Matplotlib is not installed.
        TypeError, ValueError: for anything but a curve.
    """
    if not hasattr(result, "confidence_band"):
        raise TypeError(
            f"plot_fit draws what tfjac.curve_fit returns. Received: result={result!r} of type {type(result).__name__}"
        )
    return result.plot(axes, level, points, x=x)


def draw_curve(result: Any, axes: Axes, level: float, points: int, grid: ArrayLike | None) -> Axes:
    """Draw a `CurveFitResult`; arguments and what is returned as of `plot_fit`."""
    import matplotlib.pyplot as plt

    x, y = _curve_data(result)
    axes = plt.subplots(figsize=(8, 4.5))[1] if axes is None else axes
    deviations = np.broadcast_to(result.sigma.of_each(y.shape), y.shape)
    errors = deviations if result.absolute_sigma else None
    axes.errorbar(x, y, yerr=errors, fmt="o", markersize=4, color="black", label="data", zorder=1)
    grid = _places(axes, x, points) if grid is None else np.asarray(grid)
    axes.plot(grid, result.predict(grid), color="C0", label="fit", zorder=3)
    if result.degrees_of_freedom > 0 and result.rank == result.x.size:
        order = np.argsort(x, kind="stable")
        band = result.prediction_band(grid, level, np.interp(grid, x[order], deviations[order]))
        axes.fill_between(grid, *band, color="C0", alpha=0.12, lw=0, label=f"{level:.0%} prediction")
        axes.fill_between(
            grid, *result.confidence_band(grid, level), color="C0", alpha=0.35, lw=0, label=f"{level:.0%} confidence"
        )
    axes.set(xlabel="x", ylabel="y")
    axes.legend()
    return axes


def _places(axes: Axes, x: Array, points: int) -> Array:
    """Where to compute a curve: even along the axis, and between the data, for a scale that is chosen later."""
    scale, data = axes.xaxis.get_transform(), np.unique(x)
    ends = scale.transform(np.array(axes.xaxis.limit_range_for_scale(data[0], data[-1])))
    even = scale.inverted().transform(np.linspace(*ends, points))
    return np.union1d(even, np.interp(np.linspace(0, data.size - 1, points), np.arange(data.size), data))


def _curve_data(result: Any) -> Any:
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
