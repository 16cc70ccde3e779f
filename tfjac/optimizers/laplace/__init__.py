"""The Laplace approximation: how sure a trained network is, from the curvature of its loss."""

from tfjac.optimizers.laplace.laplace import laplace
from tfjac.optimizers.laplace.posterior import LaplacePosterior, Prediction

__all__ = ["LaplacePosterior", "Prediction", "laplace"]
