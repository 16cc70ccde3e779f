"""The optimizer for `model.compile`, `fit`, and callbacks."""
