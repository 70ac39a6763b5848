"""Relevance of a hit from 0 to 1, the same scale for all modes; hits below RELEVANT (0.51) count as irrelevant.

Scores of different modes and collections cannot be compared, relevance can. A score is first mapped to a share of the
best possible score, then so that the bound, a share that was calibrated for the mode, has the relevance RELEVANT:

    below the bound    RELEVANT * share / bound
    from the bound on  1 - (1 - RELEVANT) * ((1 - share) / (1 - bound)) ** 3

NLWeb's percentages, an intake's `min_score` and AIDRE's `relevance` are views of this scale.

The bound was calibrated on nine test collections (metatool, msmarco, med, xquad, cisi, cranfield, climate-fever,
scifact, docstrings of Python) and on samples of 10, 30 and 100 of their documents. A collection's own queries, whole
and cut down to a few words, were compared with foreign queries: those of the other collections, which ask for something
the collection does not have. For both kinds the best score grows with the logarithm of the collection, because rare
words weigh more in a large one and the nearest of many neighbours is nearer by chance, and with the number of words of
the query. So does the bound:

    slope / 100 * ln(10 + chunks) * min(1, 0.3 + 0.1 * words)    slope 3.7 for hybrid scores, 4.9 for cosines

where `chunks` counts the chunks that pass the filter and `words` the content words of the query: 17 and 23 hundredths
for a long query in a hundred chunks, 34 and 45 from ten thousand on, beyond which nothing was measured. Share of
foreign queries, then of own queries, whose best score is below the bound:

    chunks          1 word      2 words     3 words     4 or 5      6 and more
    10 and 30       39, 14 %    51, 6 %     59, 2 %     78, 2 %     85, 2 %      hybrid
                    21, 6 %     26, 3 %     34, 1 %     56, 1 %     72, 1 %      dense
    100 to 240      20, 1 %     33, 2 %     42, 2 %     62, 2 %     74, 5 %      hybrid
                     8, 0 %     13, 1 %     20, 0 %     44, 1 %     63, 2 %      dense
    1,000 to 9,000  29, 5 %     32, 2 %     42, 2 %     67, 1 %     81, 1 %      hybrid
                    12, 2 %     19, 1 %     31, 2 %     63, 0 %     85, 0 %      dense

Many foreign queries share words with a collection and are rightly answered. If no word of a query occurs in the best
hits, the factor of the bound is at least 0.65: that rejects nine of ten queries of one meaningless word, and a quarter
to a half of the own queries of that kind, which are 4 to 8 % of the own queries of one or two words.

Lexical scores do not separate the two kinds: the bound that loses 1.5 % of the own queries with hits rejects 4 % of the
foreign ones, and in a small collection, where a word that every document has weighs little, also what was meant. So
lexical scores have no bound, and the others have one only for the model that this release ships, because each model
spreads its cosines differently. Without a bound every hit has at least RELEVANT.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from aidre.api.retrieval.content_words import word_count
from aidre.api.retrieval.question import Question
from aidre.api.retrieval.retrieve import Answer, Retrieval
from aidre.engine.embedding import DEFAULT_SPACE
from aidre.engine.index.text import to_term, tokenize_query
from aidre.engine.model import EmbeddingSpace, Mode

RELEVANT: Final = 0.51
"""The relevance from which on a hit counts as relevant. NLWeb's first implementation demands a score above 51."""

_SLOPES: Final[dict[Mode, float]] = {"hybrid": 0.037, "dense": 0.049}
_CHUNK_OFFSET: Final = 10
_MAX_MEASURED_CHUNKS: Final = 10_000
_FACTOR: Final = 0.3
_FACTOR_PER_WORD: Final = 0.1
_MIN_FACTOR_UNMATCHED: Final = 0.65
_EXPONENT: Final = 3
"""Steepness above the bound. With it the best hits of the questions in `tests/quality` have 0.71 to 0.90 (the tenth
and the ninetieth percentile), and those of its questions on other subjects 0.58 at most."""
_BM25_SATURATION: Final = 15.0
"""The BM25 score that is a share of one half."""
_MATCHED_HITS: Final = 3
"""Best hits in which the words of the query are searched for."""


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
    if answer.mode not in _SLOPES or space is None or space.model != DEFAULT_SPACE.model:
        return RelevanceScale(answer.mode, space, 0.0)
    chunks = snapshot.chunks if question.filter is None else await retrieval.count(snapshot, question.filter)
    factor = word_factor(str(question.text))
    if factor < _MIN_FACTOR_UNMATCHED and not _is_matched(question, answer):
        factor = _MIN_FACTOR_UNMATCHED
    return RelevanceScale(answer.mode, space, calibrated_bound(answer.mode, chunks, factor))


def _is_matched(question: Question, answer: Answer) -> bool:
    """Whether a word of the query occurs in the best hits.

    A filtered search counts as matched, since its filter selects more than words; so does a page after the first, whose
    hits are not the best ones.
    """
    if question.filter is not None or question.cursor is not None:
        return True
    best = (answer.collection.searched_text(hit.chunk) for hit in answer.hits[:_MATCHED_HITS])
    return matches_any_word(str(question.text), best)


def to_share(score: float, mode: Mode, space: EmbeddingSpace | None = None) -> float:
    """The score as a share of the best possible one, 0 to 1, monotonically; `space` is None for lexical scores.

    Hybrid scores and cosines are shares of 1 already. BM25 has no upper end and is saturated as in the hybrid score.
    """
    distance = "cosine" if space is None else space.distance
    if mode == "lexical":
        share = score / (score + _BM25_SATURATION) if score > 0 else 0.0
    elif mode == "hybrid" or distance == "cosine":
        share = score
    elif distance == "euclidean":
        share = 1 / (1 - score) if score < 0 else 1.0
    else:
        share = 0.5 + math.atan(score) / math.pi
    return min(max(share, 0.0), 1.0)


def calibrated_bound(mode: Mode, chunks: int, factor: float) -> float:
    """The share below which a hit of the default model is irrelevant; `mode` is hybrid or dense.

    `chunks` is the number of chunks that pass the filter, `factor` grows with the words of the query to 1.
    """
    return _SLOPES[mode] * math.log(_CHUNK_OFFSET + min(chunks, _MAX_MEASURED_CHUNKS)) * factor


def word_factor(query: str) -> float:
    """Grows with the content words of the query to 1."""
    return min(_FACTOR + _FACTOR_PER_WORD * word_count(query), 1.0)


def matches_any_word(query: str, texts: Iterable[str]) -> bool:
    """Whether the stem of any word of the query occurs in any of the texts, which are those of the best hits."""
    stems = [stem for word in tokenize_query(query) if (stem := to_term(word, "en")) is not None]
    return any(stem in text for text in map(str.lower, texts) for stem in stems)
