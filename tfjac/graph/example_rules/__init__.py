"""One small rule per op type: which axis of each input carries the examples, given that of the output."""

from tfjac.graph.example_rules import control_flow, elementwise, layers, moves, products
from tfjac.graph.example_rules.products import einsum_labels
from tfjac.graph.example_rules.registry import SHARED, ExampleAxis, NoRule, input_axes

__all__ = [
    "SHARED",
    "ExampleAxis",
    "NoRule",
    "control_flow",
    "einsum_labels",
    "elementwise",
    "input_axes",
    "layers",
    "moves",
    "products",
]
