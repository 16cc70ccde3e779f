"""tfjac: Jacobians in graph mode, gradient interception and Levenberg–Marquardt for TensorFlow and Keras models."""

from tfjac.jacobians import (
    ExamplesMix,
    JacobianOperator,
    jacobian_operator,
    per_example_gradients,
    per_example_jacobian,
)
from tfjac.ops import load_ops, ops_info

__all__ = [
    "ExamplesMix",
    "JacobianOperator",
    "jacobian_operator",
    "load_ops",
    "ops_info",
    "per_example_gradients",
    "per_example_jacobian",
]
