"""Dampings: how λ is chosen, lowered after success and raised after failure."""

from tfjac.arguments import resolve
from tfjac.optimizers.damping.base import Damping, Proposal, Verdict
from tfjac.optimizers.damping.multiplicative import MultiplicativeDamping
from tfjac.optimizers.damping.nielsen import NielsenDamping
from tfjac.optimizers.damping.trust_region import TrustRegionDamping

__all__ = [
    "Damping",
    "MultiplicativeDamping",
    "NielsenDamping",
    "Proposal",
    "TrustRegionDamping",
    "Verdict",
    "get_damping",
]

DAMPINGS = {"nielsen": NielsenDamping, "multiplicative": MultiplicativeDamping, "trust_region": TrustRegionDamping}


def get_damping(damping):
    """Return the `Damping` named `"nielsen"`, `"multiplicative"` or `"trust_region"`, or the object itself."""
    return resolve("damping", damping, DAMPINGS)
