"""Which of two texts is answered, as typed or repaired, and the search of one reader by that rule without a server, as
the library and the command line do it."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from aidre.api.retrieval.relevance import (
    RELEVANT,
    RelevanceScale,
    calibrated_scale,
    cosine_of,
    is_calibrated,
    likeness_of,
    to_share,
)
from aidre.engine.embedding import default_vocabulary
from aidre.engine.errors import ModelUnavailable
from aidre.engine.index.text import normalize
from aidre.engine.model import Query
from aidre.engine.ports import Reader
from aidre.engine.types import Hit

CLEARLY_MORE: Final = 1.11
_MIN_STEM: Final = 5
"""Letters that two words share if they may be forms of one."""
_WORD: Final = re.compile(r"[^\W\d_]+")


class Finding(NamedTuple):
    """How well a question does: whether anything relevant was found, and the share of its best hit; 0 if shares of the
    collection have no bound, and so cannot be compared."""

    is_relevant: bool
    share: float


class LocalAnswer(NamedTuple):
    """The hits of a text, and the query that found them. `corrected` is the text that was answered in place of the one
    as typed; `suggestion` one that finds something, too."""

    query: Query
    hits: list[Hit]
    corrected: str | None = None
    suggestion: str | None = None


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


def search_forgiving(reader: Reader, text: str, ask: Callable[[str], Query]) -> LocalAnswer:
    """The hits of `ask(text)`, or of the repaired text where the rule says so. Raises what `ask` raises of the text."""
    query = ask(text)
    typed = LocalAnswer(query, reader.search(query))
    repaired = reader.corrected(text) if reader.can.words else None
    if repaired is None:
        return typed
    best = best_of(reader, query, typed.hits)
    scale = scale_of(reader, query, best)
    if scale.bound == 0 and best:
        return typed._replace(suggestion=repaired)
    try:
        other = ask(repaired)
    except ModelUnavailable:  # the text as typed has been answered
        return typed._replace(suggestion=repaired)
    hits = reader.search(other)
    other_best = best_of(reader, other, hits)
    found = finding(other_best, scale_of(reader, other, other_best))
    if is_answered_instead(found, finding(best, scale), is_sure=is_surely_error(text, repaired)):
        return LocalAnswer(other, hits, corrected=repaired)
    return typed._replace(suggestion=repaired if found.is_relevant else None)


def best_of(reader: Reader, query: Query, hits: Sequence[Hit]) -> Sequence[Hit]:
    """The best hit of all pages, alone; none where nothing is found."""
    return hits[:1] if query.offset == 0 else reader.search(replace(query, top_k=1, offset=0))


def scale_of(reader: Reader, query: Query, best: Sequence[Hit]) -> RelevanceScale:
    """The scale for the scores of a query with text, by its best hit."""
    space = next((space for space in reader.collection.spaces if space.id == query.space), None)
    cosine = cosine_of(best[0], query.vector, query.space) if best else None
    if space is None or not is_calibrated(space) or cosine is None:
        return RelevanceScale(query.mode, space, 0.0)
    chunks = reader.chunks if query.filter is None else reader.count(query.filter)
    searched = f"{best[0].title or ''} {best[0].text}"
    text, score = str(query.text), best[0].score
    likeness = likeness_of(reader.centroid(space.id), query.vector)
    return calibrated_scale(
        query.mode, space, text, score, cosine=cosine, likeness=likeness, chunks=chunks, searched=searched
    )
