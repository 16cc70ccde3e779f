"""Right gradients for ops whose own in TensorFlow are wrong, or the refusal to take any."""

from tfjac.graph.gradients import (  # noqa: F401 (each fills the table)
    adjoints,
    functions,
    moments,
    python_functions,
    reductions,
    writes,
)
from tfjac.graph.gradients.registry import gradient, mend

__all__ = ["gradient", "mend"]
