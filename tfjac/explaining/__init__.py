"""Explaining where gradients flow, and where they are lost."""

from tfjac.explaining.explain import explain_gradient
from tfjac.explaining.report import GradientPath, GradientReport, NodeGradient, Stop
