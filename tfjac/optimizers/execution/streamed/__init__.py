"""Data larger than memory: what batches add up to, and steps from it."""
