import pytest

from tests.peers import hold_comparisons


def test_a_file_without_a_compared_case_fails(record_property):
    hold_comparisons(["random", "compared"], record_property)
    for outcomes in ([], ["random", "no kernel in float64"]):
        with pytest.raises(AssertionError, match="No case was compared"):
            hold_comparisons(outcomes, record_property)
