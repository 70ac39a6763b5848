"""Relevance of a hit from 0 to 1, the same scale for all modes; hits below RELEVANT (0.51) count as irrelevant.

Scores of different modes and collections cannot be compared, relevance can. A score is first mapped to a share of the
best possible score, then so that the bound, a share that was calibrated for the mode, has the relevance RELEVANT:

    below the bound    RELEVANT * share / bound
    from the bound on  1 - (1 - RELEVANT) * ((1 - share) / (1 - bound)) ** 3

NLWeb's percentages, an intake's `min_score` and AIDRE's `relevance` are views of this scale.

Whether an answer has a relevant hit is told by its best one: by its cosine and by the share of the question's words
that it contains, unknown words among those that it lacks,

    evidence  cosine * (1 + 2 * share of words) / 3
    usual     0.035 * ln(50 + chunks) - 0.075
    demanded  max(0.3 * usual, usual - likeness) * min(1, 0.3 + 0.14 * words)

where `chunks` counts the chunks that pass the filter, up to ten thousand, `likeness` is the mean cosine of the question
and the stored vectors if that is positive, and `words` counts the content words of the question. The nearest of many
neighbours is nearer by chance; a question that is like the whole collection asks about its subject, while a foreign one
may be close to one chunk of it; and a long question is nearer than a short one. The bound is the share at which the
best hit would have just what is demanded. A hit with a code of the question counts as near. Where an engine has no mean
of its vectors, the likeness is 0 and the constant -0.115.

The bound was calibrated on nine test collections (metatool, msmarco, med, xquad, cisi, cranfield, climate-fever,
scifact, docstrings of Python) and on samples of their documents. Foreign questions are those of the other collections.
Share of the foreign and of the own questions whose best hit has less evidence than is demanded, as `python -m
benchmarks.bench_relevance --questions 25` measures it:

    documents       1 word      2 words     3 words     all words
    10 and 30       24, 7 %     37, 5 %     50, 0 %     68, 0 %      hybrid
                    24, 6 %     38, 5 %     51, 0 %     68, 0 %      dense
    100             22, 2 %     32, 3 %     49, 0 %     71, 0 %      hybrid
                    25, 6 %     36, 3 %     51, 1 %     70, 0 %      dense
    all             19, 3 %     30, 2 %     51, 0 %     81, 1.0 %    hybrid
                    31, 9 %     45, 6 %     61, 2 %     82, 1.5 %    dense

With an offset from the other sets alone, 83 % are told and 1.8 % of the own questions lost; fewest are told in xquad
(61 %, paragraphs about everything), most are lost in metatool (12 %). A larger weight of the likeness tells more there
(2.6: 85 % at 1.4 %), but loses questions about documentation of many subjects, which are like nothing as a whole (two
of the forty in tests/quality). Foreign questions often share a subject with a collection, as those of scifact with med,
and are rightly answered then. A collection that is not searched by words is judged by cosines alone: usual is 0.055 *
ln(10 + chunks) - 0.06, and the factor min(1, 0.3 + 0.1 * words).

Lexical scores do not separate the two kinds, and other models spread their cosines differently: they have no bound, and
every hit has at least RELEVANT there.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from aidre.engine.embedding import DEFAULT_SPACE
from aidre.engine.index.text import LANGUAGES, find_codes, to_term, tokenize, tokenize_query
from aidre.engine.model import EmbeddingSpace, Mode, Query
from aidre.engine.types import Hit

RELEVANT: Final = 0.51
"""The relevance from which on a hit counts as relevant. NLWeb's first implementation demands a score above 51."""

_SHARE_WEIGHT: Final = 2.0
"""Weight of the share of words beside the cosine alone."""
_SLOPE: Final = 0.035
_OFFSET: Final = -0.075
_OFFSET_WITHOUT_LIKENESS: Final = -0.115
_CHUNK_OFFSET: Final = 50
_FACTOR: Final = 0.3
_COSINE_SLOPE: Final = 0.055
_COSINE_OFFSET: Final = -0.060
_COSINE_SLOPE_WITHOUT_LIKENESS: Final = 0.049
_COSINE_CHUNK_OFFSET: Final = 10
_COSINE_FACTOR: Final = 0.3
_LIKENESS_WEIGHT: Final = 1.0
_LEAST_DEMANDED: Final = 0.3
"""The share of what is usually demanded that also a question about the subject of the collection needs."""
_FACTOR_PER_WORD: Final = 0.14
_COSINE_FACTOR_PER_WORD: Final = 0.1
_MAX_MEASURED_CHUNKS: Final = 10_000
_CODE_COSINE: Final = 0.4
"""Models see little in a code, so the cosine of a hit that contains one of the question counts as this, at least."""
_EXPONENT: Final = 3
"""Steepness above the bound."""
_BM25_SATURATION: Final = 15.0
"""The BM25 score that is a share of one half."""
_MAX_HYBRID: Final = 1.2
"""The highest hybrid score with equal weights and without a code: feedback adds a fifth."""
_MAX_BOUND: Final = 0.95
_MAX_TEXT_CHARS: Final = 4_000
"""Characters of a hit in which the words of a question are searched for."""


