"""Explanations of what a model computes for an example, each in one call: which inputs a score comes from."""

from tfjac.explanations.attention import attention_rollout
from tfjac.explanations.by_gradients import guided_backprop, integrated_gradients, smooth_grad
from tfjac.explanations.concepts import ConceptSensitivity, tcav
from tfjac.explanations.deep_lift import deep_lift
from tfjac.explanations.explanation import Explanation
from tfjac.explanations.grad_cam import grad_cam
from tfjac.explanations.gradient_shap import gradient_shap
from tfjac.explanations.lrp import lrp

__all__ = [
    "ConceptSensitivity",
    "Explanation",
    "attention_rollout",
    "deep_lift",
    "grad_cam",
    "gradient_shap",
    "guided_backprop",
    "integrated_gradients",
    "lrp",
    "smooth_grad",
    "tcav",
]
