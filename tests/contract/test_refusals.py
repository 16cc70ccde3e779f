"""What is refused is refused by these words, and the page for users is printed from the same table."""

import pathlib

import pytest

from tests.contract.conditions import conditions_of
from tests.contract.refusals import REFUSALS, examples_of, page, refusals_of
from tests.contract.running import run

_EXAMPLES = [(case, refusal) for refusal in REFUSALS for case in examples_of(refusal)]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("case, refusal", [pytest.param(*each, id=str(each[0])) for each in _EXAMPLES])
def test_a_refusal_says_these_words(case, refusal, replicas):
    with pytest.raises((ValueError, TypeError)) as caught:
        replicas.run(case) if case.execution == "replicas" else run(case, conditions_of(case))
    others = [other.words for other in refusals_of(case) if other is not refusal]
    assert any(words in str(caught.value) for words in [refusal.words, *others])
    assert others or refusal.words in str(caught.value)


def test_the_page_is_printed_from_the_table():
    root = pathlib.Path(__file__).parents[2]
    assert (root / "docs" / "combinations.md").read_text() == page(), "python -m tests.contract.refusals prints it"