@dataclass(frozen=True, slots=True)
class RelevanceScale:
    """Maps the scores of one search to relevance. `space` is None for lexical scores; `bound` is a share of 1."""

    mode: Mode
    space: EmbeddingSpace | None
    bound: float

    def relevances(self, scores: Iterable[float]) -> list[float]:
        """The relevance of each score, from 0 to 1, rising with the score, rounded to four places."""
        bound, reach, above = self.bound, 1 - self.bound, 1 - RELEVANT
        shares = [to_share(score, self.mode, self.space) for score in scores]
        return [
            round(RELEVANT * share / bound if share < bound else 1 - above * ((1 - share) / reach) ** _EXPONENT, 4)
            for share in shares
        ]


def is_calibrated(space: EmbeddingSpace) -> bool:
    """Whether there is a bound for the scores of a space."""
    return space.model == DEFAULT_SPACE.model


def calibrated_scale(
    query: Query,
    space: EmbeddingSpace,
    best: Hit,
    *,
    chunks: int,
    centroid: NDArray[np.float32] | None,
    searched: str | None,
) -> RelevanceScale:
    """The scale for the hits of a query by its best one, in a space that is calibrated.

    `chunks` counts those that pass the filter, `centroid` is the mean of the stored vectors, `searched` is where the
    words of the question may be looked for, None in a collection not searched by words.
    """
    text, cosine = str(query.text), cosine_of(best, query.vector, query.space)
    if cosine is None:
        return RelevanceScale(query.mode, space, 0.0)
    likeness = likeness_of(centroid, query.vector)
    if searched is None:
        demanded, found = demanded_cosine(chunks, text, likeness), cosine
    else:
        demanded = demanded_evidence(chunks, word_factor(text), likeness)
        found = evidence(text, cosine, searched)
    return RelevanceScale(query.mode, space, bound_at(to_share(best.score, query.mode, space), found, demanded))


def bound_at(share: float, found: float, demanded: float) -> float:
    """The bound of an answer whose best hit has a share of the best possible score and the evidence `found`."""
    return min(max(share * demanded / found, 1e-6), _MAX_BOUND) if found > 0 else _MAX_BOUND


def evidence(question: str, cosine: float, text: str) -> float:
    """That a hit with a cosine and a text answers a question."""
    words = tokenize_query(question)
    asked = _terms(words)
    if not asked:  # stop words alone
        asked = set(words)
        met = asked.intersection(tokenize(text[:_MAX_TEXT_CHARS]))
        return _evidence(cosine, len(met), len(asked))
    # Few stems begin otherwise than their words, and to stem all words of the text would take most of the time.
    starts = {word[:2] for word in (*words, *asked)}
    met = asked & _terms(
        word for word in set(tokenize(text[:_MAX_TEXT_CHARS])) if word[:2] in starts or not word.isascii()
    )
    if any(_terms(tokenize_query(code)) <= met for code in find_codes(question)):
        cosine = max(cosine, _CODE_COSINE)
    return _evidence(cosine, len(met), len(asked))


def _evidence(cosine: float, met: int, asked: int) -> float:
    share = met / asked if asked else 0.0
    return cosine * (1 + _SHARE_WEIGHT * share) / (1 + _SHARE_WEIGHT)


def demanded_evidence(chunks: int, factor: float, likeness: float | None) -> float:
    """The evidence from which on a hit of the default model is relevant among `chunks` that pass the filter.

    `likeness` is the mean cosine of the question and the stored vectors, None where it is not known.
    """
    offset = _OFFSET_WITHOUT_LIKENESS if likeness is None else _OFFSET
    usual = _SLOPE * math.log(_CHUNK_OFFSET + min(chunks, _MAX_MEASURED_CHUNKS)) + offset
    return _lowered(usual, likeness) * factor


def demanded_cosine(chunks: int, question: str, likeness: float | None) -> float:
    """As `demanded_evidence`, for cosines alone."""
    factor = min(_COSINE_FACTOR + _COSINE_FACTOR_PER_WORD * word_count(question), 1.0)
    slope, offset = (_COSINE_SLOPE_WITHOUT_LIKENESS, 0.0) if likeness is None else (_COSINE_SLOPE, _COSINE_OFFSET)
    usual = slope * math.log(_COSINE_CHUNK_OFFSET + min(chunks, _MAX_MEASURED_CHUNKS)) + offset
    return _lowered(usual, likeness) * factor


