"""Solve a stiff partial differential equation implicitly, with sparse Jacobians of a residual written in TensorFlow.

    python examples/05_stiff_pde.py [--plot FILE.png]

Burgers' equation in the plane, u_t + u·u_x + u·u_y = ν·(u_xx + u_yy), by central differences in space and
Crank–Nicolson in time. Each step solves a nonlinear system for all grid points at once by Newton's method. Its
Jacobian has one row and column per grid point; five products give all of it, whatever the size of the grid.
The equation has a solution in closed form, u = 1 / (1 + exp((x + y − t) / 2ν)), to compare with.
"""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import argparse
import pathlib

import matplotlib.pyplot as plt
import numpy as np
import scipy.sparse.linalg
import tensorflow as tf
from example_figures import save_figure

import tfjac

VISCOSITY = 0.05
END = 0.5
PLOT = pathlib.Path(__file__).parent / "plots" / "05_stiff_pde.png"


class Burgers:
    """The equation on a grid of `size` by `size` inner points of the unit square.

    Args:
        size: points along one side, without the boundary.
        steps: steps from time 0 to `END`.
    """

    def __init__(self, size: int, steps: int):
        self.h, self.dt, self.steps = 1.0 / (size + 1), END / steps, steps
        side = np.linspace(0.0, 1.0, size + 2)
        self.x, self.y = np.meshgrid(side, side, indexing="ij")
        shape = tf.TensorSpec([size, size], tf.float64)
        with_boundary = tf.TensorSpec([size + 2, size + 2], tf.float64)
        self.linearise = tf.function(self._linearise, input_signature=[shape, with_boundary, with_boundary])
        self.pattern = None

    def exact(self, t: float) -> np.ndarray:
        """The solution at time t, boundary included."""
        return 1.0 / (1.0 + np.exp((self.x + self.y - t) / (2.0 * VISCOSITY)))

    def rate(self, u: tf.Tensor) -> tf.Tensor:
        """u_t at the inner points, from u with its boundary."""
        centre, west, east, south, north = u[1:-1, 1:-1], u[:-2, 1:-1], u[2:, 1:-1], u[1:-1, :-2], u[1:-1, 2:]
        advection = centre * (east - west + north - south) / (2.0 * self.h)
        return VISCOSITY * (west + east + south + north - 4.0 * centre) / self.h**2 - advection

    def _linearise(self, inner, boundary, before):
        """The residual of one step at `inner`, and the values of its Jacobian."""
        after = tf.pad(inner, [[1, 1], [1, 1]]) + boundary
        residual = inner - before[1:-1, 1:-1] - 0.5 * self.dt * (self.rate(before) + self.rate(after))
        self.pattern = tfjac.sparsity(residual, inner)  # once, while tracing
        return residual, tfjac.sparse_jacobian(residual, inner, self.pattern).values

    def step(self, u: np.ndarray, t: float) -> tuple[np.ndarray, list[float]]:
        """Advance u from time t by Newton's method; return it, and the largest residual before each iteration."""
        boundary = self.exact(t + self.dt)
        boundary[1:-1, 1:-1] = 0.0
        inner, residuals = u[1:-1, 1:-1].copy(), []
        for _ in range(10):
            residual, values = self.linearise(inner, boundary, u)
            residuals.append(float(np.abs(residual).max()))
            if residuals[-1] < 1e-12:
                break
            jacobian = self.pattern.csr(values).tocsc()
            inner -= scipy.sparse.linalg.spsolve(jacobian, np.ravel(residual)).reshape(inner.shape)
        return np.pad(inner, 1) + boundary, residuals

    def solve(self) -> tuple[np.ndarray, list[float]]:
        """Return u at the end, and Newton's residuals in the last step."""
        u = self.exact(0.0)
        for k in range(self.steps):
            u, residuals = self.step(u, k * self.dt)
        return u, residuals


def save_plot(burgers: Burgers, u: np.ndarray, path: pathlib.Path) -> None:
    """Draw u at the end, its error, and where a part of the Jacobian differs from zero."""
    figure, (left, middle, right) = plt.subplots(1, 3, figsize=(11.0, 3.4), layout="constrained")
    extent = {"origin": "lower", "extent": (0.0, 1.0, 0.0, 1.0)}
    figure.colorbar(left.imshow(u.T, **extent), ax=left, shrink=0.8)
    left.set(title=f"u at t = {END}", xlabel="x", ylabel="y")
    error = u - burgers.exact(END)
    largest = np.abs(error).max()
    drawn = middle.imshow(error.T, cmap="RdBu", vmin=-largest, vmax=largest, **extent)
    figure.colorbar(drawn, ax=middle, shrink=0.8)
    middle.set(title="its error", xlabel="x", ylabel="y")
    rows = burgers.pattern.csr(np.ones(burgers.pattern.indices.size))[:200, :200]
    right.spy(rows, markersize=1)
    right.set(title="Jacobian, first 200 rows", xlabel="column", ylabel="row")
    right.xaxis.tick_bottom()
    save_figure(figure, path)


def main(arguments: list[str] | None = None) -> dict:
    """Solve on two grids; return the error on the finer, the order of convergence, and how many products it took."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--plot", type=pathlib.Path, default=PLOT, help="where to draw")
    options = parser.parse_args(arguments)
    errors = []
    for size, steps in ((23, 20), (47, 40)):
        burgers = Burgers(size, steps)
        u, residuals = burgers.solve()
        error = float(np.abs(u - burgers.exact(END)).max())
        errors.append(error)
        limit = burgers.h**2 / (4.0 * VISCOSITY)
        print(f"\n{size}×{size} points, {steps} steps of {burgers.dt:.4f} (an explicit method needs below {limit:.4f})")
        print(f"  Jacobian: {burgers.pattern}")
        print("  Newton's residuals in the last step: " + ", ".join(f"{residual:.1e}" for residual in residuals))
        print(f"  largest error: {error:.2e}")
    order = float(np.log2(errors[0] / errors[1]))
    print(f"\nhalving both steps divides the error by {errors[0] / errors[1]:.2f}: order {order:.2f}")
    save_plot(burgers, u, options.plot)
    print(f"plot: {options.plot}")
    return {"error": errors[1], "order": order, "products": burgers.pattern.num_colours}


if __name__ == "__main__":
    main()
