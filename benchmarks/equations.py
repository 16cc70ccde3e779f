"""Differential equations for networks to solve: what must be zero, and the solution that an error is measured by.

The solutions are exact, or come from methods without networks: Burgers' from the integral of Cole and Hopf,
Allen-Cahn's from a spectral method. In the equations in time, coordinate 0 is x and coordinate 1 is t.
"""

import dataclasses
from collections.abc import Callable

import numpy as np
import tensorflow as tf

VISCOSITY = 0.01 / np.pi


@dataclasses.dataclass(frozen=True)
class Equation:
    """An equation on a box.

    Attributes:
        low, high: the corners of the box, one number for each coordinate.
        residuals: function that returns a list of tensors `[n]`, zero where u solves the equation. It is given `at`,
            and the unknown coefficients `[k]` where there are any. `at(points)` returns u `[n]`, and a function
            `d(y, k)` for the derivative of a `[n]` with respect to coordinate k.
        solution: function of NumPy points `[n, coordinates]` to u `[n]`.
        coefficients: the coefficients to be found, if any: a start and the true value of each, `[2, k]`.
    """

    low: tuple[float, ...]
    high: tuple[float, ...]
    residuals: Callable
    solution: Callable
    coefficients: np.ndarray | None = None

    def points(self, number: int, seed: int = 0) -> np.ndarray:
        """Return random points in the box, `[number, coordinates]`."""
        return random_points(self.low, self.high, number, seed)


def random_points(low, high, number, seed=0):
    """Return `[number, coordinates]`."""
    return np.random.default_rng(seed).uniform(low, high, (number, len(low)))


def poisson(dimensions: int) -> Equation:
    """-Δu = f on the unit cube: sin(πx) sin(πy) in two dimensions, Σ cos(πx) in more."""
    if dimensions == 2:
        inside, border = _grid(0, 1, 30), _sides(0, 1, 30)
        solution, factor = lambda x: np.prod(np.sin(np.pi * x), axis=1), 2 * np.pi**2
    else:
        random = np.random.default_rng(0)
        inside, border = random.uniform(size=(3000, dimensions)), random.uniform(size=(500, dimensions))
        border[np.arange(500), random.integers(dimensions, size=500)] = random.integers(2, size=500)
        solution, factor = lambda x: np.sum(np.cos(np.pi * x), axis=1), np.pi**2

    def residuals(at):
        u, d = at(inside)
        yield tf.add_n([d(d(u, k), k) for k in range(dimensions)]) + factor * solution(inside)
        yield at(border)[0] - solution(border)

    return Equation((0,) * dimensions, (1,) * dimensions, residuals, solution)


def helmholtz() -> Equation:
    """Δu + u = f on [-1, 1]², with u = sin(πx) sin(4πy)."""
    inside, border = _grid(-1, 1, 40), _sides(-1, 1, 40)

    def solution(x):
        return np.sin(np.pi * x[:, 0]) * np.sin(4 * np.pi * x[:, 1])

    def residuals(at):
        u, d = at(inside)
        yield d(d(u, 0), 0) + d(d(u, 1), 1) + u - (1 - 17 * np.pi**2) * solution(inside)
        yield at(border)[0]

    return Equation((-1, -1), (1, 1), residuals, solution)


def heat() -> Equation:
    """∂u/∂t = ¼ ∂²u/∂x² on [0, 1], with u = exp(-π²t/4) sin(πx)."""
    inside, (start, sides) = _grid(0, 1, 30), _edges(0, 1, 30)

    def solution(x):
        return np.exp(-(np.pi**2) / 4 * x[:, 1]) * np.sin(np.pi * x[:, 0])

    def residuals(at):
        u, d = at(inside)
        yield d(u, 1) - d(d(u, 0), 0) / 4
        yield at(start)[0] - solution(start)
        yield at(sides)[0]

    return Equation((0, 0), (1, 1), residuals, solution)


def burgers() -> Equation:
    """∂u/∂t + u ∂u/∂x = ν ∂²u/∂x² on [-1, 1], from -sin(πx): a shock at x = 0 (Raissi et al. 2019)."""
    inside, (start, sides) = random_points((-1, 0), (1, 1), 3000), _edges(-1, 1, 50)
    inside[:, 0] **= 3  # most of the points are where the shock is

    def residuals(at):
        u, d = at(inside)
        yield d(u, 1) + u * d(u, 0) - VISCOSITY * d(d(u, 0), 0)
        yield at(start)[0] + np.sin(np.pi * start[:, 0])
        yield at(sides)[0]

    return Equation((-1, 0), (1, 1), residuals, burgers_solution)


