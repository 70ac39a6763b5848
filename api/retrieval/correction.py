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

from contextlib import suppress
from dataclasses import replace
from typing import NamedTuple

from aidre.api.access import Caller
from aidre.api.config import Protocol
from aidre.api.http import BadRequest, Overloaded
from aidre.api.retrieval.forgiving import finding, is_answered_instead, is_surely_error
from aidre.api.retrieval.question import Question
from aidre.api.retrieval.relevance import RelevanceScale, relevance_scale
from aidre.api.retrieval.retrieve import Answer, Retrieval
from aidre.api.retrieval.visibility import VisibleCollection
from aidre.engine.errors import ModelUnavailable


class Found(NamedTuple):
    """The answer to a question, and its relevance scale (None for a vector).

    `corrected` is the text that was answered in place of the one as typed; `suggestion` one that finds something, too.
    """

    answer: Answer
    scale: RelevanceScale | None
    corrected: str | None = None
    suggestion: str | None = None


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
