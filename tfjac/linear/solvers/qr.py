"""QR of the stacked, damped Jacobian: the solver for ill-conditioned problems in float64."""

import keras

from tfjac.linear import arrays
from tfjac.linear.contracts import LinearModel
from tfjac.linear.solvers.base import Cost, Solve, Solved, Solver, System, dot, finite_or_zeros, least_damping
from tfjac.linear.solvers.effective_parameters import of_rows
from tfjac.linear.solvers.problem_sizes import ProblemSizes
from tfjac.types import Tensor


@keras.saving.register_keras_serializable("tfjac")
class QRSolver(Solver):
    """Solves min ‖[J; √(λD + Λ)] p + [r; …]‖ by Householder QR, without ever squaring J.

    J is formed and factored once per step, J = QR; each λ then costs a QR of [R; √(λD + Λ)] (Moré 1978, section 3).
    The condition number is that of J, not its square, which is what certified digits of hard problems need.

    Cost: 2nm·p² flops per step and 4p³ per λ; memory 2nm·p.
    """

    name = "qr"
    solves_again_cheaply = True

    def cost(self, sizes: ProblemSizes) -> Cost:
        """Return the `Cost`: nm·p² once, 2p³ for each λ."""
        p = float(sizes.parameters)
        return Cost(2 * sizes.itemsize * sizes.rows * p, sizes.rows * p**2, 2 * p**3)

    def prepare(self, linearisation: LinearModel) -> System:
        """Form J and factor it."""
        return _Factored(linearisation)


class _Factored(System):
    def __init__(self, linearisation: LinearModel) -> None:
        jacobian = linearisation.jacobian.to_dense()
        self.prior = linearisation.prior
        self.gradient = linearisation.gradient()
        self.diagonal = arrays.reduce_sum(arrays.square(jacobian), axis=0)
        self.orthogonal, self.triangle = arrays.qr(jacobian)
        self.target = self._target(linearisation.residual)
        gram = arrays.matmul(arrays.transpose(self.triangle), self.triangle)
        self.matrix: Tensor = arrays.with_diagonal(gram, arrays.diag_part(gram) + self.prior.precision)

    def _target(self, residual: Tensor) -> Tensor:
        return -arrays.matvec(arrays.transpose(self.orthogonal), residual)

    def solver(self, scaling: Tensor) -> Solve:
        def solve(damping: Tensor, residual: Tensor | None = None) -> Solved:
            mass = damping * scaling + self.prior.precision
            root = arrays.sqrt(mass)
            rows = arrays.concat([self.triangle, arrays.diag(root)], axis=0)
            if residual is None:
                parts = [self.target, -arrays.divide_no_nan(self.prior.gradient, root)]
            else:
                parts = [self._target(residual), arrays.zeros_like(root)]
            orthogonal, triangle = arrays.qr(rows)
            return _back_substitute(triangle, arrays.matvec(arrays.transpose(orthogonal), arrays.concat(parts, axis=0)))

        return solve

    def with_matrix(self, matrix: Tensor, changed: Tensor) -> System:
        return _Squared(self, matrix, changed)

    def effective_parameters(self) -> Tensor:
        return of_rows(self.triangle, self.prior.precision)

    def quadratic(self, step: Tensor) -> Tensor:
        return arrays.reduce_sum(arrays.square(arrays.matvec(self.triangle, step))) + self.prior.quadratic(step)


class _Squared(System):
    """A system of rows, or where `changed` one of another matrix."""

    def __init__(self, rows: _Factored, matrix: Tensor, changed: Tensor) -> None:
        self._rows, self._changed = rows, changed
        self.gradient, self.diagonal, self.matrix = rows.gradient, rows.diagonal, matrix

    def solver(self, scaling: Tensor) -> Solve:
        by_rows, least = self._rows.solver(scaling), least_damping(self.diagonal / scaling)

        def solve(damping: Tensor, residual: Tensor | None = None) -> Solved:
            assert residual is None  # for steps that are bent
            given = self.matrix, -self.gradient, scaling, arrays.maximum(damping, least)
            return arrays.branch(self._changed, lambda: arrays.damped_solve(*given), lambda: by_rows(damping))

        return solve

    def quadratic(self, step: Tensor) -> Tensor:
        by_matrix = dot(step, arrays.matvec(self.matrix, step))
        return arrays.where(self._changed, by_matrix, self._rows.quadratic(step))


def _back_substitute(triangle: Tensor, target: Tensor) -> Solved:
    """Solve the triangular system; zeros and False where it is singular or not finite (TensorFlow's op would raise)."""
    pivots = arrays.diag_part(triangle)
    regular = arrays.reduce_all(arrays.is_finite(pivots) & (pivots != 0))
    safe = arrays.where(regular, triangle, arrays.diag(arrays.ones_like(pivots)))
    return finite_or_zeros(arrays.back_substitute(safe, target), regular)
