"""Derivatives of a minimum with respect to what its residuals are computed from.

At a minimum x of F(x, θ) = ½‖r(x, θ)‖² the gradient g = ∂F/∂x is zero, and stays so as θ changes:

    H dx + (∂g/∂θ) dθ = 0    with H = ∂g/∂x = JᵀJ + Σ rₖ ∇²rₖ

so that a cotangent u of x is −(∂g/∂θ)ᵀ H⁻¹ u of θ. H is the exact one: with JᵀJ alone the derivatives would be wrong
wherever residuals are left. With robust losses F and H are those of the losses; parameters that a bound holds stay
where they are, and x stays in the plane of equations between them. The cost has ∂F/∂θ; that x moves with θ changes
nothing there.
Reference: M. Blondel et al., "Efficient and modular implicit differentiation", 2022, section 2.
"""

from typing import Any

import tensorflow as tf

from tfjac.drive.options import Settings
from tfjac.jacobians import jacobian
from tfjac.linear.columns import Columns
from tfjac.objective.residuals import cost_of
from tfjac.objective.robust import losses_of
from tfjac.objective.tracing.traced_residuals import TracedResiduals
from tfjac.steps.records import Outcome
from tfjac.types import Tensor, Variable


def differentiable(
    outcome: Outcome,
    residuals: TracedResiduals,
    variables: list[Variable],
    data: list[Tensor],
    invariants: Any,
    settings: Settings,
) -> Outcome:
    """Return an `Outcome` whose `x` and `cost` have derivatives, of any order, in the graph being traced.

    They are NaN where H is not positive definite, as at no minimum, or one of many. Derivatives cost nothing unless
    they are taken; then, H, by p backward passes of g, and its Cholesky factor.

    Args:
        outcome: an `Outcome` whose `x` is a list.
        variables: list of the variables that were minimised over.
        data: list of tensors like `residuals.specs`.
        invariants: `Invariants`.
    """
    minimum = _Minimum(residuals, variables, data, invariants, settings)
    found = tf.nest.map_structure(tf.stop_gradient, outcome.in_units(minimum.unit))
    point = minimum.columns.flatten(found.x)
    return found._replace(x=minimum.columns.split(minimum.point(point)), cost=minimum.cost(found.cost, point))


def without_derivatives(outcome: Outcome, how: str, given: Any) -> Outcome:
    """Return an `Outcome` through which no gradient goes: where one is asked for, that is an error.

    Args:
        outcome: an `Outcome`, computed where no tape recorded.
        how: of what minimisations that is so, for the message, such as "with batch_dims=1".
        given: list of the tensors that it was computed from.
    """
    given = [tensor for tensor in given if tensor.dtype.is_floating]

    @tf.custom_gradient
    def opaque(tensor: Tensor, *given: Any) -> tuple:
        def gradient(*_: Any) -> None:
            raise ValueError(
                f"What least_squares finds {how} has no derivatives: stop them with tf.stop_gradient, or leave that "
                "out. Received: a gradient through it"
            )

        return tf.identity(tensor), gradient

    return tf.nest.map_structure(lambda tensor: opaque(tensor, *given), outcome)


class _Minimum:
    """A minimum x and its cost as functions of θ, all tensors that the residuals are computed from but x."""

    def __init__(
        self,
        residuals: TracedResiduals,
        variables: list[Variable],
        data: list[Tensor],
        invariants: Any,
        settings: Settings,
    ) -> None:
        self.columns, self.unit = Columns(variables), tf.stop_gradient(invariants.unit)
        self._residuals, self._drawn, self._box = residuals, invariants.drawn, invariants.conditions.box
        self._equality, prior = invariants.conditions.equality, invariants.conditions.prior
        self._prior = prior and prior.in_units(self.unit)
        self._losses = losses_of(settings.losses, residuals.num_tensors)
        self._given = [*data, *residuals.read_traced()]
        self._parameters = [tensor for tensor in self._given if tensor.dtype.is_floating]
        self._traced_adjoint = tf.function(self._adjoint, autograph=False)
        self._traced_slope = tf.function(self._slope, autograph=False)

    def point(self, value: Tensor, parameters: tuple | None = None) -> Tensor:
        """Return x, which is `value`, as a function of θ."""

        @tf.custom_gradient
        def x_of(*parameters: Any) -> tuple:
            def backward(upstream: Tensor) -> Any:
                x = self.point(value, parameters)  # with derivatives of its own, for second ones
                return self._traced_adjoint(x, upstream, *parameters)

            return tf.identity(value), backward

        return x_of(*(self._parameters if parameters is None else parameters))

    def cost(self, value: Tensor, point: Tensor) -> Tensor:
        """Return F, which is `value`, as a function of θ."""

        @tf.custom_gradient
        def cost_of(*parameters: Any) -> tuple:
            def backward(upstream: Tensor) -> Any:
                return self._traced_slope(self.point(point, parameters), upstream, *parameters)

            return tf.identity(value), backward

        return cost_of(*self._parameters)

    def _adjoint(self, x: Tensor, upstream: Tensor, *parameters: Any) -> list[Tensor]:
        """Return −(∂g/∂θ)ᵀ H⁻¹ u for each θ."""
        gradient = tf.convert_to_tensor(tf.gradients(self._cost_at(x, parameters), x)[0])
        hessian = jacobian(gradient, x, mode="reverse")
        if self._box:  # what is held by a bound does not move with θ, and the rest moves as if it were not there
            free = self._box.free(x, gradient)
            upstream = tf.where(free, upstream, tf.zeros_like(upstream))
            hessian = tf.where(free[:, None] & free, hessian, tf.eye(self.columns.total, dtype=x.dtype))
        if self._equality:
            normals = self._equality.normals
            across = tf.matmul(normals, normals, transpose_a=True)
            along = tf.eye(self.columns.total, dtype=x.dtype) - across
            upstream, hessian = tf.linalg.matvec(along, upstream), along @ hessian @ along + across
        factor = tf.linalg.cholesky(hessian)
        step = -tf.linalg.cholesky_solve(factor, upstream[:, None])[:, 0]
        return tf.gradients(gradient, parameters, grad_ys=step, unconnected_gradients="zero")

    def _slope(self, x: Tensor, upstream: Tensor, *parameters: Any) -> list[Tensor]:
        """Return u·∂F/∂θ for each θ."""
        cost, upstream = self._cost_at(x, parameters), upstream * self.unit**2
        return tf.gradients(cost, parameters, grad_ys=upstream, unconnected_gradients="zero")

    def _cost_at(self, x: Tensor, parameters: Any) -> Tensor:
        """Return F at x `[p]` and θ, with r measured in the unit."""
        floating = iter(parameters)
        given = [next(floating) if tensor.dtype.is_floating else tensor for tensor in self._given]
        count = len(self._residuals.specs)
        data, values = given[:count], given[count:]
        for position, part in zip(self._residuals.positions, self.columns.split(x)):
            if position is not None:
                values[position] = part
        tensors = self._residuals.place_at(data, self._drawn, values)
        tensors = [tf.cast(tensor, x.dtype) / self.unit for tensor in tensors]
        return cost_of(tensors, self._losses, self.unit, self._prior, x)
