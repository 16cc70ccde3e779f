"""All that the graph layer knows of op types: one module per family, with facts and the rules that they name."""

from tfjac.graph.gradients import mending
from tfjac.graph.op_facts import (
    control_flow,
    convolution,
    custom_gradients,
    elementwise,
    encoding,
    indexing,
    joining,
    layers,
    linear_algebra,
    lists,
    plumbing,
    pooling,
    products,
    python,
    reductions,
    reshaping,
    resizing,
    scattering,
    segments,
    sizes,
    slicing,
    sparse,
)

mending.register_all()
