"""Conjugate gradients: the solver for many residuals and many parameters, where JᵀJ and J Jᵀ are both too large."""

import keras
import tensorflow as tf

from tfjac.arguments import choice, positive, positive_integer
from tfjac.graph import while_loop
from tfjac.linear.contracts import LinearModel
from tfjac.linear.factors.kronecker_block import has_kronecker_factors
from tfjac.linear.solvers.base import Cost, ProductSystem, Solve, Solved, Solver, System, dot, finite_or_zeros
from tfjac.linear.solvers.preconditioners import KINDS, Preconditioner, Product
from tfjac.linear.solvers.problem_sizes import ProblemSizes
from tfjac.types import PreconditionerName, Tensor

ITERATIONS = 50
"""For each λ: as many as it takes in the middle of the training of a network."""


@keras.saving.register_keras_serializable("tfjac")
class ConjugateGradientSolver(Solver):
    """Solves (JᵀJ + λD + Λ) p = −g, as well as it pays, with products J·v and Jᵀ·u alone.

    An inexact step is one of descent, too, and the gain ratio judges it like any other. Each solve ends where its
    residual s = −g − (JᵀJ + λD + Λ) p is small,

        ‖s‖ ≤ η‖g‖ with ‖s‖² = sᵀP⁻¹s, P the preconditioner,    η = min(tolerance, ‖g‖ / ‖r‖)

    or after `max_iterations`. ‖g‖ / ‖r‖ is about the part of the residuals that the step may take away, and has no
    units: as it goes to zero, near a minimum, steps become exact (the forcing sequence of Dembo, Eisenstat & Steihaug,
    "Inexact Newton methods", 1982).

    Args:
        tolerance: the largest η.
        max_iterations: at most so many products with J and Jᵀ for each λ.
        preconditioner: `"kronecker"`, `"block_diagonal"` or `"diagonal"`. The first takes JᵀJ of a weight for A ⊗ G,
            made of its inputs and of its cotangents. The second has JᵀJ of each variable of up to 1,024 elements as it
            is. What they do not cover, such as embeddings, is left to the third.

    Cost: one J·v and one Jᵀ·u per iteration, 2n·i·o + 2n·m·o multiply-adds for a layer, and i²o + io² for
    `"kronecker"`; A and G take n·i² + n·m·o² once, their inverses i³ + o³ for each λ. Memory: a few vectors.
    """

    name = "cg"
    takes_sums = True
    takes_products = True

    def __init__(
        self,
        tolerance: float = 0.03,
        max_iterations: int = 200,
        preconditioner: PreconditionerName = "kronecker",
    ) -> None:
        self.tolerance = positive("tolerance", tolerance, below=1)
        self.max_iterations = positive_integer("max_iterations", max_iterations)
        self.preconditioner = choice("preconditioner", preconditioner, KINDS)

    def cost(self, sizes: ProblemSizes) -> Cost:
        """Return the `Cost`, if each λ takes 50 iterations; Kronecker factors of all layers that may have them."""
        layers = [layer for block in sizes.layers() for layer in block if layer.rows is None]
        has_factors = self.preconditioner == "kronecker"
        layers = [layer for layer in layers if has_factors and has_kronecker_factors(layer.g, layer.i, layer.o)]
        sides = [layer.g * (layer.i**2 + layer.o**2) for layer in layers]
        formed = [layer.n * layer.t * layer.g * (layer.i**2 + layer.estimated * layer.o**2) for layer in layers]
        inverted = [layer.g * (layer.i**3 + layer.o**3) for layer in layers]
        applied = [layer.g * layer.i * layer.o * (layer.i + layer.o) for layer in layers]
        iteration = 2 * sizes.product() + sum(applied)
        memory = sizes.itemsize * (6.0 * sizes.parameters + 2 * sum(sides))
        return Cost(memory, sum(formed), ITERATIONS * iteration + sum(inverted))

    def prepare(self, linearisation: LinearModel) -> System:
        """Take g, diag(JᵀJ), and what the preconditioner is made of."""
        return _MatrixFree(self, linearisation)


class _MatrixFree(ProductSystem):
    def __init__(self, options: "ConjugateGradientSolver", linearisation: LinearModel) -> None:
        super().__init__(linearisation)
        self.options = options
        self.preconditioner = Preconditioner(options.preconditioner, linearisation, self.diagonal)

    def solver(self, scaling: Tensor) -> Solve:
        def solve(damping: Tensor, residual: Tensor | None = None) -> Solved:
            mass = damping * scaling + self.prior.precision
            gradient = self.gradient if residual is None else self.linearisation.jacobian.adjoint(residual)
            square = self.linearisation.jacobian.square(self.linearisation.residual if residual is None else residual)
            product = lambda vector: self.linearisation.curvature(vector) + mass * vector  # noqa: E731
            precondition = self.preconditioner.inverse(mass)
            limits = self.options.tolerance, self.options.max_iterations
            return finite_or_zeros(conjugate_gradients(product, -gradient, square, precondition, *limits))

        return solve


def conjugate_gradients(
    product: Product,
    right: Tensor,
    square: Tensor,
    precondition: Product,
    tolerance: float,
    max_iterations: int | Tensor,
    first: Tensor | None = None,
) -> Tensor:
    """Return x with A x = b, as well as it pays: Hestenes & Stiefel 1952, preconditioned, from x = 0.

    Args:
        product: function from v to A v, A positive definite.
        right: b.
        square: ‖r‖², the residuals' squares, which b is measured by.
        precondition: function from s to P⁻¹s.
        tolerance, max_iterations: as of `ConjugateGradientSolver`.
        first: P⁻¹b, where it is known.
    """
    first = precondition(right) if first is None else first
    energy = dot(right, first)
    limit = forcing_term(tolerance, energy, square) ** 2 * energy

    def unfinished(count: Tensor, step: Tensor, residual: Tensor, direction: Tensor, energy: Tensor) -> Tensor:
        return (count < max_iterations) & (energy > limit)

    def iterate(count: Tensor, step: Tensor, residual: Tensor, direction: Tensor, energy: Tensor) -> tuple:
        image = product(direction)
        length = energy / dot(direction, image)
        step, residual = step + length * direction, residual - length * image
        preconditioned = precondition(residual)
        new_energy = dot(residual, preconditioned)
        return count + 1, step, residual, preconditioned + new_energy / energy * direction, new_energy

    start = (tf.constant(0), tf.zeros_like(first), right, first, energy)
    return while_loop(unfinished, iterate, start)[1]


def forcing_term(tolerance: float, gradient: Tensor, residual: Tensor) -> Tensor:
    """Return η = min(tolerance, ‖g‖ / ‖r‖), given both norms squared."""
    return tf.minimum(tf.sqrt(tf.math.divide_no_nan(gradient, residual)), tolerance)
