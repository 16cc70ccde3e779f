"""Gradients in the place of TensorFlow's: custom ones, mended ones, those of groups, and how they are vectorised."""
