"""Fit a curve to convergence with `tfjac.least_squares`, and compare with the certified answer.

    python examples/02_curve_fit.py

MGH17 of NIST's Statistical Reference Datasets: y = b1 + b2·exp(−x·b4) + b3·exp(−x·b5), two exponentials that are
hard to tell apart. The parameters are an ordinary `tf.Variable` in float64; both official starting points are tried.
"""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import numpy as np
import tensorflow as tf
from example_data import CertifiedFit, load_nist

import tfjac


def fit(problem: CertifiedFit, start: np.ndarray):
    """Return the result of `least_squares` from one starting point, and the parameters found."""
    b = tf.Variable(start, dtype=tf.float64)
    x, y = tf.constant(problem.x), tf.constant(problem.y)

    def residuals():
        return b[0] + b[1] * tf.exp(-x * b[3]) + b[2] * tf.exp(-x * b[4]) - y

    result = tfjac.least_squares(residuals, b, max_steps=2000, ftol=1e-15, xtol=1e-15, gtol=1e-15)
    return result, b.numpy()


def agreeing_digits(found: np.ndarray, certified: np.ndarray) -> np.ndarray:
    """NIST's "log relative error": how many significant digits agree (11 are certified)."""
    error = np.abs(found - certified) / np.abs(certified)
    return np.minimum(-np.log10(np.maximum(error, 1e-11)), 11.0)


def main() -> float:
    """Fit from both starting points; return the smallest number of agreeing digits."""
    problem = load_nist("MGH17")
    worst = np.inf
    for number, start in enumerate(problem.starts, 1):
        result, found = fit(problem, start)
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
    return float(worst)


if __name__ == "__main__":
    main()
