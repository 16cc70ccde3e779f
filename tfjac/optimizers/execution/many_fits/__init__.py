"""Many independent fits at once: each with its own damping, bounds and status, all in the same tensors."""
