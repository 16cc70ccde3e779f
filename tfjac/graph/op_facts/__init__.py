"""All that the graph layer knows of op types: one module per family, with facts and the rules that they name."""

from tfjac.graph import gradients
from tfjac.graph.op_facts import (
    control_flow,
    convolutions,
    custom_gradients,
    elementwise,
    images,
    indexing,
    joining,
    linear_algebra,
    lists,
    normalisation,
    plumbing,
    pooling,
    products,
    python,
    reductions,
    reshaping,
    scattering,
    segments,
    shapes,
    side_effects,
    slicing,
    sparse,
)

gradients.register_all()

__all__ = [
    "control_flow",
    "convolutions",
    "custom_gradients",
    "elementwise",
    "images",
    "indexing",
    "joining",
    "linear_algebra",
    "lists",
    "normalisation",
    "plumbing",
    "pooling",
    "products",
    "python",
    "reductions",
    "reshaping",
    "scattering",
    "segments",
    "shapes",
    "side_effects",
    "slicing",
    "sparse",
]
