"""When a repaired question is answered in place of the one as typed."""

from __future__ import annotations

from math import inf

import pytest

from aidre.engine.retrieve.relevance import QuestionRelevance
from aidre.engine.retrieve.repair import CLEARLY_MORE, is_answered_instead, needed_more


@pytest.mark.parametrize(
    ("repaired", "typed", "is_answered"),
    [
        (QuestionRelevance(True, 0.6), QuestionRelevance(False, 0.0), True),  # as typed it finds nothing
        (QuestionRelevance(True, 0.6), QuestionRelevance(False, 0.5), True),  # or nothing relevant
        (QuestionRelevance(False, 0.6), QuestionRelevance(False, 0.0), False),  # neither does
        (QuestionRelevance(False, 0.6), QuestionRelevance(True, 0.1), False),
        (QuestionRelevance(True, 0.5 * CLEARLY_MORE), QuestionRelevance(True, 0.5), False),
        (QuestionRelevance(True, 0.5 * CLEARLY_MORE + 0.001), QuestionRelevance(True, 0.5), True),
        (QuestionRelevance(True, 0.9), QuestionRelevance(True, 0.0), False),  # shares without a bound say nothing
        (QuestionRelevance(True, 0.0), QuestionRelevance(True, 0.0), False),
    ],
)
def test_the_repaired_question_must_find_clearly_more(
    repaired: QuestionRelevance, typed: QuestionRelevance, is_answered: bool
) -> None:
    assert is_answered_instead(repaired, typed, needed=CLEARLY_MORE) is is_answered
    assert is_answered_instead(repaired, typed, needed=inf) is (is_answered and not typed.is_relevant)


def test_the_same_letters_need_not_find_more() -> None:
    assert is_answered_instead(QuestionRelevance(True, 0.5), QuestionRelevance(True, 0.5), needed=1 / CLEARLY_MORE)
    assert not is_answered_instead(QuestionRelevance(True, 0.4), QuestionRelevance(True, 0.5), needed=1 / CLEARLY_MORE)


@pytest.mark.parametrize(
    ("typed", "repaired", "needed"),
    [
        ("Retreival of wombats", "Retrieval of wombats", CLEARLY_MORE),
        ("septicemia", "septicemic", inf),  # another ending
        ("Californian wine", "California wine", inf),
        ("scapula", "scapular", inf),
        ("colonial", "colonies", inf),  # another ending of two letters
        ("retrievla", "retrieval", CLEARLY_MORE),  # swapped letters
        ("retrievl", "retrieval", CLEARLY_MORE),
        ("xqzj", "xqzk", CLEARLY_MORE),  # too short to be forms of one word
        ("the superset", "the supernet", inf),  # two words in one
        ("the superset retreival", "the supernet retrieval", CLEARLY_MORE),
        ("\uff54\uff48\uff45 superset", "the supernet", inf),  # NFKC
        ("the note book", "the notebook", 1 / CLEARLY_MORE),
        ("the superset", "the super set", CLEARLY_MORE),
        ("ofthe note book", "of the notebook", 1 / CLEARLY_MORE),
        ("dergarten und das", "der garten und das", 1 / CLEARLY_MORE),
        ("dieback", "die back", CLEARLY_MORE),
        ("ofthe retreival", "of the retrieval", CLEARLY_MORE),
        ("note book scapula", "notebook scapular", CLEARLY_MORE),
        ("the same", "the same", inf),
    ],
)
def test_a_word_that_may_be_meant_is_not_replaced(typed: str, repaired: str, needed: float) -> None:
    assert needed_more(typed, repaired) == needed
