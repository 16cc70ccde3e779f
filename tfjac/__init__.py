"""tfjac: Jacobians in graph mode, and Levenberg–Marquardt, for TensorFlow and Keras models."""

from tfjac.black_box import External, MeasurementFailed, estimators, external
from tfjac.explaining import GradientReport, explain_gradient
from tfjac.flops import FlopCount, count_flops
from tfjac.jacobians import (
    ExamplesMix,
    JacobianOperator,
    SparsityPattern,
    batch_jacobian,
    chain,
    clipped_gradients,
    ggnvp,
    hvp,
    jacobian,
    jacobian_operator,
    jvp,
    per_example_gradient_norms,
    per_example_gradients,
    per_example_jacobian,
    per_segment_gradients,
    per_segment_jacobian,
    segment_operator,
    sparse_jacobian,
    sparsity,
    vjp,
    weighted_gradients,
)
from tfjac.ops import load_ops, ops_info
from tfjac.optimizers import LeastSquaresProblem, LeastSquaresResult, LevenbergMarquardt, Status, least_squares

__version__ = "0.1.0"

__all__ = [
    "ExamplesMix",
    "External",
    "FlopCount",
    "GradientReport",
    "JacobianOperator",
    "LeastSquaresProblem",
    "LeastSquaresResult",
    "LevenbergMarquardt",
    "MeasurementFailed",
    "SparsityPattern",
    "Status",
    "batch_jacobian",
    "chain",
    "clipped_gradients",
    "count_flops",
    "estimators",
    "explain_gradient",
    "external",
    "ggnvp",
    "hvp",
    "jacobian",
    "jacobian_operator",
    "jvp",
    "least_squares",
    "load_ops",
    "ops_info",
    "per_example_gradient_norms",
    "per_example_gradients",
    "per_example_jacobian",
    "per_segment_gradients",
    "per_segment_jacobian",
    "segment_operator",
    "sparse_jacobian",
    "sparsity",
    "vjp",
    "weighted_gradients",
]
