"""Many independent fits at once: each with its own damping, bounds and status, all in the same tensors."""

from tfjac.optimizers.batched.batched_least_squares import batched_least_squares

__all__ = ["batched_least_squares"]
