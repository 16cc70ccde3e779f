"""Combinations that do not do what they should: each is expected to fail, strictly, until it is mended."""

FINDINGS = [
    (
        {"solver": "kernel", "scaling": ("marquardt", "more"), "condition": ("none", "fixed", "prior", "manifold")},
        "solver='kernel' averages D over each variable, and takes other steps than 'cholesky'",
    ),
]
"""Pairs of values of axes and what is wrong."""


def reason_of(case):
    """Return why a case is expected to fail; None where it is not."""
    return next((reason for values, reason in FINDINGS if case.has(**values)), None)
