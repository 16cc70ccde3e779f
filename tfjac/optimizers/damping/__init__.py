"""Dampings: how λ is chosen, lowered after success and raised after failure."""

from tfjac.arguments import resolve
from tfjac.optimizers.damping.base import Damping, Proposal, Verdict
from tfjac.optimizers.damping.competition import Competition
from tfjac.optimizers.damping.multiplicative import MultiplicativeDamping
from tfjac.optimizers.damping.nielsen import NielsenDamping
from tfjac.optimizers.damping.radius import RadiusDamping
from tfjac.optimizers.damping.trust_region import TrustRegionDamping

__all__ = [
    "Competition",
    "Damping",
    "MultiplicativeDamping",
    "NielsenDamping",
    "Proposal",
    "RadiusDamping",
    "TrustRegionDamping",
    "Verdict",
    "get_damping",
]

DAMPINGS = {
    "radius": RadiusDamping,
    "trust_region": TrustRegionDamping,
    "nielsen": NielsenDamping,
    "multiplicative": MultiplicativeDamping,
}


def get_damping(damping):
    """Return the `Damping` of that name (`"radius"`, `"nielsen"`, …), or the object itself."""
    return resolve("damping", damping, DAMPINGS)
