"""The kernel J Jᵀ: the solver for more parameters than residuals, such as any large network on a mini-batch."""

from collections.abc import Callable

import keras
import tensorflow as tf

from tfjac.linear.contracts import LinearModel
from tfjac.linear.solvers.base import (
    Cost,
    ProductSystem,
    Solve,
    Solved,
    Solver,
    System,
    least_damping,
    zeros_unless,
)
from tfjac.linear.solvers.effective_parameters import of_kernel
from tfjac.linear.solvers.problem_sizes import ProblemSizes
from tfjac.ops import damped_solve
from tfjac.types import Tensor


@keras.saving.register_keras_serializable("tfjac")
class KernelSolver(Solver):
    """Solves in the space of the residuals, nm × nm, by the push-through identity; J is never formed.

    With M = λD + Λ and g = Jᵀr + q where q = Λ(w−w₀):

        p = −M⁻¹ (q + Jᵀ (I + J M⁻¹ Jᵀ)⁻¹ (r − J M⁻¹ q))

    which is exactly the step of the normal equations. Without regularisers J D⁻¹ Jᵀ serves for every λ; with them the
    kernel is formed for each.

    Cost: n²·i + n²m²·o per layer for the kernel, (nm)³/3 per λ; memory 2(nm)². Where D differs within a variable, as it
    does with `scaling="marquardt"` and `"more"`, n²·i·o + n²m²·o for a layer that is used at one position, and
    n²m²·i·o, with J of the layer in memory, for another.
    """

    name = "kernel"
    solves_again_cheaply = True

    def cost(self, sizes: ProblemSizes) -> Cost:
        """Return the `Cost`: J·Jᵀ once, (nm)³/6 for each λ."""
        memory = sizes.itemsize * (2 * sizes.rows**2 + sizes.formed_by_kernel())
        return Cost(memory, sizes.kernel(), sizes.rows**3 / 6)

    def prepare(self, linearisation: LinearModel) -> System:
        """Take g and diag(JᵀJ); the kernel waits for D."""
        return _Kernel(linearisation)


class _Kernel(ProductSystem):
    def __init__(self, linearisation: LinearModel) -> None:
        linearisation.prior.require_one_number_per_variable("solver='kernel'")
        super().__init__(linearisation)
        self.columns, self.adjoint = linearisation.columns, linearisation.jacobian.adjoint
        self._matvec = linearisation.jacobian.matvec

    def solver(self, scaling: Tensor) -> Solve:
        kernel_of = self._kernel_of(scaling)
        if not self.prior.is_zero:
            return lambda damping, residual=None: self._with_prior(
                damping * scaling + self.prior.precision, kernel_of, residual
            )
        inverse = 1 / scaling
        kernel = kernel_of(inverse)
        ones = tf.ones_like(kernel[0])
        has_more_rows = self.linearisation.num_rows > self.linearisation.num_parameters
        least = tf.where(has_more_rows, least_damping(tf.linalg.diag_part(kernel)), 0.0)

        def solve(damping: Tensor, residual: Tensor | None = None) -> Solved:
            residual = self.linearisation.residual if residual is None else residual
            damping = tf.maximum(damping, least)
            weights, solved = damped_solve(kernel, residual, ones, damping)
            step = -inverse * self.adjoint(weights)
            if has_more_rows is True:  # where that is known while tracing
                step = self._refined(kernel, scaling, damping, step, residual)
            return zeros_unless(solved, step), solved

        return solve

    def _refined(self, kernel: Tensor, scaling: Tensor, damping: Tensor, step: Tensor, residual: Tensor) -> Tensor:
        """Return a step with what it leaves of the normal equations solved for once more.

        The residuals that no step reaches, of which there are some beside more rows than parameters, are as large as
        1/λ in the weights, and leave their rounding in the step.
        """
        left = -self.adjoint(residual + self._matvec(step)) - damping * scaling * step
        inverse = 1 / scaling
        weights, solved = damped_solve(kernel, self._matvec(inverse * left), tf.ones_like(residual), damping)
        return step + zeros_unless(solved, inverse * (left - self.adjoint(weights)) / damping)

    def _kernel_of(self, scaling: Tensor) -> Callable:
        """Return the function from M⁻¹ `[p]` to J M⁻¹ Jᵀ: a cheaper one where D is seen to be that of no parameter."""
        if is_one_number(scaling):
            return lambda weights: self.linearisation.jacobian.kernel(self.columns.firsts(weights))
        return self.linearisation.jacobian.weighted_kernel

    def _with_prior(self, mass: Tensor, kernel_of: Callable, residual: Tensor) -> Solved:
        """The formula above for M = `mass` `[p]`; with another residual than r, q is zero."""
        inverse, kernel = 1 / mass, kernel_of(1 / mass)
        pull = tf.zeros_like(inverse)
        if residual is None:
            pull, residual = self.prior.gradient, self.linearisation.residual
            residual -= self.linearisation.jacobian.matvec(inverse * pull)
        weights, solved = damped_solve(kernel, residual, tf.ones_like(residual), tf.ones([], kernel.dtype))
        return zeros_unless(solved, -inverse * (pull + self.adjoint(weights))), solved

    def effective_parameters(self) -> Tensor:
        return of_kernel(self.linearisation.jacobian.kernel(self.columns.firsts(1 / self.prior.precision)))


def is_one_number(scaling: Tensor) -> bool:
    """Whether the graph says that all elements of D `[p]` are the same number, as those of `IdentityScaling` are."""
    value = tf.get_static_value(scaling, partial=False)
    return value is not None and value.size > 0 and bool((value == value[0]).all())
