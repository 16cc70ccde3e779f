"""The Schur complement: the solver for residuals that read few parameters each, by index, as in bundle adjustment."""

import keras
import tensorflow as tf

from tfjac import ops
from tfjac.linear.contracts import LinearModel
from tfjac.linear.model import Elimination, Touched
from tfjac.linear.model.elimination import WIDEST
from tfjac.linear.solvers.base import Cost, Solve, Solved, Solver, System, finite_or_zeros
from tfjac.linear.solvers.problem_sizes import ProblemSizes
from tfjac.types import Tensor


@keras.saving.register_keras_serializable("tfjac")
class SchurSolver(Solver):
    """Eliminates the variable whose rows no residual couples, and factors what is left for the others.

    Where each example reads one row of a variable, by `tf.gather` or an embedding, JᵀJ of that variable consists of
    small blocks M_j on the diagonal. With E for what couples it to the others, which have JᵀJ = B, both damped,

        (B − E M⁻¹ Eᵀ) x = −g + E M⁻¹ g_own,    M x_own = −g_own − Eᵀx

    The variable is found, not named: of those that can be eliminated the one with most parameters. In an example, the
    other variables may be read by index, any number of rows, or whole.

    Cost: (n·m + c·o)·k²/2 multiply-adds for each λ, with k columns that an example touches, o of a row that is
    eliminated and c pairs of examples that read the same one; q³/6 for the q parameters left. Memory: 2q² and J as
    read, n·m·(k + o).
    Reference: B. Triggs, P. McLauchlan, R. Hartley, A. Fitzgibbon, "Bundle adjustment: a modern synthesis", 2000,
    section 6.
    """

    name = "schur"

    def cost(self, sizes: ProblemSizes) -> Cost:
        """Return the `Cost`, if all rows that are eliminated are read equally often."""
        found = sizes.elimination
        if found is None:
            return Cost(float("inf"), float("inf"), float("inf"))
        q, o, blocks = float(found.remaining), found.width, sizes.touched()
        width = max(k for _, _, k in blocks)
        residuals = sum(n * m for n, m, _ in blocks)
        pairs = sum(n for n, _, _ in blocks) ** 2 / found.rows / 2
        memory = residuals * (width + 2 * o)
        once = memory * o + found.rows * o**3
        formed = residuals * width**2 / 2 + pairs * o * width**2
        return Cost(sizes.itemsize * (2 * q**2 + memory), once, formed + q**3 / 6)

    def prepare(self, linearisation: LinearModel) -> System:
        """Take what each example touches, and JᵀJ of the variable that is eliminated."""
        return _SchurSystem(linearisation, elimination_of(linearisation, self.name))


class _SchurSystem(System):
    def __init__(self, linearisation: LinearModel, elimination: Elimination) -> None:
        self._linearisation, self._elimination = linearisation, elimination
        self.gradient, self.diagonal = linearisation.gradient(), linearisation.diagonal()
        self._touched = Touched.of(linearisation, elimination)
        self._own = self._touched.own_gram(elimination)

    def solver(self, scaling: Tensor) -> Solve:
        split, touched, columns = self._elimination.split, self._touched, self._elimination.remaining
        (scales, own_scales), (prior, own_prior) = split(scaling), split(self._linearisation.prior.precision)
        own_diagonal = tf.linalg.diag_part(self._own) + own_prior

        def solve(damping: Tensor, residual: Tensor | None = None) -> Solved:
            gradient = self.gradient if residual is None else self._linearisation.jacobian.adjoint(residual)
            others, own = split(-gradient)
            matrix = tf.linalg.set_diag(self._own, own_diagonal + damping * own_scales)
            complement, projected, known = ops.schur_complement(
                touched.values, touched.columns, touched.block, touched.row, matrix, own, columns
            )
            complement = tf.linalg.set_diag(complement, tf.linalg.diag_part(complement) + prior)
            others, solved = ops.damped_solve(complement, others - projected, scales, damping)
            own -= touched.coupling(others, self._elimination)
            own, all_solved = ops.damped_solve(matrix, own, tf.zeros_like(own), tf.zeros_like(own[:, 0]))
            solved &= known & tf.reduce_all(all_solved)
            return finite_or_zeros(self._elimination.join(others, own), solved)

        return solve

    def quadratic(self, step: Tensor) -> Tensor:
        return self._linearisation.quadratic(step)


def elimination_of(linearisation: LinearModel, name: str) -> Elimination:
    """Return the `Elimination` of a `Linearisation` for the solver of that name.

    Raises:
        ValueError: where there is none.
    """
    found = Elimination.of(linearisation.jacobian)
    if found is None:
        raise ValueError(
            f"solver={name!r} eliminates a variable of which each example reads one row, by tf.gather(variable, "
            f"index) or an embedding, of at most {WIDEST} elements, and that no equality couples; leave the solver "
            "to 'auto', or use 'cg'. Received: residuals without one"
        )
    return found
