"""The Laplace approximation: how sure a trained network is, from the curvature of its loss."""

from tfjac.laplace.laplace import laplace
from tfjac.laplace.posterior import LaplacePosterior, Prediction
