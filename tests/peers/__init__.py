"""Test suites of other packages, run as they are installed, with a comparison of tfjac in their middle.

A file in which nothing was compared must not pass: the peer or the adapter may have changed.
"""

import collections


def hold_comparisons(outcomes, record_property):
    """Record how often each outcome came, and hold that one which begins with "compared" did."""
    counts = collections.Counter(outcomes)
    record_property("outcomes", dict(counts))
    assert any(each.startswith("compared") for each in counts), f"No case was compared. Outcomes: {dict(counts)}"
