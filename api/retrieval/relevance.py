"""Relevance of a hit from 0 to 1, the same scale for all modes; hits below RELEVANT (0.51) count as irrelevant.

Scores of different modes and collections cannot be compared, relevance can. A score is first mapped to a share of the
best possible score, then so that the bound, a share that was calibrated for the mode, has the relevance RELEVANT:

    below the bound    RELEVANT * share / bound
    from the bound on  1 - (1 - RELEVANT) * ((1 - share) / (1 - bound)) ** 3

NLWeb's percentages, an intake's `min_score` and AIDRE's `relevance` are views of this scale.

Whether an answer has a relevant hit is told by its best one: by its cosine and by the share of the question's words
that it contains, unknown words among those that it lacks,

    evidence  cosine * (1 + share of words) / 2
    demanded  (0.035 * ln(50 + chunks) - 0.076) * min(1, 0.5 + 0.1 * words)

where `chunks` counts the chunks that pass the filter, up to ten thousand, and `words` the content words of the
question: the nearest of many neighbours is nearer by chance, and a long question is nearer than a short one. The bound
is the share at which the best hit would have just what is demanded. A hit with a code of the question counts as near.

The bound was calibrated on nine test collections (metatool, msmarco, med, xquad, cisi, cranfield, climate-fever,
scifact, docstrings of Python) and on samples of their documents. Foreign questions are those of the other collections.
Share of the foreign and of the own questions whose best hit has less evidence than is demanded, as `python -m
benchmarks.bench_relevance --questions 25` measures it:

    documents       1 word      2 words     3 words     all words
    10 and 30       23, 6 %     33, 5 %     44, 0 %     65, 0 %      hybrid
                    23, 4 %     32, 5 %     43, 0 %     62, 0 %      dense
    100             21, 3 %     28, 2 %     41, 1 %     65, 1 %      hybrid
                    21, 5 %     26, 2 %     37, 0 %     60, 0 %      dense
    all             23, 4 %     33, 3 %     48, 0 %     75, 1.5 %    hybrid
                    29, 8 %     38, 5 %     51, 1 %     74, 1 %      dense

With an offset from the other sets alone, 75 % are told and 1.6 % of the own questions lost; fewest are told in xquad
(41 %, paragraphs about everything), most are lost in metatool (11 %). Foreign questions often share a subject with a
collection, as those of scifact with med, and are rightly answered then. A collection that is not searched by
words is judged by cosines alone, with a bound of 0.049 * ln(10 + chunks) * min(1, 0.3 + 0.1 * words).

Lexical scores do not separate the two kinds, and other models spread their cosines differently: they have no bound, and
every hit has at least RELEVANT there.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from aidre.api.retrieval.content_words import word_count
from aidre.engine.backend import Hit
from aidre.engine.embedding import DEFAULT_SPACE
from aidre.engine.index.text import find_codes, to_term, tokenize, tokenize_query
from aidre.engine.model import EmbeddingSpace, Mode

if TYPE_CHECKING:
    from aidre.api.retrieval.question import Question
    from aidre.api.retrieval.retrieve import Answer, Retrieval

RELEVANT: Final = 0.51
"""The relevance from which on a hit counts as relevant. NLWeb's first implementation demands a score above 51."""

_SLOPE: Final = 0.035
_OFFSET: Final = -0.076
_CHUNK_OFFSET: Final = 50
_FACTOR: Final = 0.5
_COSINE_SLOPE: Final = 0.049
_COSINE_CHUNK_OFFSET: Final = 10
_COSINE_FACTOR: Final = 0.3
_FACTOR_PER_WORD: Final = 0.1
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


async def relevance_scale(retrieval: Retrieval, question: Question, answer: Answer) -> RelevanceScale:
    """The scale for the hits of an answer to a question with text. Raises the errors of `Retrieval.count`."""
    snapshot = answer.collection.snapshot
    spaces = () if answer.space is None else snapshot.collection.spaces
    space = next((space for space in spaces if space.id == answer.space), None)
    best = answer.best
    cosine = None if best is None else cosine_of(best, answer.vector, answer.space)
    if space is None or not is_calibrated(space) or cosine is None or best is None:
        return RelevanceScale(answer.mode, space, 0.0)
    chunks = snapshot.chunks if question.filter is None else await retrieval.count(snapshot, question.filter)
    searched = answer.collection.searched_text(best.chunk) if answer.collection.settings.lexical else None
    text = str(question.text)
    return calibrated_scale(answer.mode, space, text, best.score, cosine=cosine, chunks=chunks, searched=searched)


def is_calibrated(space: EmbeddingSpace) -> bool:
    """Whether there is a bound for the scores of a space."""
    return space.model == DEFAULT_SPACE.model


def calibrated_scale(
    mode: Mode,
    space: EmbeddingSpace,
    text: str,
    score: float,
    *,
    cosine: float,
    chunks: int,
    searched: str | None,
) -> RelevanceScale:
    """The scale by the best hit, which has a score and a cosine; `searched` is where the words of the question may be
    looked for, None in a collection that is not searched by words."""
    if searched is None:
        demanded, found = demanded_cosine(chunks, text), cosine
    else:
        demanded, found = demanded_evidence(chunks, word_factor(text)), evidence(text, cosine, searched)
    return RelevanceScale(mode, space, bound_at(to_share(score, mode, space), found, demanded))


def bound_at(share: float, found: float, demanded: float) -> float:
    """The bound of an answer whose best hit has a share of the best possible score and the evidence `found`."""
    return min(max(share * demanded / found, 1e-6), _MAX_BOUND) if found > 0 else _MAX_BOUND


def evidence(question: str, cosine: float, text: str) -> float:
    """That a hit with a cosine and a text answers a question."""
    words = tokenize_query(question)
    asked = _terms(words)
    # Few stems begin otherwise than their words, and to stem all words of the text would take most of the time.
    starts = {word[:2] for word in (*words, *asked)}
    met = asked & _terms(
        word for word in set(tokenize(text[:_MAX_TEXT_CHARS])) if word[:2] in starts or not word.isascii()
    )
    if any(_terms(tokenize_query(code)) <= met for code in find_codes(question)):
        cosine = max(cosine, _CODE_COSINE)
    return cosine * (1 + (len(met) / len(asked) if asked else 0.0)) / 2


def demanded_evidence(chunks: int, factor: float) -> float:
    """The evidence from which on a hit of the default model is relevant among `chunks` that pass the filter."""
    return (_SLOPE * math.log(_CHUNK_OFFSET + min(chunks, _MAX_MEASURED_CHUNKS)) + _OFFSET) * factor


def demanded_cosine(chunks: int, question: str) -> float:
    """As `demanded_evidence`, for cosines alone."""
    factor = min(_COSINE_FACTOR + _FACTOR_PER_WORD * word_count(question), 1.0)
    return _COSINE_SLOPE * math.log(_COSINE_CHUNK_OFFSET + min(chunks, _MAX_MEASURED_CHUNKS)) * factor


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
