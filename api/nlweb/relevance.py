"""How relevant a hit is, as a number from 0 to 100, and below which number nothing relevant was found.

The bound was calibrated on nine test collections (metatool, msmarco, med, xquad, cisi, cranfield, climate-fever,
scifact, docstrings of Python) and on samples of 10, 30 and 100 of their documents. Queries of a collection, whole and
cut down to a few of their words, were held against those of the others, which ask for what is not there. The best score
of either kind grows with the logarithm of the collection, since rare words weigh more in a large one and the nearest of
many is nearer by chance, and with the words of the query; so does the bound:

    slope * ln(10 + chunks) * min(1, 0.3 + 0.1 * words)    slope 3.7 for hybrid scores, 4.9 for cosines

with what passes the filter as chunks and content words as words: 17 and 23 for a long query in a hundred chunks, 34 and
45 from ten thousand on, beyond which nothing was measured. Below it lie, of queries of others and of own ones,

    chunks          1 word      2 words     3 words     4 or 5      6 and more
    10 and 30       39, 14 %    51, 6 %     59, 2 %     78, 2 %     85, 2 %      hybrid
                    21, 6 %     26, 3 %     34, 1 %     56, 1 %     72, 1 %      dense
    100 to 240      20, 1 %     33, 2 %     42, 2 %     62, 2 %     74, 5 %      hybrid
                     8, 0 %     13, 1 %     20, 0 %     44, 1 %     63, 2 %      dense
    1,000 to 9,000  29, 5 %     32, 2 %     42, 2 %     67, 1 %     81, 1 %      hybrid
                    12, 2 %     19, 1 %     31, 2 %     63, 0 %     85, 0 %      dense

Many queries of others share their words with a collection, and are rightly answered. Where no word of a query stands
in the best hits, the share of the bound is at least 0.65: nine of ten queries of one meaningless word lie below it, and
a quarter to a half of the own queries of that kind, which are 4 to 8 % of those of one or two words.
Words alone tell nothing: where 1 % of the own queries are lost, of the others hardly any are. So
lexical scores have no bound, and none but those of the model that this release ships have one, for each model spreads
its cosines in its own way.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable
from typing import Final

from aidre.api.nlweb.rewriting import word_count
from aidre.engine.analysis import query_words, term
from aidre.engine.embed import DEFAULT_SPACE
from aidre.engine.model import EmbeddingSpace, Mode

_SLOPES: Final[dict[Mode, float]] = {"hybrid": 3.7, "dense": 4.9}
_OFFSET: Final = 10
_MEASURED: Final = 10_000
_SHARE: Final = 0.3
_SHARE_OF_WORD: Final = 0.1
_SHARE_UNMET: Final = 0.65
_SATURATION: Final = 15.0
LIFT: Final = 5.0
"""What the whole of the words that a user is known to like adds."""


def percent(score: float, mode: Mode, space: EmbeddingSpace | None = None) -> float:
    """The score of a hit on a scale from 0 to 100 that rises with it, rounded to hundredths; `space` where it has one.

    A hybrid score and a cosine are shares already; BM25 has no upper end and is bent as in the hybrid score.
    """
    distance = "cosine" if space is None else space.distance
    if mode == "lexical":
        share = score / (score + _SATURATION) if score > 0 else 0.0
    elif mode == "hybrid" or distance == "cosine":
        share = score
    elif distance == "euclidean":
        share = 1 / (1 - score) if score < 0 else 1.0
    else:
        share = 0.5 + math.atan(score) / math.pi
    return round(100 * min(max(share, 0.0), 1.0), 2)


def least(
    min_score: float | None, mode: Mode, space: EmbeddingSpace | None, query: str, chunks: int, *, met: bool = True
) -> float | None:
    """The percentage below which a hit is not relevant, among so many chunks; None where all are.

    `min_score` of the configuration is a share of 1; without it the calibrated bound holds. `met` is what `meets` says.
    """
    if min_score is not None:
        return 100 * min_score or None
    slope = _SLOPES.get(mode)
    if slope is None or space is None or space.model != DEFAULT_SPACE.model:
        return None
    share = max(_SHARE + _SHARE_OF_WORD * word_count(query), 0.0 if met else _SHARE_UNMET)
    return slope * math.log(_OFFSET + min(chunks, _MEASURED)) * min(share, 1.0)


def meets(query: str, texts: Iterable[str]) -> bool:
    """Whether any word of the query stands in any of the texts, which are those of the best hits."""
    stems = [stem for word in query_words(query) if (stem := term(word, "en")) is not None]
    return any(stem in text for text in map(str.lower, texts) for stem in stems)


def weighed(relevance: float, text: str, keywords: Collection[str]) -> float:
    """The relevance of a hit for the order of hits: words that the user is known to like lift it a little."""
    if not keywords:
        return relevance
    said = text.lower()
    return relevance + LIFT * sum(word.lower() in said for word in keywords) / len(keywords)
