"""Fit a curve to convergence with `tfjac.least_squares`, and compare with the certified answer.

    python examples/02_curve_fit.py [--plot FILE.png]

MGH17 of NIST's Statistical Reference Datasets: y = b1 + b2·exp(−x·b4) + b3·exp(−x·b5), two exponentials that are
hard to tell apart. The parameters are an ordinary `tf.Variable` in float64; both official starting points are tried.
"""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import argparse
import pathlib

import matplotlib.pyplot as plt
import numpy as np
import tensorflow as tf
from example_data import CertifiedFit, load_nist
from example_figures import save_figure

import tfjac

PLOT = pathlib.Path(__file__).parent / "plots" / "02_curve_fit.png"


def model(b, x):
    """The curve, of parameters `[5]`, in TensorFlow: its derivatives are exact."""
    return b[0] + b[1] * tf.exp(-x * b[3]) + b[2] * tf.exp(-x * b[4])


def fit(problem: CertifiedFit, start: np.ndarray):
    """Return the result of `least_squares` from one starting point, and the parameters found."""
    b = tf.Variable(start, dtype=tf.float64)
    x, y = tf.constant(problem.x), tf.constant(problem.y)

    result = tfjac.least_squares(lambda: model(b, x) - y, b, max_steps=2000, ftol=1e-15, xtol=1e-15, gtol=1e-15)
    return result, b.numpy()


def agreeing_digits(found: np.ndarray, certified: np.ndarray) -> np.ndarray:
    """NIST's "log relative error": how many significant digits agree (11 are certified)."""
    error = np.abs(found - certified) / np.abs(certified)
    return np.minimum(-np.log10(np.maximum(error, 1e-11)), 11.0)


def save_plot(problem: CertifiedFit, fits: list, path: pathlib.Path) -> None:
    """Draw the data and the curves of start and end, and the costs of the steps."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(9.0, 3.8), layout="constrained")
    left.plot(problem.x, problem.y, ".", color="black", label="measurements")
    for number, (start, (result, _)) in enumerate(zip(problem.starts, fits, strict=True), 1):
        left.plot(problem.x, model(start, problem.x), "--", linewidth=1, label=f"curve of start {number}")
        excess = 2 * np.asarray(result.history.cost) / problem.residual_sum_of_squares
        right.loglog(np.arange(1, len(excess) + 1), excess, label=f"from start {number}")
    left.plot(problem.x, model(fits[-1][1], problem.x), color="C3", label="both fits")
    left.set(xlabel="x", ylabel="y", ylim=(problem.y.min() - 0.3, problem.y.max() + 0.3))
    right.axhline(1.0, color="grey", linestyle=":", label="certified minimum")
    right.set(xlabel="step", ylabel="sum of squares / certified minimum")
    for axes in (left, right):
        axes.legend()
    save_figure(figure, path)


def main(arguments: list[str] | None = None) -> float:
    """Fit from both starting points; return the smallest number of agreeing digits."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--plot", type=pathlib.Path, default=PLOT, help="where to draw")
    options = parser.parse_args(arguments)
    problem = load_nist("MGH17")
    worst, fits = np.inf, []
    for number, start in enumerate(problem.starts, 1):
        result, found = fit(problem, start)
        fits.append((result, found))
        digits = agreeing_digits(found, problem.parameters)
        worst = min(worst, digits.min())
        print(f"\nstart {number}: {start}")
        print(f"  {result.message}")
        print(
            f"  residual sum of squares {2 * float(result.cost):.10e}, certified {problem.residual_sum_of_squares:.10e}"
        )
        errors, deviations = result.standard_errors(), problem.standard_deviations
        for k, value in enumerate(found):
            print(f"  b{k + 1} = {value:17.10e} ± {errors[k]:.4e}", end="   ")
            print(f"certified {problem.parameters[k]:17.10e} ± {deviations[k]:.4e}   {digits[k]:4.1f} digits agree")
    save_plot(problem, fits, options.plot)
    print(f"plot: {options.plot}")
    return float(worst)


if __name__ == "__main__":
    main()
