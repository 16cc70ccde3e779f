"""The kernel J Jᵀ: the solver for more parameters than residuals, such as any large network on a mini-batch."""

import keras
import tensorflow as tf

from tfjac.ops import damped_solve
from tfjac.optimizers.contracts import LinearModel
from tfjac.optimizers.solvers.base import Cost, ProductSystem, Solver, System, zeros_unless
from tfjac.optimizers.solvers.effective_parameters import of_kernel
from tfjac.optimizers.solvers.problem_sizes import ProblemSizes


@keras.saving.register_keras_serializable("tfjac")
class KernelSolver(Solver):
    """Solves in the space of the residuals, nm × nm, by the push-through identity; J is never formed.

    With M = λD + Λ, a number m_v for each variable v, and g = Jᵀr + q where q = Λ(w−w₀):

        p = −M⁻¹ (q + Jᵀ (I + J M⁻¹ Jᵀ)⁻¹ (r − J M⁻¹ q))

    which is exactly the step of the normal equations. Scalings are averaged over each variable. Without regularisers
    J D⁻¹ Jᵀ serves for every λ; with them the kernel is formed anew for each.

    Cost: n²·i + n²m²·o per layer for the kernel, (nm)³/3 per λ; memory 2(nm)².
    """

    name = "kernel"

    def cost(self, sizes: ProblemSizes) -> Cost:
        """Return the `Cost`: J·Jᵀ once, (nm)³/6 for each λ."""
        return Cost(2 * sizes.itemsize * sizes.rows**2, sizes.kernel(), sizes.rows**3 / 6)

    def prepare(self, linearisation: LinearModel) -> System:
        """Take g and diag(JᵀJ); the kernel waits for D."""
        return _Kernel(linearisation)


class _Kernel(ProductSystem):
    def __init__(self, linearisation: LinearModel):
        linearisation.prior.require_one_number_per_variable("solver='kernel'")
        super().__init__(linearisation)
        self.columns, self.adjoint = linearisation.columns, linearisation.jacobian.adjoint

    def simplify(self, scaling):
        return self.columns.spread(self.columns.averages(scaling))

    def solver(self, scaling):
        scales = self.columns.averages(scaling)
        if not self.prior.is_zero:
            return lambda damping, residual=None: self._with_prior(damping * scales + self.prior.per_variable, residual)
        kernel = self.linearisation.jacobian.kernel(1 / scales)
        ones = tf.ones_like(kernel[0])
        inverse = self.columns.spread(1 / scales)

        def solve(damping, residual=None):
            residual = self.linearisation.residual if residual is None else residual
            weights, solved = damped_solve(kernel, residual, ones, damping)
            return zeros_unless(solved, -inverse * self.adjoint(weights)), solved

        return solve

    def _with_prior(self, masses, residual):
        """The formula above for M = `masses` `[num_variables]`; with another residual than r, q is zero."""
        inverse, kernel = self.columns.spread(1 / masses), self.linearisation.jacobian.kernel(1 / masses)
        pull = tf.zeros_like(inverse)
        if residual is None:
            pull, residual = self.prior.gradient, self.linearisation.residual
            residual -= self.linearisation.jacobian.matvec(inverse * pull)
        weights, solved = damped_solve(kernel, residual, tf.ones_like(residual), tf.ones([], kernel.dtype))
        return zeros_unless(solved, -inverse * (pull + self.adjoint(weights))), solved

    def effective_parameters(self):
        return of_kernel(self.linearisation.jacobian.kernel(1 / self.prior.per_variable))
