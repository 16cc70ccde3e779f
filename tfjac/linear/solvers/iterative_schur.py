"""Conjugate gradients on the Schur complement: for more parameters than can be factored once a variable is gone."""

import keras
import tensorflow as tf

from tfjac.arguments import choice, positive, positive_integer
from tfjac.linear.contracts import LinearModel
from tfjac.linear.model import Coupled
from tfjac.linear.model.elimination import Elimination
from tfjac.linear.solvers.base import Cost, ProductSystem, Solve, Solved, Solver, System, finite_or_zeros
from tfjac.linear.solvers.conjugate_gradient import ConjugateGradientSolver, conjugate_gradients
from tfjac.linear.solvers.problem_sizes import ProblemSizes
from tfjac.linear.solvers.schur import elimination_of
from tfjac.linear.solvers.schur_jacobi import KINDS_OF_BLOCKS, SchurJacobi
from tfjac.types import BlocksName, Tensor


@keras.saving.register_keras_serializable("tfjac")
class IterativeSchurSolver(Solver):
    """Eliminates a variable as `SchurSolver` does; conjugate gradients solve for the others, as well as it pays.

    (B − E M⁻¹ Eᵀ) x = −g + E M⁻¹ g_own is solved by products alone, the matrix is not formed. It ends as
    `ConjugateGradientSolver` does, with ‖s‖ and ‖g‖ of these equations; M x_own = −g_own − Eᵀx is solved exactly.

    Args:
        tolerance: the largest reduction of the residual that is asked for.
        max_iterations: at most so many products for each λ.
        preconditioner: `"schur_jacobi"`, the blocks of B − E M⁻¹ Eᵀ on the diagonal, one for each row of a table, or
            `"block_jacobi"`, those of B. See `SchurJacobi`.

    Cost: 2·n·m·(k + o) multiply-adds per iteration, with k columns that an example touches and o of a row that is
    eliminated; n·m·(k·w + o²) for each λ, with w columns of a row that stays. Memory: n·m·o, and the blocks.
    Reference: S. Agarwal, N. Snavely, S. Seitz, R. Szeliski, "Bundle adjustment in the large", 2010.
    """

    name = "schur_cg"

    def __init__(
        self,
        tolerance: float = 0.03,
        max_iterations: int = 200,
        preconditioner: BlocksName = "schur_jacobi",
    ) -> None:
        self.tolerance = positive("tolerance", tolerance, below=1)
        self.max_iterations = positive_integer("max_iterations", max_iterations)
        self.preconditioner = choice("preconditioner", preconditioner, KINDS_OF_BLOCKS)

    def cost(self, sizes: ProblemSizes) -> Cost:
        """Return the `Cost`, if each λ takes as many iterations as `"cg"`."""
        found = sizes.elimination
        if found is None:
            return Cost(float("inf"), float("inf"), float("inf"))
        tables = [layer for block in sizes.layers() for layer in block if layer.rows is not None]
        blocks = sum(layer.n * layer.m * layer.touched * layer.o for layer in tables)
        own = 2 * sum(n * m for n, m, _ in sizes.touched()) * found.width + 3 * found.rows * found.width**2
        stay = found.remaining * max(layer.o for layer in tables)
        products = ConjugateGradientSolver().cost(sizes)
        memory = products.memory + sizes.itemsize * (own + stay)
        return Cost(memory, products.step + blocks, products.attempt + blocks)

    def prepare(self, linearisation: LinearModel) -> System:
        """Take g, JᵀJ of the variable that is eliminated, and what the preconditioner is made of."""
        return _ReducedSystem(self, linearisation, elimination_of(linearisation, self.name))


class _ReducedSystem(ProductSystem):
    def __init__(self, options: "IterativeSchurSolver", linearisation: LinearModel, elimination: Elimination) -> None:
        super().__init__(linearisation)
        self._options, self._elimination = options, elimination
        self._coupled = Coupled(linearisation, elimination)
        self._own = self._coupled.own_gram()
        self._preconditioner = SchurJacobi(options.preconditioner, self._coupled, elimination.split(self.diagonal)[0])

    def solver(self, scaling: Tensor) -> Solve:
        split = self._elimination.split
        (scales, own_scales), (prior, own_prior) = split(scaling), split(self.prior.precision)
        own_diagonal = tf.linalg.diag_part(self._own) + own_prior

        def solve(damping: Tensor, residual: Tensor | None = None) -> Solved:
            gradient = self.gradient if residual is None else self.linearisation.jacobian.adjoint(residual)
            square = self.linearisation.jacobian.square(self.linearisation.residual if residual is None else residual)
            others, own = split(-gradient)
            mass = damping * scales + prior
            matrix = tf.linalg.set_diag(self._own, own_diagonal + damping * own_scales)
            whitened, known = self._coupled.whitened(matrix)
            others, own = whitened.right_hand_side(others, own)
            if self._elimination.remaining:
                product = lambda vector: whitened.product(vector) + mass * vector  # noqa: E731
                precondition = self._preconditioner.inverse(whitened, mass)
                limits = self._options.tolerance, self._options.max_iterations
                others = conjugate_gradients(product, others, square, precondition, *limits)
            return finite_or_zeros(self._elimination.join(others, whitened.substituted(others, own)), known)

        return solve
