"""Many small independent fits in one call: peaks of five parameters and 25 points, as in spectra and images."""

import numpy as np
import tensorflow as tf

import tfjac
from benchmarks import peak_fits
from benchmarks.floors import Floor
from benchmarks.least_squares import installed
from benchmarks.questions import Case, question


@question("many-fits")
def many_fits(quick: bool):
    """Many Gaussian peaks, five parameters and 25 points each, against SciPy one by one and JAX under vmap."""
    workers = peak_fits.Workers()
    for count in (50,) if quick else (1_000, 10_000, 100_000):
        measured = peak_fits.peaks(count)
        candidates = {
            "tfjac": tfjac_fits(measured),
            "tfjac, LeastSquaresProblem": tfjac_problem(measured),
            "tfjac, XLA": tfjac_fits(measured, jit_compile=True),
        }
        if installed("optimistix"):
            candidates["optimistix (JAX), vmap"] = optimistix_fits(measured)
        if count <= 1_000:
            candidates |= {
                "SciPy, MINPACK": lambda measured=measured: peak_fits.minpack(measured),
                "SciPy, MINPACK, differences": lambda measured=measured: peak_fits.minpack(measured, exact=False),
                "SciPy, least_squares": lambda measured=measured: peak_fits.trust_region(measured),
            }
        if 1_000 <= count <= 10_000:
            candidates["SciPy, MINPACK, all cores"] = lambda measured=measured: workers(measured)
        yield Case(f"{count:,} fits", candidates, floor(measured), tolerance=1e-2)


def floor(measured: np.ndarray) -> Floor:
    """Six evaluations of the residuals and their Jacobian for each fit, at ten operations a number."""
    return Floor(flops=6 * 10 * 6 * measured.size)


def peak(p, measured):
    """Residuals `[n, 25]` of peaks of the parameters `[n, 5]`."""
    positions = tf.constant(peak_fits.POSITIONS, tf.float32)
    height, centre, width, offset, slope = (p[:, k : k + 1] for k in range(5))
    return height * tf.exp(-tf.square((positions - centre) / width) / 2) + offset + slope * positions - measured


def starts(measured):
    """The start of all fits `[n, 5]`."""
    return tf.constant(np.tile(peak_fits.START, [len(measured), 1]), tf.float32)


def tfjac_problem(measured):
    """All fits by a `LeastSquaresProblem`, which calls the residuals once and for all; their costs."""
    start, data = starts(measured), tf.constant(measured)
    x = tf.Variable(start)
    problem = tfjac.LeastSquaresProblem(peak, x, batch_dims=1)

    def fit():
        x.assign(start)
        return problem.solve(data).cost

    return fit


def tfjac_fits(measured, **options):
    """All fits by `least_squares`; their costs."""
    start, data = starts(measured), tf.constant(measured)
    x = tf.Variable(start)

    def fit():
        x.assign(start)
        return tfjac.least_squares(peak, x, args=(data,), batch_dims=1, **options).cost

    return fit


def optimistix_fits(measured):
    """All fits by optimistix' Levenberg-Marquardt under `jax.vmap` and `jax.jit`; their costs."""
    import jax
    import jax.numpy as jnp
    import lineax
    import optimistix

    positions = jnp.asarray(peak_fits.POSITIONS, jnp.float32)
    start, data = jnp.asarray(peak_fits.START, jnp.float32), jnp.asarray(measured)
    solver = optimistix.LevenbergMarquardt(rtol=3e-4, atol=3e-4, linear_solver=lineax.Normal(lineax.Cholesky()))

    def residuals(p, measured):
        bell = jnp.exp(-jnp.square((positions - p[1]) / p[2]) / 2)
        return p[0] * bell + p[3] + p[4] * positions - measured

    def one(measured):
        found = optimistix.least_squares(residuals, solver, start, args=measured, max_steps=256, throw=False).value
        return jnp.sum(jnp.square(residuals(found, measured))) / 2

    fits = jax.jit(jax.vmap(one))
    return lambda: fits(data)
