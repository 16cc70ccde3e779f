"""Samples of every op with a gradient that public TensorFlow reaches."""

from tests.sweep.samples import (  # noqa: F401 (each fills the table)
    control_flow,
    elementwise,
    images,
    indexing,
    layers,
    linear_algebra,
    moves,
    reductions,
    sparse,
)
from tests.sweep.samples.table import SAMPLES, Sample

__all__ = ["SAMPLES", "Sample"]
