"""Relevance of a hit as a percentage, and the bound below which a result counts as irrelevant.

The bound was calibrated on nine test collections (metatool, msmarco, med, xquad, cisi, cranfield, climate-fever,
scifact, docstrings of Python) and on samples of 10, 30 and 100 of their documents. A collection's own queries, whole
and cut down to a few words, were compared with foreign queries: those of the other collections, which ask for something
the collection does not have. For both kinds the best score grows with the logarithm of the collection, because rare
words weigh more in a large one and the nearest of many neighbours is nearer by chance, and with the number of words of
the query. So does the bound:

    slope * ln(10 + chunks) * min(1, 0.3 + 0.1 * words)    slope 3.7 for hybrid scores, 4.9 for cosines

where `chunks` counts the chunks that pass the filter and `words` the content words of the query: 17 and 23 for a long
query in a hundred chunks, 34 and 45 from ten thousand on, beyond which nothing was measured. Share of foreign queries,
then of own queries, whose best score is below the bound:

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

Lexical scores alone do not separate the two: at the bound that loses 1 % of the own queries, hardly any foreign query
is rejected. So lexical scores have no bound, and the others have one only for the model that this release ships,
because each model spreads its cosines differently.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable
from typing import Final

from aidre.api.protocols.nlweb.answer.rewriting import word_count
from aidre.engine.embedding import DEFAULT_SPACE
from aidre.engine.index.text import to_term, tokenize_query
from aidre.engine.model import EmbeddingSpace, Mode

_SLOPES: Final[dict[Mode, float]] = {"hybrid": 3.7, "dense": 4.9}
_CHUNK_OFFSET: Final = 10
_MAX_MEASURED_CHUNKS: Final = 10_000
_FACTOR: Final = 0.3
_FACTOR_PER_WORD: Final = 0.1
_MIN_FACTOR_UNMATCHED: Final = 0.65
_BM25_SATURATION: Final = 15.0
"""The BM25 score that maps to 50 %."""
MAX_BOOST: Final = 5.0
"""Percentage points that a hit gains if it has all keywords of the user."""


def to_percent(score: float, mode: Mode, space: EmbeddingSpace | None = None) -> float:
    """Maps a score to 0 to 100, monotonically, rounded to hundredths; `space` is None for lexical scores.

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
    return round(100 * min(max(share, 0.0), 1.0), 2)


def relevance_bound(
    min_score: float | None,
    mode: Mode,
    space: EmbeddingSpace | None,
    query: str,
    chunks: int,
    *,
    word_matched: bool = True,
) -> float | None:
    """The percentage below which a hit is irrelevant; None if every hit is relevant.

    `min_score` is a share of 1 from the configuration; None selects the calibrated bound. `chunks` is the number of
    chunks that pass the filter, `word_matched` the result of `matches_any_word`.
    """
    if min_score is not None:
        return 100 * min_score or None
    slope = _SLOPES.get(mode)
    if slope is None or space is None or space.model != DEFAULT_SPACE.model:
        return None
    factor = max(_FACTOR + _FACTOR_PER_WORD * word_count(query), 0.0 if word_matched else _MIN_FACTOR_UNMATCHED)
    return slope * math.log(_CHUNK_OFFSET + min(chunks, _MAX_MEASURED_CHUNKS)) * min(factor, 1.0)


def matches_any_word(query: str, texts: Iterable[str]) -> bool:
    """Whether the stem of any word of the query occurs in any of the texts, which are those of the best hits."""
    stems = [stem for word in tokenize_query(query) if (stem := to_term(word, "en")) is not None]
    return any(stem in text for text in map(str.lower, texts) for stem in stems)


def boost(relevance: float, text: str, keywords: Collection[str]) -> float:
    """The percentage raised by the share of the user's keywords that the text has; it only orders results."""
    if not keywords:
        return relevance
    lower = text.lower()
    return relevance + MAX_BOOST * sum(word.lower() in lower for word in keywords) / len(keywords)
