"""Searches that forgive typing errors: a question with words that its collection lacks is also asked repaired.

The repaired question is answered instead only where the one as typed finds nothing relevant, or where a word of it is
surely no word and its best hit has less than 1 / CLEARLY_MORE of the share that the best hit of the repaired one has:
so much less is what a typing error costs, not what another word finds. In every other case the repaired text is a
suggestion. A question all of whose words the collection has is never searched twice.

CLEARLY_MORE was chosen on the nine test collections of `relevance.py`, from a wrong letter in a third of the words of
their queries. `python -m benchmarks.bench_typos` measures what it gives back, and prints the queries without an error
whose results change: a set has some that are misspelled in it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Final, NamedTuple

from aidre.api.access import Caller
from aidre.api.config import Protocol
from aidre.api.http import BadRequest, Overloaded
from aidre.api.retrieval.question import Question
from aidre.api.retrieval.relevance import RELEVANT, RelevanceScale, relevance_scale, to_share
from aidre.api.retrieval.retrieve import Answer, Retrieval
from aidre.api.retrieval.visibility import VisibleCollection
from aidre.engine.backend import Hit
from aidre.engine.embedding import default_vocabulary
from aidre.engine.errors import ModelUnavailable
from aidre.engine.index.text import normalize

CLEARLY_MORE: Final = 1.11
_MIN_STEM: Final = 5
"""Letters that two words share if they may be forms of one."""
_WORD: Final = re.compile(r"[^\W\d_]+")


class Found(NamedTuple):
    """The answer to a question, and its relevance scale (None for a vector).

    `corrected` is the text that was answered in place of the one as typed; `suggestion` one that finds something, too.
    """

    answer: Answer
    scale: RelevanceScale | None
    corrected: str | None = None
    suggestion: str | None = None


class Finding(NamedTuple):
    """How well a question does: whether anything relevant was found, and the share of its best hit; 0 if shares of the
    collection have no bound, and so cannot be compared."""

    is_relevant: bool
    share: float


def finding(hits: Sequence[Hit], scale: RelevanceScale) -> Finding:
    """Of the hits of the first page, best first."""
    if not hits:
        return Finding(False, 0.0)
    best = hits[0].score
    share = to_share(best, scale.mode, scale.space) if scale.bound > 0 else 0.0
    return Finding(scale.relevances([best])[0] >= RELEVANT, share)


def is_answered_instead(repaired: Finding, typed: Finding, *, is_sure: bool) -> bool:
    """Whether the repaired question is answered in place of the one as typed; for `is_sure` see `is_surely_error`."""
    if not repaired.is_relevant:
        return False
    return not typed.is_relevant or (is_sure and repaired.share > typed.share * CLEARLY_MORE > 0)


def is_surely_error(typed: str, repaired: str) -> bool:
    """Whether a word that was repaired cannot be meant: it is not two words in one, nor another form of the repair."""
    words, repairs = (_WORD.findall(text.lower()) for text in (normalize(typed), repaired))
    if len(words) != len(repairs):
        return False
    pairs = zip(words, repairs, strict=True)
    return any(word != repair and not (_is_form(word, repair) or _is_compound(word)) for word, repair in pairs)


def _is_form(word: str, repair: str) -> bool:
    """Whether two words differ in their last letter alone, as forms of one word may."""
    return len(word) > _MIN_STEM and (word[:-1] in {repair, repair[:-1]} or repair[:-1] == word)


def _is_compound(word: str) -> bool:
    """Whether a word is two English ones, such as superset and unread, of at least two letters each."""
    vocabulary = default_vocabulary()
    return any(word[:end] in vocabulary and word[end:] in vocabulary for end in range(2, len(word) - 1))


def repaired_text(collection: VisibleCollection, text: str) -> str | None:
    """The text without its typing errors; None where it has none, or the collection may tell no words."""
    return collection.snapshot.corrected(text) if collection.tells_words else None


async def search_corrected(
    retrieval: Retrieval,
    collection: VisibleCollection,
    question: Question,
    caller: Caller,
    protocol: Protocol,
    *,
    correct: bool,
) -> Found:
    """As `Retrieval.search`, with the repaired question where there is one and `correct` allows it."""
    repaired = repaired_text(collection, question.text) if correct and question.text is not None else None
    if repaired is None:
        answer = await retrieval.search(collection, question, caller, protocol)
        return Found(answer, await _scale(retrieval, question, answer))
    other = replace(question, text=repaired)
    if question.cursor is not None:
        return await _later_page(retrieval, collection, (question, other), caller, protocol)
    answer = await retrieval.search(collection, question, caller, protocol, charge=False)
    found = Found(answer, await _scale(retrieval, question, answer), suggestion=repaired)
    with suppress(Overloaded, ModelUnavailable):  # the question as typed has been answered
        found = await _better(retrieval, found, (question, other), caller, protocol)
    retrieval.check_budget(caller)
    retrieval.charge_budget(caller, found.answer.collection, (hit.chunk.id for hit in found.answer.hits))
    return found


async def _better(
    retrieval: Retrieval, typed: Found, questions: tuple[Question, Question], caller: Caller, protocol: Protocol
) -> Found:
    """The answer as typed, with the repaired text as suggestion if that finds anything; or the repaired one."""
    question, repaired = questions
    scale = typed.scale
    if scale is None or (scale.bound == 0 and typed.answer.hits):
        return typed
    answer = await retrieval.search(typed.answer.collection, repaired, caller, protocol, charge=False)
    repaired_scale = await relevance_scale(retrieval, repaired, answer)
    found = finding(answer.hits, repaired_scale)
    is_sure = is_surely_error(question.text or "", repaired.text or "")
    if is_answered_instead(found, finding(typed.answer.hits, scale), is_sure=is_sure):
        return Found(answer, repaired_scale, corrected=repaired.text)
    return typed if found.is_relevant else typed._replace(suggestion=None)


async def _later_page(
    retrieval: Retrieval,
    collection: VisibleCollection,
    questions: tuple[Question, Question],
    caller: Caller,
    protocol: Protocol,
) -> Found:
    """The page of a cursor, which belongs to the question as typed or to the repaired one."""
    typed, repaired = questions
    try:
        answer = await retrieval.search(collection, typed, caller, protocol)
        return Found(answer, await _scale(retrieval, typed, answer), suggestion=repaired.text)
    except BadRequest as refusal:
        try:
            answer = await retrieval.search(collection, repaired, caller, protocol)
        except BadRequest:
            raise refusal from None
        return Found(answer, await _scale(retrieval, repaired, answer), corrected=repaired.text)


async def _scale(retrieval: Retrieval, question: Question, answer: Answer) -> RelevanceScale | None:
    return None if question.text is None else await relevance_scale(retrieval, question, answer)
