"""One small rule per op type: which axis of each input carries the examples, given that of the output."""

from tfjac.graph.example_rules import (
    control_flow,
    custom_gradients,
    elementwise,
    indexing,
    layers,
    linear_algebra,
    moves,
    products,
    python,
)
from tfjac.graph.example_rules.custom_gradients import explain_mixing
from tfjac.graph.example_rules.products import einsum_labels
from tfjac.graph.example_rules.python import declare_per_example
from tfjac.graph.example_rules.registry import SHARED, ExampleAxis, NoRule, input_axes, own_input_axes

__all__ = [
    "SHARED",
    "ExampleAxis",
    "NoRule",
    "control_flow",
    "custom_gradients",
    "declare_per_example",
    "einsum_labels",
    "elementwise",
    "explain_mixing",
    "indexing",
    "input_axes",
    "layers",
    "linear_algebra",
    "moves",
    "own_input_axes",
    "products",
    "python",
]
