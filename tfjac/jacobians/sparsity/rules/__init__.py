"""One rule per op type: the index sets of the outputs, given those of the inputs."""

from tfjac.jacobians.sparsity.rules import algebra, convolution, elementwise, moves, products, reductions, segments
from tfjac.jacobians.sparsity.rules.registry import NoRule, Step, all_of_all, index_sets_of

__all__ = [
    "NoRule",
    "Step",
    "algebra",
    "all_of_all",
    "convolution",
    "elementwise",
    "index_sets_of",
    "moves",
    "products",
    "reductions",
    "segments",
]
