"""Conjugate gradients: the solver for when neither JᵀJ nor J Jᵀ fits in memory."""

import keras
import tensorflow as tf

from tfjac.optimizers.options import positive, positive_integer
from tfjac.optimizers.solvers.base import Solver, System


@keras.saving.register_keras_serializable("tfjac")
class ConjugateGradientSolver(Solver):
    """Solves (JᵀJ + λD + Λ) p = −g with products J·v and Jᵀ·u alone, preconditioned by the diagonal.

    An inexact solve still gives a descent direction, and the gain ratio judges it like any other. Stops at ‖residual‖
    ≤ `tolerance`·‖g‖ in the norm of the preconditioner, or after `max_iterations`.

    Args:
        tolerance: relative residual.
        max_iterations: at most so many products with J and Jᵀ for each λ.

    Cost: one J·v and one Jᵀ·u per iteration; memory a few vectors `[p]`.
    """

    name = "cg"

    def __init__(self, tolerance=1e-5, max_iterations=200):
        self.tolerance = positive("tolerance", tolerance, below=1)
        self.max_iterations = positive_integer("max_iterations", max_iterations)

    def prepare(self, linearisation):
        """Take g and diag(JᵀJ)."""
        return _MatrixFree(linearisation, self.tolerance, self.max_iterations)

    def get_config(self):
        """Return the arguments of the constructor."""
        return {"tolerance": self.tolerance, "max_iterations": self.max_iterations}


class _MatrixFree(System):
    def __init__(self, linearisation, tolerance, max_iterations):
        self.linearisation, self.tolerance, self.max_iterations = linearisation, tolerance, max_iterations
        self.gradient = linearisation.gradient()
        self.diagonal = linearisation.diagonal()

    def solver(self, scaling):
        def solve(damping):
            mass = damping * scaling + self.linearisation.prior.precision
            step = self._conjugate_gradients(mass, self.diagonal + mass)
            solved = tf.reduce_all(tf.math.is_finite(step))
            return tf.where(solved, step, tf.zeros_like(step)), solved

        return solve

    def _conjugate_gradients(self, mass, preconditioner):
        """Hestenes & Stiefel 1952, preconditioned, on (JᵀJ + diag(mass)) p = −g from p = 0."""
        first = -self.gradient / preconditioner
        energy = tf.tensordot(-self.gradient, first, 1)
        limit = self.tolerance**2 * energy

        def unfinished(count, step, residual, direction, energy):
            return (count < self.max_iterations) & (energy > limit)

        def iterate(count, step, residual, direction, energy):
            image = self.linearisation.curvature(direction) + mass * direction
            length = energy / tf.tensordot(direction, image, 1)
            step, residual = step + length * direction, residual - length * image
            preconditioned = residual / preconditioner
            new_energy = tf.tensordot(residual, preconditioned, 1)
            return count + 1, step, residual, preconditioned + new_energy / energy * direction, new_energy

        start = (tf.constant(0), tf.zeros_like(first), -self.gradient, first, energy)
        return tf.while_loop(unfinished, iterate, start)[1]

    def quadratic(self, step):
        return self.linearisation.quadratic(step)
