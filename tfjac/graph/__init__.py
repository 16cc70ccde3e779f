"""Reading a TensorFlow graph: what depends on what, which axis carries the examples, and replaying parts of it."""

from ._private import constant_value, copy_op
from .copying import inline_calls, replay
from .example_axis import SHARED, ExampleAnalysis, ExampleAxis, ExamplesMix, analyse_examples, differentiable_path
from .example_rules import einsum_labels
from .targets import in_graph
from .traversal import ancestors, between, references
from .variables import as_tf_variable, handle_in

__all__ = [
    "SHARED",
    "ExampleAnalysis",
    "ExampleAxis",
    "ExamplesMix",
    "analyse_examples",
    "ancestors",
    "as_tf_variable",
    "between",
    "constant_value",
    "copy_op",
    "differentiable_path",
    "einsum_labels",
    "handle_in",
    "in_graph",
    "inline_calls",
    "references",
    "replay",
]
