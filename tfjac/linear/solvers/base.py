"""What a linear solver is: something that makes a system of one linearisation, and solves it for any damping."""

import abc
import math
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import tensorflow as tf

from tfjac.arguments import Configured
from tfjac.linear import arrays
from tfjac.linear.contracts import LinearModel
from tfjac.linear.solvers.problem_sizes import ProblemSizes
from tfjac.memory_budget import exceeded
from tfjac.types import Tensor

Solved: TypeAlias = tuple[Tensor, Tensor]
"""p `[p]`, and whether it could be solved for, a scalar bool."""

Solve: TypeAlias = Callable[..., Solved]
"""`solve(λ, residual=None)`, from λ, a scalar, to what is `Solved`."""


class System(abc.ABC):
    """The linear system (JᵀJ + λD + Λ) p = −g of one linearisation, for any λ and D.

    Attributes:
        gradient: `[p]`, g = Jᵀr + Λ(w−w₀).
        diagonal: `[p]`, diag(JᵀJ).
        matrix: `[p, p]`, JᵀJ + Λ, of systems that have it at hand; None of others.
    """

    gradient: tf.Tensor
    diagonal: tf.Tensor
    matrix: tf.Tensor | None = None

    @abc.abstractmethod
    def solver(self, scaling: Tensor) -> Solve:
        """Return `solve(λ, residual=None)`: from λ (scalar) to p `[p]` and whether it could be solved (scalar bool).

        With `residual`, u `[rows]`, the right-hand side is −Jᵀu in place of −g.

        Where it could not, p is zeros: nothing raises, nothing that is not finite comes out. What depends on D
        `[p]` (`scaling`) but not on λ is computed here, once.
        """

    @abc.abstractmethod
    def quadratic(self, step: Tensor) -> Tensor:
        """Return pᵀ(JᵀJ + Λ)p, a scalar."""

    def with_matrix(self, matrix: Tensor, changed: Tensor) -> "System":
        """Return the same system, with another `matrix` `[p, p]` where `changed`, a scalar bool."""
        raise NotImplementedError

    def reduction(self, step: Tensor) -> Tensor:
        """Return by how much the quadratic model says that a step `[p]` lowers the cost, −(gᵀp + ½ pᵀ(JᵀJ + Λ)p)."""
        return -(dot(self.gradient, step) + self.quadratic(step) / 2)

    def effective_parameters(self) -> Tensor:
        """Return γ = tr(JᵀJ (JᵀJ + Λ)⁻¹), a scalar, where Λ is positive; NaN where it could not be computed."""
        raise ValueError(
            "The effective number of parameters, which Bayesian regularisation is about, needs a solver that factors a "
            "matrix: 'cholesky', 'kernel', 'qr', 'svd' or 'auto'. Received: a solver that factors none"
        )


class ProductSystem(System):
    """A system that has of JᵀJ its diagonal, which may be given `[p]`, and its products alone."""

    def __init__(self, linearisation: LinearModel, diagonal: Tensor | None = None) -> None:
        self.linearisation, self.prior, self.gradient = linearisation, linearisation.prior, linearisation.gradient()
        self.diagonal = linearisation.diagonal() if diagonal is None else diagonal

    def quadratic(self, step: Tensor) -> Tensor:
        return self.linearisation.quadratic(step)


def dot(one: Tensor, other: Tensor) -> Tensor:
    """Return the product of two vectors, a scalar; products of matrices of one row are three times slower on a CPU."""
    return arrays.reduce_sum(one * other)


def finite_or_zeros(step: Tensor, solved: Tensor | bool = True) -> Solved:
    """Return a step and whether it was solved for and is finite; where it was not, the step is zeros."""
    solved = arrays.reduce_all(arrays.is_finite(step)) & solved
    return zeros_unless(solved, step), solved


ROUNDINGS = 128
"""Rounding errors of the largest element that stand in JᵀJ, or J·Jᵀ, where it should be zero."""


def least_damping(diagonal: Tensor) -> Tensor:
    """Return the least λ, a scalar, by which what is rounding in a singular matrix is not solved for.

    Args:
        diagonal: of the matrix that λ is added to.
    """
    return ROUNDINGS * arrays.finfo(diagonal).eps * arrays.reduce_max(diagonal)


def zeros_unless(solved: Tensor, step: Tensor) -> Tensor:
    """Return a step, or zeros where it was not solved for."""
    return arrays.where(solved, step, arrays.zeros_like(step))


class Solver(Configured, abc.ABC):
    """A way to solve (JᵀJ + λD + Λ) p = −g."""

    name: str = ""
    """What the solver is called in the options and in reports."""

    takes_sums = False
    """Whether JᵀJ, its products and Jᵀr are all that it works with, which add up over processes, and never rows."""

    solves_again_cheaply = False
    """Whether another right-hand side costs little beside J: where a matrix is factored, and the factor stays."""

    usual_window = 1
    """Of how many costs a step may stay below the highest, if the user does not say."""

    first_damping: float | None = None
    """The first λ, as a multiple of the curvature, of a damping for which the user names none; None for its own."""

    takes_products = False
    """Whether products with J, and an estimate of diag(JᵀJ), are enough where they are the cheaper way."""

    @abc.abstractmethod
    def prepare(self, linearisation: LinearModel) -> System:
        """Return the `System` of a `Linearisation`."""

    @abc.abstractmethod
    def cost(self, sizes: ProblemSizes) -> "Cost":
        """Return the `Cost` for `ProblemSizes` whose number of rows is known."""

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all solvers that `choose` may come to."""
        return (self.name,)

    def factoring(self) -> "Solver":
        """Return the solver to use where the effective number of parameters is asked for: this one, if it knows it."""
        return self

    def choose(self, sizes: ProblemSizes) -> "Choice":
        """Return the `Choice` of solvers for `ProblemSizes`: this one, whatever they are.

        Raises:
            ValueError: where it needs rows that other processes have.
            MemoryBudgetExceeded: where it takes more than the budget of `sizes`.
        """
        if sizes.is_shared and not self.takes_sums:
            raise ValueError(
                f"solver={self.name!r} works with the rows of J, which several workers share out among them: use "
                f"'cholesky', 'cg' or 'auto'. Received: solver={self.name!r}"
            )
        taken = self.memory(sizes)
        if sizes.budget < taken < math.inf:  # what has no cost it refuses itself
            what = f"A step by {self.name!r} on {sizes.rows:,} residuals and {sizes.parameters:,} parameters"
            raise exceeded(what, taken, sizes.budget, f"solver={self.name!r}")
        return Choice((self,), lambda rows: 0)

    def memory(self, sizes: ProblemSizes) -> float:
        """Return the bytes that a step plans to take, J and its passes among them; zero where rows are open."""
        return 0.0 if sizes.rows is None else sizes.held() + self.cost(sizes).memory

    def left_out(self, sizes: ProblemSizes) -> tuple[str, float] | None:
        """Return the name of a solver that would be the better choice, and the bytes that it plans; None for none."""
        return None


class Cost(NamedTuple):
    """What a solver takes: Python numbers, or float64 scalar tensors where the number of rows is one.

    Attributes:
        memory: bytes, besides J as factors.
        step: multiply-adds once per step.
        attempt: multiply-adds for each λ.
    """

    memory: Any
    step: Any
    attempt: Any


class Choice(NamedTuple):
    """Solvers of which one is to be used, where the number of rows of J may show only with the batch.

    Attributes:
        solvers: tuple, at least one.
        index: function from the number of rows, an integer or a float64 scalar tensor, to the index of the one.
    """

    solvers: tuple
    index: Any