def _lowered(usual: float, likeness: float | None) -> float:
    return max(_LEAST_DEMANDED * usual, usual - _LIKENESS_WEIGHT * max(0.0, likeness or 0.0))


def likeness_of(
    centroid: NDArray[np.float32] | None, vector: NDArray[np.float32] | Sequence[float] | None
) -> float | None:
    """The mean cosine of a vector and the unit vectors whose mean is `centroid`; None where that is not known."""
    length = 0.0 if vector is None else float(np.linalg.norm(vector))
    return None if centroid is None or vector is None or length == 0 else float(centroid @ np.asarray(vector)) / length


def word_factor(question: str) -> float:
    """Grows with the content words of the question to 1."""
    return min(_FACTOR + _FACTOR_PER_WORD * word_count(question), 1.0)


def _terms(words: Iterable[str]) -> set[str]:
    """English stems; words of other languages are cut alike in a question and in a text."""
    return {term for word in set(words) if (term := to_term(word, "en")) is not None}


def cosine_of(hit: Hit, vector: NDArray[np.float32] | Sequence[float] | None, space: str | None) -> float | None:
    """The cosine of a question's vector and a hit; None where it is not known."""
    stored = None if vector is None or space is None else hit.chunk.vectors().get(space)
    length = 0.0 if stored is None or vector is None else float(np.linalg.norm(stored) * np.linalg.norm(vector))
    return None if stored is None or length == 0 else float(stored @ np.asarray(vector)) / length


def to_share(score: float, mode: Mode, space: EmbeddingSpace | None = None) -> float:
    """The score as a share of the best possible one, 0 to 1, monotonically; `space` is None for lexical scores.

    Cosines are shares of 1 already. BM25 has no upper end and is saturated.
    """
    distance = "cosine" if space is None else space.distance
    if mode == "lexical":
        share = score / (score + _BM25_SATURATION) if score > 0 else 0.0
    elif mode == "hybrid":
        share = score / _MAX_HYBRID
    elif distance == "cosine":
        share = score
    elif distance == "euclidean":
        share = 1 / (1 - score) if score < 0 else 1.0
    else:
        share = 0.5 + math.atan(score) / math.pi
    return min(max(share, 0.0), 1.0)


# -- content words -----------------------------------------------------------------------------------------------

WORD: Final = re.compile(r"\w+(?:['’.-]\w+)*")
MAX_TEXT_CHARS: Final = 2_000
"""Characters of a text whose words are read."""
REQUEST_WORDS: Final[frozenset[str]] = frozenset(
    """
    anything find get give i'd i'm it's let like list look looking looks lots need needs please recommend search
    searching see show some someone something sort suggest tell thing things try user want wants what's user's
    """.split()  # noqa: SIM905 -- a list of seventy quoted words is harder to read
)
"""Words of a request that say nothing about its object, in addition to the stop words of its language."""
_UNSPACED: Final = "\u2e80"
"""Code point from which scripts put no spaces between words, roughly."""


def content_words(text: str, language: str | None = None) -> list[str]:
    """The content words in their original case; `language` is a tag such as "de-AT", if it is known."""
    return words_except(text, _ignored_in_english() if language is None else REQUEST_WORDS | stop_words(language))


def word_count(text: str, language: str | None = None) -> float:
    """The number of content words; two characters of a script without spaces count as one."""
    return count_words(content_words(text, language))


def words_except(text: str, ignored: Collection[str]) -> list[str]:
    """The words of a text without the ignored ones and without single characters, except digits."""
    words = (word for word in WORD.findall(text[:MAX_TEXT_CHARS]) if len(word) > 1 or word.isdigit())
    return [word for word in words if word.lower() not in ignored]


def stop_words(language: str | None) -> frozenset[str]:
    """English stop words and those of the language."""
    tag = (language or "en").replace("_", "-").partition("-")[0].lower()
    analysis = LANGUAGES.get(tag)
    return LANGUAGES["en"].stop_words | (analysis.stop_words if analysis is not None else frozenset())


def count_words(words: Iterable[str]) -> float:
    """The number of words; two characters of a script without spaces count as one."""
    return sum(max(1, len(word) / 2) if word[0] >= _UNSPACED else 1 for word in words)


@cache
def _ignored_in_english() -> frozenset[str]:
    return REQUEST_WORDS | stop_words(None)
