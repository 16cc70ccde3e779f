"""Callbacks for Keras' `fit`."""

from tfjac.interception import GradientSummaries
from tfjac.keras.callbacks import Convergence, StepMonitor

__all__ = ["Convergence", "GradientSummaries", "StepMonitor"]
