"""Examples that are groups of rows, as the graphs of a batch are for a graph neural network."""

from tfjac.jacobians.segments.per_segment import per_segment_gradients, per_segment_jacobian, segment_operator

__all__ = ["per_segment_gradients", "per_segment_jacobian", "segment_operator"]