def burgers_inverse() -> Equation:
    """The same with both coefficients unknown, 1 and ν, and 2,000 values of u with noise of one per cent."""
    inside, noise = random_points((-1, 0), (1, 1), 2000), np.random.default_rng(1).standard_normal(2000)
    measured = burgers_solution(inside) * (1 + 0.01 * noise)

    def residuals(at, coefficients):
        u, d = at(inside)
        yield d(u, 1) + coefficients[0] * u * d(u, 0) - coefficients[1] * d(d(u, 0), 0)
        yield u - measured

    found = np.array([[0, np.exp(-6)], [1, VISCOSITY]])
    return Equation((-1, 0), (1, 1), residuals, burgers_solution, found)


def burgers_solution(x: np.ndarray) -> np.ndarray:
    """Return u `[n]` at points `[n, 2]`, by Cole and Hopf's transformation and Gauss-Hermite quadrature."""
    roots, weights = np.polynomial.hermite.hermgauss(200)
    y = x[:, :1] - np.sqrt(4 * VISCOSITY * x[:, 1:]) * roots
    heat_kernel = weights * np.exp(-np.cos(np.pi * y) / (2 * np.pi * VISCOSITY))
    return -np.sum(heat_kernel * np.sin(np.pi * y), axis=1) / np.sum(heat_kernel, axis=1)


def allen_cahn() -> Equation:
    """∂u/∂t = 10⁻⁴ ∂²u/∂x² + 5u - 5u³ on [-1, 1], periodic, from x² cos(πx) (Raissi et al. 2019)."""
    inside, (start, sides) = random_points((-1, 0), (1, 1), 3000), _edges(-1, 1, 100)
    left, right = np.split(sides, 2)

    def residuals(at):
        u, d = at(inside)
        yield d(u, 1) - 1e-4 * d(d(u, 0), 0) - 5 * u + 5 * u**3
        yield 10 * (at(start)[0] - start[:, 0] ** 2 * np.cos(np.pi * start[:, 0]))
        (u, d), (other, other_d) = at(left), at(right)
        yield u - other
        yield d(u, 0) - other_d(other, 0)

    return Equation((-1, 0), (1, 1), residuals, allen_cahn_solution)


def allen_cahn_solution(x: np.ndarray, points: int = 2048, steps: int = 2000) -> np.ndarray:
    """Return u `[n]` at points `[n, 2]`: by Strang's splitting with a Fourier transform."""
    from scipy.interpolate import RectBivariateSpline

    places, times = np.linspace(-1, 1, points, endpoint=False), np.linspace(0, 1, steps + 1)
    diffused = np.exp(-1e-4 * (np.pi * np.arange(points // 2 + 1)) ** 2 / steps)
    fields = [places**2 * np.cos(np.pi * places)]
    for _ in range(steps):
        u = _reacted(fields[-1], 0.5 / steps)
        fields.append(_reacted(np.fft.irfft(diffused * np.fft.rfft(u)), 0.5 / steps))
    kept = np.stack(fields[::10])
    periodic = np.concatenate([kept, kept[:, :1]], axis=1)
    return RectBivariateSpline(times[::10], np.append(places, 1), periodic).ev(x[:, 1], x[:, 0])


def _reacted(u, seconds):
    """Solve du/dt = 5u - 5u³."""
    return u * np.exp(5 * seconds) / np.sqrt(1 + u**2 * np.expm1(10 * seconds))


def _grid(low, high, number):
    """Points of a square, in the middle of the cells of a grid, `[number², 2]`."""
    middles = low + (high - low) * (np.arange(number) + 0.5) / number
    return np.stack(np.meshgrid(middles, middles), -1).reshape(-1, 2)


def _sides(low, high, number):
    """Points on the four sides of a square, `[4·number, 2]`."""
    along = low + (high - low) * (np.arange(number) + 0.5) / number
    ends = [np.full(number, end) for end in (low, high)]
    return np.concatenate([np.stack(side, 1) for end in ends for side in ((end, along), (along, end))])


def _edges(left, right, number):
    """Points where t = 0, `[number, 2]`, and those at both ends of x for t to 1, left ones first, `[2·number, 2]`."""
    x, t = np.linspace(left, right, number), np.linspace(0, 1, number)
    sides = [np.stack([np.full(number, end), t], 1) for end in (left, right)]
    return np.stack([x, np.zeros(number)], 1), np.concatenate(sides)
