"""Cholesky's factorisation of the normal equations: the solver for more residuals than parameters."""

import copy
from collections.abc import Callable

import keras

from tfjac.linear import arrays
from tfjac.linear.contracts import LinearModel
from tfjac.linear.solvers.base import Cost, Solve, Solved, Solver, System, dot, least_damping
from tfjac.linear.solvers.effective_parameters import of_gram
from tfjac.linear.solvers.problem_sizes import ProblemSizes
from tfjac.types import Tensor


@keras.saving.register_keras_serializable("tfjac")
class CholeskySolver(Solver):
    """JᵀJ is formed once per step, without J, and factored once per λ.

    Cost: n·p²/2 flops for JᵀJ whatever the number of outputs, p³/3 per λ; memory 2p². Squares the condition number of
    J: for ill-conditioned problems in float64 use `"qr"`.
    """

    name = "cholesky"
    takes_sums = True
    solves_again_cheaply = True

    def cost(self, sizes: ProblemSizes) -> Cost:
        """Return the `Cost`: JᵀJ once, p³/6 for each λ."""
        p = float(sizes.parameters)
        return Cost(2 * sizes.itemsize * p**2, sizes.gram(), p**3 / 6)

    def prepare(self, linearisation: LinearModel) -> System:
        """Form JᵀJ and g."""
        gram, gradient = linearisation.gram_and_gradient()
        prior = linearisation.prior
        precision = None if prior.is_zero else prior.precision
        few = prior.is_zero and linearisation.num_rows < linearisation.num_parameters
        return NormalSystem(gram, gradient, precision, linearisation.jacobian.adjoint, few)


class NormalSystem(System):
    """The system of JᵀJ `[p, p]` and g `[p]`, whatever they were computed from.

    Args:
        gram, gradient: JᵀJ and g.
        precision: `[p]`, Λ; None for zeros.
        adjoint: function from u `[rows]` to Jᵀu, for other right-hand sides than g; None where there will be none.
        is_singular: whether JᵀJ is known to be: what stands where it should be zero is rounding, which next to no λ
            would be solved for. λ is no less than that then. Where it is not known, as after a softmax, λ is that if
            the system has no solution with less.
    """

    def __init__(
        self,
        gram: Tensor,
        gradient: Tensor,
        precision: Tensor | None = None,
        adjoint: Callable | None = None,
        is_singular: bool = False,
    ) -> None:
        self._is_singular = is_singular
        self.gradient, self.diagonal, self.adjoint = gradient, arrays.diag_part(gram), adjoint
        self.precision = arrays.zeros_like(gradient) if precision is None else precision
        self.matrix = gram if precision is None else arrays.with_diagonal(gram, self.diagonal + precision)

    def solver(self, scaling: Tensor) -> Solve:
        least = least_damping(self.diagonal / scaling)

        def solve(damping: Tensor, residual: Tensor | None = None) -> Solved:
            gradient = self.gradient
            if residual is not None:
                assert self.adjoint is not None
                gradient = self.adjoint(residual)
            at = lambda damping: arrays.damped_solve(self.matrix, -gradient, scaling, damping)  # noqa: E731
            if self._is_singular is not False:
                damping = arrays.where(self._is_singular, arrays.maximum(damping, least), damping)
            found = at(damping)
            return arrays.branch(found[1] | (damping >= least), lambda: found, lambda: at(least))

        return solve

    def with_matrix(self, matrix: Tensor, changed: Tensor) -> "NormalSystem":
        other = copy.copy(self)
        other.matrix = arrays.where(changed, matrix, self.matrix)
        return other

    def effective_parameters(self) -> Tensor:
        return of_gram(self.matrix, self.precision)

    def quadratic(self, step: Tensor) -> Tensor:
        return dot(step, arrays.matvec(self.matrix, step))
