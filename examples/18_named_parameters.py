"""Fit peaks with named parameters: ties, intervals without the linear model, and many starts at once.

    python examples/18_named_parameters.py [--fits N] [--plot FILE.png]

NIST's Gauss2 are two blended peaks on a decay. A model is added up of three parts, guesses where to start, and reaches
the certified values; heights and widths follow from the parameters by ties, with their errors.
Two decays that look alike have lopsided intervals: profiles show it, and so do fits of data that are drawn again.
A wave has a basin for each frequency, and one start finds the wrong one: forty at once show them all.
"""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import argparse
import pathlib

import matplotlib.pyplot as plt
import numpy as np
import tensorflow as tf
from example_data import load_nist
from example_figures import save_figure

import tfjac
from tfjac import models

PLOT = pathlib.Path(__file__).parent / "plots" / "18_named_parameters.png"


def two_peaks(axes: plt.Axes) -> float:
    """Fit Gauss2; return the largest relative distance of a height or a centre to the certified one."""
    problem = load_nist("Gauss2")
    model = models.exponential(prefix="decay_") + models.gaussian(prefix="left_") + models.gaussian(prefix="right_")
    params = model.guess(problem.x, problem.y)
    params.add("ratio", expr="left_height/right_height")
    fit = model.fit(problem.x, problem.y, params, ftol=1e-12, xtol=1e-12)
    print(fit)
    _, _, left, left_center, _, right, right_center, _ = problem.parameters
    certified = {"left_height": left, "left_center": left_center, "right_height": right, "right_center": right_center}
    fit.plot(axes)
    for title, part in fit.components().items():
        axes.plot(problem.x, part, lw=1, ls="--", label=title.strip("_"))
    axes.set(title="Gauss2: two peaks on a decay")
    axes.legend(fontsize=8)
    return max(abs(fit.values[name] / value - 1) for name, value in certified.items())


def two_decays(axes: plt.Axes, fits: int) -> np.ndarray:
    """Fit two decays; return the ends of the interval of the slow one: linear, by profile, by bootstrap `[3, 2]`."""
    x = np.linspace(1, 10, 250)
    y = 3 * np.exp(-x / 2) - 5 * np.exp(-(x - 0.1) / 10) + np.random.default_rng(0).normal(scale=0.1, size=x.size)

    def decays(x, a1, t1, a2, t2):
        return a1 * tf.exp(-x / t1) + a2 * tf.exp(-(x - 0.1) / t2)

    fit = tfjac.curve_fit(decays, x, y, p0=tfjac.Parameters(a1=4.0, t1=3.0, a2=-5.0, t2=9.0))
    profiles, drawn = fit.conf_interval(sigmas=[1, 2]), fit.bootstrap(fits)
    print(f"\nprofiles, differences to the best value\n{profiles}\n\n{drawn}")
    level = profiles.levels[1]
    ends = [fit.confidence_intervals(level)["t2"], profiles["t2"][1], drawn.confidence_intervals(level)["t2"]]
    axes.plot(drawn.values["t1"], drawn.values["t2"], ".", ms=3, alpha=0.5, label=f"{fits} fits of data drawn again")
    axes.plot(fit.values["t1"], fit.values["t2"], "k*", ms=10, label="best")
    for (low, high), style, title in zip(ends[:2], (":", "-"), ("linear model", "profile")):
        axes.axhline(low, color="C3", ls=style, lw=1, label=f"{level:.0%}, {title}")
        axes.axhline(high, color="C3", ls=style, lw=1)
    axes.set(xlabel="t1", ylabel="t2", title="two decays: lopsided intervals")
    axes.legend(fontsize=8)
    return np.array(ends)


def wave(axes: list[plt.Axes]) -> tuple[float, float]:
    """Fit a wave from one start and from forty; return both costs."""
    x = np.linspace(0, 4, 60)
    y = 1.5 * np.sin(3.1 * x + 0.4) + np.random.default_rng(0).normal(scale=0.1, size=x.size)
    params = models.sine().parameters(
        amplitude={"value": 1.0, "max": 5.0},
        frequency={"value": 1.0, "min": 0.2, "max": 9.0},
        shift={"value": 0.0, "min": -3.2, "max": 3.2},
    )
    one = models.sine().fit(x, y, params)
    best = models.sine().fit(x, y, params, n_starts=40)
    print(f"\na wave: cost {one.cost:.4g} from one start, {best.cost:.4g} from forty\n{best.starts}")
    best.starts.plot(("frequency", "shift"), axes)
    axes[0].set(title="a wave: where forty starts end")
    axes[1].set(title="from each start to its end")
    return one.cost, best.cost


def main(arguments: list[str] | None = None) -> dict[str, object]:
    """Fit, print, draw; return what each part returns."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--fits", type=int, default=500, help="fits of data drawn again")
    parser.add_argument("--plot", type=pathlib.Path, default=PLOT, help="where to draw")
    options = parser.parse_args(arguments)
    figure, panels = plt.subplots(2, 2, figsize=(12, 9), layout="constrained")
    found = {
        "peaks": two_peaks(panels[0, 0]),
        "ends": two_decays(panels[0, 1], options.fits),
        "costs": wave(list(panels[1])),
    }
    save_figure(figure, options.plot)
    print(f"plot: {options.plot}")
    return found


if __name__ == "__main__":
    main()
