"""Languages in a search: that of a question, and how much vectors count in one that the model does not know.

A model maps texts of a language that it does not know close to one another: their cosines say little, and with the
weight of its own languages they spoil the order of the words. So the weight `a` of the cosine in hybrid search is
measured, for each such language of a collection, with pieces of its chunks as questions (`measured_weight`):

    a = separation of the cosines / separation of the words

The separation of a side is the mean of what it gives to the chunk of a piece more than to the other chunks, in standard
deviations of these. With the default model English pieces give .25 to .33, on sets where about every `a` from .3 to .5
is as good; those of other languages .05 (Thai, Arabic) to .2, and hybrid search is best there with about that `a`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from aidre.engine.errors import InvalidVector
from aidre.engine.index.text import UNSPACED, UNSPACED_RUN, question_language
from aidre.engine.index.vectors import encode_query
from aidre.engine.model import EmbeddingSpace, Fusion
from aidre.engine.search import bm25
from aidre.engine.search.bm25 import Bm25Scorer, Statistics
from aidre.engine.segment import SegmentView, StoredChunk

UNMEASURED_WEIGHT: Final = 0.05
"""The weight of the cosine in a language that the model does not know, where it was not measured. In eleven languages
hybrid search with it is at most .004 nDCG@10 worse than the better of words and vectors, with .1 .010 (Thai)."""

MIN_CHUNKS: Final = 10
"""Chunks of a language from which on its weight is measured."""

_PIECES: Final = 160
"""Pieces that are embedded: with other ones the weight differs by about a twentieth."""

_MAX_CHUNKS: Final = 1_000
"""Chunks that a piece is compared with."""

_PIECE_WORDS: Final = 3.0
"""Length of a piece, that of a short question; a character of a script without spaces is half a word."""

_MIN_WEIGHT: Final = 0.05
"""The least weight: chunks without a word of the question still have an order."""

_MAX_WEIGHT: Final = 0.25
"""The largest weight, what English pieces give at least. More says that words separate little, not that vectors are
good: words of Vietnamese are single syllables, and the default model gets .33."""

_BEST_CHUNKS: Final = 3
"""Chunks whose language is that of a question without evidence of its own."""

_SEED: Final = 20_260_107
_WORD: Final = re.compile(rf"[{UNSPACED}]|[^\s{UNSPACED}]+")


# -- the language of a question ---------------------------------------------------------------------------------


def language_of(
    segments: Sequence[SegmentView], statistics: Statistics, text: str, scorer: Bm25Scorer | None = None
) -> str | None:
    """The tag of the language of a question: by its script, letters and stop words, else that of the best chunks by
    words; None where these say nothing either. `scorer` is that of the text, where the caller has one."""
    tag = question_language(text, statistics.chunks_by_language)
    if tag is not None:
        return tag
    scorer = scorer or Bm25Scorer(segments, statistics, text)
    best = scorer.search(k=_BEST_CHUNKS)
    places = zip(best.segment_ords.tolist(), best.rows.tolist(), strict=True)
    tags = Counter(_tag_of(segments[segment_ord], row) for segment_ord, row in places)
    return max(tags, key=lambda found: tags[found]) if tags else None


def _tag_of(view: SegmentView, row: int) -> str:
    lexicon = view.segment.lexicon
    return lexicon.tags[int(lexicon.languages[row])]


# -- the weight of a language -----------------------------------------------------------------------------------


def measured_weight(
    space: EmbeddingSpace,
    segments: Sequence[SegmentView],
    statistics: Statistics,
    tag: str,
    embed: Callable[[Sequence[str]], NDArray[np.float32]],
) -> float | None:
    """The weight of the cosine beside words for questions in a language of the collection, with equal ones for equal
    segments; None where the chunks do not tell. ModelUnavailable."""
    rng = np.random.default_rng(_SEED)
    places = _sampled_rows(segments, tag, rng)
    chunks = [StoredChunk(segments[segment_ord].segment, row) for segment_ord, row in places.tolist()]
    own = np.resize(rng.permutation(len(chunks)), _PIECES)
    texts = [_piece_of(chunks[number].text, rng) for number in own.tolist()]
    stored = _unit_vectors(space, segments, places)
    cosines, words = [], []
    for number, text, vector in zip(own.tolist(), texts, embed(texts), strict=True):
        try:
            query = encode_query(space, vector)[0]
        except InvalidVector:  # a piece without words may have no direction
            continue
        cosines.append(_separation(stored @ query, number))
        words.append(_separation(_word_scores(segments, statistics, text, places), number))
    by_vectors, by_words = _separations(cosines), _separations(words)
    if by_vectors is None or by_words is None or by_words <= 0:
        return None
    return round(min(_MAX_WEIGHT, max(_MIN_WEIGHT, by_vectors / by_words)), 3)


def _sampled_rows(segments: Sequence[SegmentView], tag: str, rng: np.random.Generator) -> NDArray[np.int64]:
    """Segment ordinals and rows (n, 2), in storage order, of at most _MAX_CHUNKS live chunks of a language."""
    found = []
    for segment_ord, view in enumerate(segments):
        lexicon = view.segment.lexicon
        if tag in lexicon.tags:
            own = lexicon.languages == lexicon.tags.index(tag)
            rows = np.flatnonzero(own if view.live.mask is None else own & view.live.mask)
            found.append(np.stack([np.full(len(rows), segment_ord), rows], axis=1))
    places = np.concatenate(found)
    chosen = np.sort(rng.choice(len(places), min(len(places), _MAX_CHUNKS), replace=False))
    sampled: NDArray[np.int64] = places[chosen]
    return sampled


def _piece_of(text: str, rng: np.random.Generator) -> str:
    """Some successive words of a text."""
    words = list(_WORD.finditer(text))
    if not words:
        return text
    lengths = np.cumsum([0.0, *(0.5 if UNSPACED_RUN.match(word.group()) else 1.0 for word in words)])
    last = int(np.searchsorted(lengths, lengths[-1] - _PIECE_WORDS, side="right")) - 1
    start = int(rng.integers(0, max(1, last + 1)))
    end = int(np.searchsorted(lengths, lengths[start] + _PIECE_WORDS))
    return text[words[start].start() : words[min(max(end, start + 1), len(words)) - 1].end()]


def _unit_vectors(
    space: EmbeddingSpace, segments: Sequence[SegmentView], places: NDArray[np.int64]
) -> NDArray[np.float32]:
    rows = [
        segments[segment_ord].segment.columns[space.id].take(places[places[:, 0] == segment_ord, 1])
        for segment_ord in np.unique(places[:, 0]).tolist()
    ]
    return np.concatenate(rows).astype(np.float32)


def _word_scores(
    segments: Sequence[SegmentView], statistics: Statistics, text: str, places: NDArray[np.int64]
) -> NDArray[np.float64]:
    """What words add to the hybrid score of chunks where a = 0."""
    query = bm25.query_words(segments, statistics, text)
    scores = np.concatenate(
        [
            bm25.score_rows(
                segments[segment_ord], statistics, query, places[places[:, 0] == segment_ord, 1], delta=bm25.DELTA
            )
            for segment_ord in np.unique(places[:, 0]).tolist()
        ]
    )
    return scores / (scores + Fusion().c)


def _separation(scores: NDArray[Any], own: int) -> tuple[float, float]:
    """How much more the own chunk has than the others, and the variance of these."""
    others = np.delete(scores, own)
    return float(scores[own] - others.mean()), float(others.var())


def _separations(pairs: Sequence[tuple[float, float]]) -> float | None:
    """The mean separation of several pieces, in standard deviations; None where the others do not differ."""
    if not pairs:
        return None
    gap, variance = np.mean(pairs, axis=0).tolist()
    return gap / variance**0.5 if variance > 0 else None
