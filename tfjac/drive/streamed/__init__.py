"""Batches that stream by, and what is remembered of them."""
