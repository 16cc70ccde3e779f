"""LSMR: like conjugate gradients, without ever squaring J, for large problems that are ill-conditioned."""

from typing import Any, NamedTuple

import keras
import tensorflow as tf

from tfjac.arguments import positive, positive_integer
from tfjac.graph import while_loop
from tfjac.linear.contracts import LinearModel
from tfjac.linear.solvers.base import Cost, ProductSystem, Solve, Solved, Solver, System, dot, finite_or_zeros
from tfjac.linear.solvers.conjugate_gradient import ITERATIONS, forcing_term
from tfjac.linear.solvers.problem_sizes import ProblemSizes
from tfjac.types import Tensor

DELAY = 10
"""Iterations that the energy of the step is watched over before it counts as settled."""


@keras.saving.register_keras_serializable("tfjac")
class LSMRSolver(Solver):
    """Solves min ‖[J; √(λD + Λ)] p + [r; …]‖ with products J·v and Jᵀ·u alone, by Golub-Kahan bidiagonalisation.

    The columns are scaled to length one. Rounding grows with the condition number of J, not with its square as for
    `"cg"`, and ‖Jᵀs‖, s being what is left of the residuals, falls in each iteration. It ends where ‖Jᵀs‖ has fallen
    to η of what it was, as `ConjugateGradientSolver` does with the diagonal as preconditioner. That says little of the
    step if the columns are far from orthogonal. So the last ten iterations must also have added no more than η² to
    −gᵀp, the energy of the step. Its error, measured as the quadratic model does, then is about that of `"cg"`.

    Args:
        tolerance: the largest η; see `ConjugateGradientSolver`.
        max_iterations: at most so many products with J and Jᵀ for each λ.

    Cost: one J·v and one Jᵀ·u per iteration; memory a few vectors.
    Reference: D. C.-L. Fong & M. A. Saunders, "LSMR: An iterative algorithm for sparse least-squares problems", 2011.
    """

    name = "lsmr"
    takes_products = True

    def __init__(self, tolerance: float = 0.03, max_iterations: int = 500) -> None:
        self.tolerance = positive("tolerance", tolerance, below=1)
        self.max_iterations = positive_integer("max_iterations", max_iterations)

    def cost(self, sizes: ProblemSizes) -> Cost:
        """Return the `Cost`, if each λ takes four times the iterations of `"cg"` with Kronecker factors."""
        return Cost(8.0 * sizes.itemsize * sizes.parameters, sizes.product(), 4 * ITERATIONS * 2 * sizes.product())

    def prepare(self, linearisation: LinearModel) -> System:
        """Take g and diag(JᵀJ)."""
        return _Bidiagonalised(self, linearisation)


class _Bidiagonalised(ProductSystem):
    def __init__(self, options: "LSMRSolver", linearisation: LinearModel) -> None:
        super().__init__(linearisation)
        self.options = options

    def solver(self, scaling: Tensor) -> Solve:
        def solve(damping: Tensor, residual: Tensor | None = None) -> Solved:
            mass = damping * scaling + self.prior.precision
            rows = _Rows(self.linearisation.jacobian, tf.sqrt(mass), tf.math.rsqrt(self.diagonal + mass))
            if residual is None:
                target = (-self.linearisation.residual, -self.prior.gradient / rows.root)
            else:
                target = (-residual, tf.zeros_like(mass))
            return finite_or_zeros(rows.scale * self._lsmr(rows, target))

        return solve

    def _lsmr(self, rows: "_Rows", target: tuple) -> Tensor:
        """Fong & Saunders 2011, table 2, without damping of its own, which is among the rows."""
        state = _start(rows, target)
        limit = forcing_term(self.options.tolerance, tf.square(state.zeta), _square(target))
        least, pull = limit * tf.abs(state.zeta), rows.adjoint(target)

        def unfinished(state: "_State", energies: Tensor) -> Tensor:
            grown = energies[0] - energies[-1] > tf.square(limit) * energies[0]
            return (state.count < self.options.max_iterations) & ((tf.abs(state.zeta) > least) | grown)

        def iterate(state: "_State", energies: Tensor) -> tuple:
            state = _next(rows, state)
            return state, tf.concat([[dot(pull, state.x)], energies[:-1]], axis=0)

        energies = tf.zeros([DELAY + 1], state.zeta.dtype)  # −gᵀp of the last iterates, the latest first
        return while_loop(unfinished, iterate, (state, energies))[0].x


class _Rows(NamedTuple):
    """A = [J; diag(root)] diag(scale), as products; what has its rows is a pair."""

    jacobian: Any
    root: tf.Tensor
    scale: tf.Tensor

    def product(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return self.jacobian.matvec(self.scale * x), self.root * self.scale * x

    def adjoint(self, pair: tuple) -> Tensor:
        return self.scale * (self.jacobian.adjoint(pair[0]) + self.root * pair[1])


class _State(NamedTuple):
    """What an iteration hands to the next, in the paper's names: ζ̄ (|ζ̄| = ‖Aᵀs‖), ᾱ, ρ, ρ̄, c̄, s̄, and vectors."""

    count: tf.Tensor
    x: tf.Tensor
    zeta: tf.Tensor
    alpha: tf.Tensor
    alpha_bar: tf.Tensor
    rho: tf.Tensor
    rho_bar: tf.Tensor
    cosine: tf.Tensor
    sine: tf.Tensor
    u: tuple
    v: tf.Tensor
    h: tf.Tensor
    h_bar: tf.Tensor


def _start(rows: "_Rows", target: tuple) -> "_State":
    beta = tf.sqrt(_square(target))
    u = _divided(target, beta)
    v = rows.adjoint(u)
    alpha = tf.norm(v)
    v, one, zero = tf.math.divide_no_nan(v, alpha), tf.ones_like(alpha), tf.zeros_like(v)
    return _State(tf.constant(0), zero, alpha * beta, alpha, alpha, one, one, one, 0 * one, u, v, v, zero)


def _next(rows: "_Rows", s: "_State") -> "_State":
    u = tuple(image - s.alpha * old for image, old in zip(rows.product(s.v), s.u))
    beta = tf.sqrt(_square(u))
    u = _divided(u, beta)
    v = rows.adjoint(u) - beta * s.v
    alpha = tf.norm(v)
    v = tf.math.divide_no_nan(v, alpha)
    rho = tf.sqrt(tf.square(s.alpha_bar) + tf.square(beta))
    theta, alpha_bar = beta / rho * alpha, s.alpha_bar / rho * alpha
    theta_bar, rest = s.sine * rho, s.cosine * rho
    rho_bar = tf.sqrt(tf.square(rest) + tf.square(theta))
    cosine, sine = rest / rho_bar, theta / rho_bar
    h_bar = s.h - theta_bar * rho / (s.rho * s.rho_bar) * s.h_bar
    x = s.x + cosine * s.zeta / (rho * rho_bar) * h_bar
    h = v - theta / rho * s.h
    return _State(s.count + 1, x, -sine * s.zeta, alpha, alpha_bar, rho, rho_bar, cosine, sine, u, v, h, h_bar)


def _square(pair: tuple) -> Tensor:
    return tf.add_n([tf.reduce_sum(tf.square(part)) for part in pair])


def _divided(pair: tuple, number: Tensor) -> tuple:
    return tuple(tf.math.divide_no_nan(part, number) for part in pair)
