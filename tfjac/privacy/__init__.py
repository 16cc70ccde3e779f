"""Differentially private training of Keras models: clipping by example, noise, sampling and accounting."""

from tfjac.privacy.accounting import PrivacyReport, epsilon, noise_for, report
from tfjac.privacy.budget import PrivacyBudget
from tfjac.privacy.clipping import AdaptiveClipping, AutomaticClipping, FixedClipping, PerLayerClipping
from tfjac.privacy.example_losses import NotApart
from tfjac.privacy.optimizer import DPOptimizer
from tfjac.privacy.sampling import batches_per_step, poisson_batches

__all__ = [
    "AdaptiveClipping",
    "AutomaticClipping",
    "DPOptimizer",
    "FixedClipping",
    "NotApart",
    "PerLayerClipping",
    "PrivacyBudget",
    "PrivacyReport",
    "batches_per_step",
    "epsilon",
    "noise_for",
    "poisson_batches",
    "report",
]
