"""Jacobians in graph mode: factors, the rules that find them, and what users ask of them."""

from tfjac.graph import ExamplesMix
from tfjac.jacobians.operator import JacobianOperator, jacobian_operator
from tfjac.jacobians.per_example import per_example_gradients, per_example_jacobian

__all__ = ["ExamplesMix", "JacobianOperator", "jacobian_operator", "per_example_gradients", "per_example_jacobian"]
