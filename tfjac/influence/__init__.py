"""Influence: what a training example does to a trained network, without training again."""

from tfjac.influence.by_curvature import CurvatureInfluence
from tfjac.influence.influence import influence
from tfjac.influence.tracin import TracInInfluence
