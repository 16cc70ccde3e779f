"""Combinations that do not do what they should: each is expected to fail, strictly, until it is mended."""

from tests.contract.axes import AXES, Case


def _without(axis, *values):
    return tuple(value for value in AXES[axis] if value not in values)


FINDINGS = [
    (
        {
            "problem": "wide",
            "damping": "trust_region",
            "solver": ("cholesky", "cg", "lsmr"),
            "condition": _without("condition", "prior", "fixed"),  # of what is free, J sees all
        },
        "the Gauss-Newton step of a singular system has a component, of any length, that J does not see",
    ),
    (
        {
            "problem": "wide",
            "damping": "trust_region",
            "execution": "summed_batches",
            "condition": "none",
            "loss": "squares",
        },
        "the Gauss-Newton step of a singular system has a component, of any length, that J does not see",
    ),
    (
        {
            "problem": "wide",
            "solver": "cg",
            "scaling": ("marquardt", "auto"),
            "loss": "convex",
            "condition": ("none", "bounds"),
        },
        "conjugate gradients with Kronecker factors end, whatever the tolerance, far from the step where D is tiny",
    ),
]
"""Pairs of values of axes and what is wrong."""

EXAMPLES = (Case("wide", "cg", "nielsen", "marquardt", "none", "convex", "none", "fit", "open", "float64"),)
"""Of what no case of the suite meets."""


def reason_of(case):
    """Return why a case is expected to fail; None where it is not."""
    return next((reason for values, reason in FINDINGS if case.has(**values)), None)
