"""Jacobians in graph mode: factors, the rules that find them, and what users ask of them."""

from tfjac.graph import ExamplesMix
from tfjac.jacobians.batch import batch_jacobian
from tfjac.jacobians.chaining import chain
from tfjac.jacobians.curvature import ggnvp, hvp
from tfjac.jacobians.full import jacobian
from tfjac.jacobians.norms import clipped_gradients, per_example_gradient_norms, scaled_gradients, weighted_gradients
from tfjac.jacobians.operator import jacobian_operator
from tfjac.jacobians.per_example import per_example_gradients, per_example_jacobian
from tfjac.jacobians.per_segment import per_segment_gradients, per_segment_jacobian, segment_operator
from tfjac.jacobians.sparsity import SparsityPattern, sparse_jacobian, sparsity
from tfjac.jacobians.vector_products import jvp, vjp
from tfjac.linear.operator import JacobianOperator
