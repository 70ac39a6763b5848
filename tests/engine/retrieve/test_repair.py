"""When a repaired question is answered in place of the one as typed."""

from __future__ import annotations

import pytest

from aidre.engine.retrieve.relevance import Finding
from aidre.engine.retrieve.repair import CLEARLY_MORE, is_answered_instead, is_surely_error


@pytest.mark.parametrize(
    ("repaired", "typed", "is_answered"),
    [
        (Finding(True, 0.6), Finding(False, 0.0), True),  # as typed it finds nothing
        (Finding(True, 0.6), Finding(False, 0.5), True),  # or nothing relevant
        (Finding(False, 0.6), Finding(False, 0.0), False),  # neither does
        (Finding(False, 0.6), Finding(True, 0.1), False),
        (Finding(True, 0.5 * CLEARLY_MORE), Finding(True, 0.5), False),
        (Finding(True, 0.5 * CLEARLY_MORE + 0.001), Finding(True, 0.5), True),
        (Finding(True, 0.9), Finding(True, 0.0), False),  # shares without a bound say nothing
        (Finding(True, 0.0), Finding(True, 0.0), False),
    ],
)
def test_the_repaired_question_must_find_clearly_more(repaired: Finding, typed: Finding, is_answered: bool) -> None:
    assert is_answered_instead(repaired, typed, is_sure=True) is is_answered
    assert is_answered_instead(repaired, typed, is_sure=False) is (is_answered and not typed.is_relevant)


@pytest.mark.parametrize(
    ("typed", "repaired", "is_sure"),
    [
        ("Retreival of wombats", "Retrieval of wombats", True),
        ("septicemia", "septicemic", False),  # another ending
        ("Californian wine", "California wine", False),
        ("scapula", "scapular", False),
        ("xqzj", "xqzk", True),  # too short to be forms of one word
        ("the superset", "the supernet", False),  # two words in one
        ("the superset retreival", "the supernet retrieval", True),
        ("\uff54\uff48\uff45 superset", "the supernet", False),  # NFKC
        ("one two", "one", False),
        ("", "", False),
    ],
)
def test_a_word_that_may_be_meant_is_no_sure_error(typed: str, repaired: str, is_sure: bool) -> None:
    assert is_surely_error(typed, repaired) is is_sure
