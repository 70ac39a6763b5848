"""The documents that a question finds in one or several collections, the best document first."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice, repeat
from typing import Any, Final, NamedTuple, TypeAlias

from aidre.engine.retrieve.answer import Answer, find
from aidre.engine.retrieve.conditions import FieldOrder, order_value
from aidre.engine.retrieve.modes import tells_words
from aidre.engine.retrieve.operators import QuestionReading
from aidre.engine.retrieve.question import Question, State
from aidre.engine.retrieve.question_reading import attempts, joined, read
from aidre.engine.retrieve.relevance import QuestionRelevance, finding
from aidre.engine.retrieve.repair import better_of
from aidre.engine.retrieve.steps import Step, Together
from aidre.engine.types import Hit

DEPTH_FACTOR: Final = 4
"""Growth of the number of documents where some of them do not fit."""
LAST_CONSIDERED: Final = 3
"""Last documents of which none fits where no more are asked for."""
MOST_CONSIDERED: Final = 40
"""Documents that are looked at for a few; for more of them DEPTH_FACTOR times as many."""
MAX_BOOST: Final = 0.05
"""Relevance that a document gains if its best chunk has all keywords of the user."""

Asked: TypeAlias = tuple[Question, State]
"""A question, whose `top_k` counts documents, and where it is asked."""


class DocumentHit(NamedTuple):
    """A document with its chunks that match, best first; `place` is that of its collection, `score` a relevance.
    `copies` are the best chunks of its near-copies."""

    place: int
    hits: tuple[Hit, ...]
    score: float
    copies: tuple[Hit, ...] = ()


@dataclass(frozen=True, slots=True)
class Ranking:
    """The documents of all collections, best first; whether the bound cut hits off; how well the text does."""

    documents: tuple[DocumentHit, ...]
    cut: bool
    found: QuestionRelevance
    corrected: str | None = None
    suggestion: str | None = None
    reading: QuestionReading | None = None


class _Scope(NamedTuple):
    """The documents of one collection, whether the bound cut hits off, and how well the text does there."""

    documents: list[DocumentHit]
    cut: bool
    found: QuestionRelevance


def find_documents(
    text: str,
    questions: Sequence[Asked],
    *,
    bound: float,
    keywords: Sequence[str] = (),
    correct: bool = False,
    operators: bool = False,
) -> Generator[Step, Any, Ranking]:
    """The documents that a text finds in all of the collections, at most `top_k` of each.

    Hits below the relevance `bound` are left out; `keywords` only order documents. With `correct` a text that finds
    little is answered without what may be typing errors in it. With `operators` quotes and `-word` are read, where all
    of the collections can do that, and numbers, dates and orders in words for each by its own fields; what leaves
    nothing in all of them together is left out.
    """
    readings = (yield from read(text, [state for _, state in questions])) if operators else None
    if readings is None:
        return (yield from _corrected(text, questions, bound=bound, keywords=keywords, correct=correct))
    found: Ranking | None = None
    for tried, with_phrases in attempts(readings):
        filters = (
            reading.narrowed(question.filter, with_phrases=with_phrases)
            for (question, _), reading in zip(questions, tried, strict=True)
        )
        narrowed = [
            (question._replace(filter=filter, order=reading.order), state)
            for (question, state), reading, filter in zip(questions, tried, filters, strict=True)
        ]
        words = tried[0].text
        found = yield from _corrected(words, narrowed, bound=bound, keywords=keywords, correct=correct)
        corrected = found.corrected if with_phrases else found.corrected or words
        found = replace(found, reading=joined(tried), corrected=corrected)
        if found.documents or found.cut:
            break
    assert found is not None
    return found


def _corrected(
    text: str, questions: Sequence[Asked], *, bound: float, keywords: Sequence[str], correct: bool
) -> Generator[Step, Any, Ranking]:
    """The documents without what may be typing errors in the text."""

    def ask(words: str) -> Generator[Step, Any, Ranking]:
        return _ranking(words, questions, bound, keywords)

    typed = yield from ask(text)
    repaired = _repaired(text, typed, questions) if correct else None
    if repaired is None:
        return typed
    best, corrected, suggestion = yield from better_of(typed, (text, repaired), ask, lambda ranking: ranking.found)
    return replace(best, corrected=corrected, suggestion=suggestion)


def _repaired(text: str, typed: Ranking, questions: Sequence[Asked]) -> str | None:
    """The text without typing errors: by the words of the collection of the best document, which may know a word that
    others lack; where nothing was found, of the first collection that can repair it."""
    states = [questions[document.place][1] for document in typed.documents[:1]] or [state for _, state in questions]
    repairs = (state.reader.corrected(text) for state in states if tells_words(state))
    return next(filter(None, repairs), None)


def _ranking(
    text: str, questions: Sequence[Asked], bound: float, keywords: Sequence[str]
) -> Generator[Step, Any, Ranking]:
    searches = tuple(
        (place, _scope(place, question._replace(text=text), state, bound))
        for place, (question, state) in enumerate(questions)
    )
    scopes: list[_Scope] = [(yield from searches[0][1])] if len(searches) == 1 else (yield Together(searches))
    documents: Iterable[DocumentHit] = chain.from_iterable(scope.documents for scope in scopes)
    if keywords:
        documents = (_boosted(document, questions[document.place][1], keywords) for document in documents)
    # sorted() is stable: ties keep the order of the collections, and inside a collection the order of the engine.
    ranked = tuple(sorted(documents, key=lambda document: -document.score))
    orders = [question.order for question, _ in questions]
    if any(orders):
        ranked = (
            tuple(scopes[0].documents)
            if len(scopes) == 1
            else tuple(sorted(ranked, key=lambda document: _order_key(document, orders[document.place])))
        )
    share = max((scope.found.share for scope in scopes), default=0.0)
    return Ranking(ranked, any(scope.cut for scope in scopes), QuestionRelevance(bool(ranked), share))


def _order_key(document: DocumentHit, order: FieldOrder | None) -> tuple[bool, float]:
    """By the field of its collection; documents without a value last."""
    value = None if order is None else order_value(document.hits[0].chunk, order.field)
    descends = order is not None and order.direction == "descending"
    return value is None, -(value or 0.0) if descends else (value or 0.0)


def _scope(place: int, question: Question, state: State, bound: float) -> Generator[Step, Any, _Scope]:
    """The best documents of one collection, at most `question.top_k`.

    A document that does not fit may stand before one that does: more are asked for while the last ones have one.
    """
    count, most = question.top_k, max(MOST_CONSIDERED, question.top_k * DEPTH_FACTOR)
    while True:
        found: Answer = yield from find(question._replace(group="document"), state)
        assert found.scale is not None
        documents = _relevant(place, found, bound)
        last = {hit.chunk.document_key for hit in found.hits[-LAST_CONSIDERED:]}
        is_end = len(found.hits) < question.top_k or last.isdisjoint(
            document.hits[0].chunk.document_key for document in documents[-LAST_CONSIDERED:]
        )
        if len(documents) >= count or is_end or question.top_k >= most:
            is_cut = len(documents) < len(found.hits)
            return _Scope(documents[:count], is_cut, finding(found.hits, found.scale))
        question = question._replace(top_k=min(question.top_k * DEPTH_FACTOR, most))


def _relevant(place: int, found: Answer, bound: float) -> list[DocumentHit]:
    """The documents of an answer, with those of their passages that are relevant."""
    groups = [(hit, *passages) for hit, passages in zip(found.hits, found.passages or repeat(()), strict=False)]
    relevances = iter(found.relevances_of([*chain.from_iterable(groups)]) or ())
    documents = []
    for hits, copies in zip(groups, found.copies or repeat(()), strict=False):
        relevant = [pair for pair in zip(islice(relevances, len(hits)), hits, strict=True) if pair[0] >= bound]
        if relevant:
            documents.append(DocumentHit(place, tuple(hit for _, hit in relevant), relevant[0][0], copies))
    return documents


def _boosted(document: DocumentHit, state: State, keywords: Sequence[str]) -> DocumentHit:
    """Raises the score by the share of the user's keywords that the best chunk has; it only orders results."""
    chunk = document.hits[0].chunk
    lower = (f"{chunk.title or ''} {chunk.text}" if state.policy.lexical else chunk.title or "").lower()
    gain = MAX_BOOST * sum(word.lower() in lower for word in keywords) / len(keywords)
    return document._replace(score=round(min(document.score + gain, 1.0), 4))
