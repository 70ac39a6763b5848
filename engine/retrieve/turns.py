"""Whether a question after others is answered as it is typed, or with words of the one before.

A question that may go on with the last one or begin something else is asked both ways. It goes on where the best
document of the longer text has the words of both: as many of the question's own as the best document of the question
alone has, and half of those that were added. Otherwise it is a change of subject, if the question alone finds
something; a word that only the earlier question has is no reason to answer that again.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from functools import partial
from typing import Any, Final, NamedTuple, TypedDict, Unpack

from aidre.engine.model import HighlightLimits
from aidre.engine.retrieve.grouping import Asked, Ranking, find_documents
from aidre.engine.retrieve.repair import is_answered_instead
from aidre.engine.retrieve.steps import Beside, Step

ADDED: Final = 0.5
"""The least share of the words of the earlier question that the best document has."""
_LIMITS: Final = HighlightLimits(spans=1, snippets=0)


class FindOptions(TypedDict):
    """What `find_documents` takes beside a text and where it is asked."""

    bound: float
    keywords: Sequence[str]
    correct: bool
    operators: bool


class Turn(NamedTuple):
    """A question with words of an earlier one: the `text` of both, the question's `own` content words, and those that
    were `added`."""

    text: str
    own: tuple[str, ...]
    added: tuple[str, ...]


def find_in_turn(
    text: str, turn: Turn, questions: Sequence[Asked], **options: Unpack[FindOptions]
) -> Generator[Step, Any, tuple[Ranking, str]]:
    """The documents of a question or of its longer text, found as `find_documents` does, and which text that is."""
    typed = yield from find_documents(text, questions, **options)
    longer = yield from find_documents(turn.text, questions, **options)
    goes_on: bool = yield Beside(None, partial(_goes_on, turn, typed, longer, questions))
    return (longer, turn.text) if goes_on else (typed, text)


def _goes_on(turn: Turn, typed: Ranking, longer: Ranking, questions: Sequence[Asked]) -> bool:
    if not typed.documents or not longer.documents:
        return bool(longer.documents)
    if not all(questions[ranking.documents[0].place][1].reader.can.highlight for ranking in (typed, longer)):
        return is_answered_instead(longer.found, typed.found, needed=1.0)
    own = _words_in(typed, turn.own, questions)
    here = _words_in(longer, turn.own, questions)
    added = _words_in(longer, turn.added, questions)
    return 0 < here >= own and added >= ADDED * len(turn.added)


def _words_in(found: Ranking, words: Sequence[str], questions: Sequence[Asked]) -> int:
    """How many of some words the passages of the best document have."""
    best = found.documents[0]
    reader = questions[best.place][1].reader
    return sum(
        any(marks.text or marks.title or marks.section for marks in reader.highlight(word, best.hits, _LIMITS))
        for word in words
    )
