"""Singular values of J: the solver for many λ with one factorisation, and for J without full rank."""

import keras
import tensorflow as tf

from tfjac.graph import compiled_by_xla
from tfjac.linear.contracts import LinearModel
from tfjac.linear.solvers.base import Cost, Solve, Solved, Solver, System, finite_or_zeros
from tfjac.linear.solvers.effective_parameters import of_rows
from tfjac.linear.solvers.problem_sizes import ProblemSizes
from tfjac.types import Tensor


@keras.saving.register_keras_serializable("tfjac")
class SVDSolver(Solver):
    """Factors [J; √Λ] D^(−½) = U S Vᵀ once per step; each λ is then a division, as in SciPy's `trf`:

        p = −D^(−½) V (S² + λ)⁻¹ S Uᵀ [r; …]

    Nothing is squared, as with `"qr"`, which takes less per step; this one takes less per λ, which pays where there are
    many, as with `damping="trust_region"`.

    Cost: 4nm·p² + 8p³ flops per step and 4nm·p per λ; memory 3nm·p. Where nm < p they change places.
    """

    name = "svd"
    solves_again_cheaply = True

    def cost(self, sizes: ProblemSizes) -> Cost:
        p = float(sizes.parameters)
        few, many = min(p, sizes.rows), max(p, sizes.rows)
        memory = 3 * sizes.itemsize * sizes.rows * p
        return Cost(memory, 2 * many * few**2 + 4 * few**3, 2 * sizes.rows * p)

    def prepare(self, linearisation: LinearModel) -> System:
        """Form J; it is factored once D is known.

        Raises:
            ValueError: under XLA, whose decomposition has six digits, whatever the dtype.
        """
        if compiled_by_xla(tf.compat.v1.get_default_graph()):
            raise ValueError(
                "solver='svd' is not for functions compiled by XLA, whose singular values have six digits at most: "
                "use solver='qr', or leave jit_compile off. Received: jit_compile=True"
            )
        return _Decomposed(linearisation)


class _Decomposed(System):
    def __init__(self, linearisation: LinearModel) -> None:
        jacobian, self.prior = linearisation.jacobian.to_dense(), linearisation.prior
        self.gradient, self.residual = linearisation.gradient(), linearisation.residual
        self.diagonal = tf.reduce_sum(tf.square(jacobian), axis=0)
        self.jacobian = jacobian

    def solver(self, scaling: Tensor) -> Solve:
        inverse = tf.math.rsqrt(scaling)
        rows, target = self.jacobian, -self.residual
        if not self.prior.is_zero:
            root, residual = self.prior.rows()
            rows = tf.concat([rows, tf.linalg.diag(root)], axis=0)
            target = tf.concat([target, -residual], axis=0)
        rows = rows * inverse
        finite = tf.reduce_all(tf.math.is_finite(rows)) & tf.reduce_all(tf.math.is_finite(target))
        values, left, right = tf.linalg.svd(tf.where(finite, rows, tf.zeros_like(rows)))
        target = values * tf.linalg.matvec(left, target, transpose_a=True)

        def solve(damping: Tensor, residual: Tensor | None = None) -> Solved:
            image = target
            if residual is not None:
                rows = left[: tf.shape(residual)[0]]
                image = -values * tf.linalg.matvec(rows, residual, transpose_a=True)
            return finite_or_zeros(inverse * tf.linalg.matvec(right, image / (tf.square(values) + damping)), finite)

        return solve

    def effective_parameters(self) -> Tensor:
        return of_rows(self.jacobian, self.prior.precision)

    def quadratic(self, step: Tensor) -> Tensor:
        return tf.reduce_sum(tf.square(tf.linalg.matvec(self.jacobian, step))) + self.prior.quadratic(step)
