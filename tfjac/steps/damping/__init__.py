"""Dampings: how λ is chosen, lowered after success and raised after failure."""

from tfjac.arguments import positive, resolve
from tfjac.steps.damping.base import Damping, Proposal, Verdict
from tfjac.steps.damping.competition import Competition
from tfjac.steps.damping.multiplicative import MultiplicativeDamping
from tfjac.steps.damping.nielsen import NielsenDamping
from tfjac.steps.damping.radius import RadiusDamping
from tfjac.steps.damping.trust_region import TrustRegionDamping

INITIAL_DAMPING_ELSEWHERE = dict.fromkeys(
    ("lam", "lamb", "lambda", "lambda_", "lambda0", "initial_lambda", "mu", "mu0", "mu_init", "tau", "damping_factor"),
    "initial_damping",
)
"""What others call the first damping."""

DAMPINGS = {
    "radius": RadiusDamping,
    "trust_region": TrustRegionDamping,
    "nielsen": NielsenDamping,
    "multiplicative": MultiplicativeDamping,
}


def get_damping(damping: object, initial: float | None = None) -> Damping:
    """Return the `Damping` of that name (`"radius"`, `"nielsen"`, …), or the object itself.

    Args:
        damping: a name, or a `Damping`.
        initial: the first λ as a multiple of the curvature κ, for those that begin with a λ; None for their own.

    Raises:
        ValueError: for an unknown name, or an `initial` that does not go with it.
        TypeError: for anything else.
    """
    if isinstance(damping, (bool, int, float)):
        raise TypeError(
            f"damping is the rule by which λ changes: {', '.join(map(repr, DAMPINGS))}, or an "
            "object of that kind. A number is the first λ: initial_damping=…; there is no learning rate. "
            f"Received: damping={damping!r} of type {type(damping).__name__}"
        )
    found = resolve("damping", damping, DAMPINGS)
    if initial is None:
        return found
    if not isinstance(damping, str):
        raise ValueError(
            f"An object has its own first λ: leave initial_damping out, and write {type(damping).__name__}(initial=…) "
            f"if it takes that. Received: initial_damping={initial!r} and damping={damping!r}"
        )
    if not hasattr(found, "initial"):
        raise ValueError(
            f"damping={damping!r} begins with a radius, not with a λ: use damping='radius' or 'nielsen' with "
            f"initial_damping, or TrustRegionDamping(factor=…). Received: initial_damping={initial!r}"
        )
    return type(found)(initial=positive("initial_damping", initial))
