"""Evidence that a hit answers a question, as log odds: 0 where the hit has just what is demanded.

    odds = a * cosine + b * words + c * likeness - d * ln(50 + chunks) - e * ln(number of words) - bound

`words` is the share of the question's content words that the hit has, each weighted by its inverse document frequency,
so that one which no chunk has weighs most; `likeness` is the mean cosine of the question and the stored vectors, if
that is positive; `chunks` counts the chunks that pass the filter, up to ten thousand. The nearest of many neighbours is
nearer by chance; a question that is like the whole collection asks about its subject, while a foreign one may be close
to one chunk of it. A code of the question in a hit counts as a cosine of 0.4 at least: models see little in codes.

The coefficients are those of a logistic regression (own question or foreign one) on collections with questions: nine
test sets (metatool, msmarco, med, xquad, cisi, cranfield, climate-fever, scifact, docstrings of Python), the demo, the
documentation of this project and that of others, whole and in samples of 20, 60 and 400 chunks, asked whole questions
and one, two and three words of them; each set weighs the same, metatool less. Foreign questions are those of the other
sets. For the multilingual model it was halves of XQuAD in five languages, each asked the questions of the other half.
The bound is where about 1.5 % of the own questions are lost. `python -m benchmarks relevance` measures the rates,
which docs/protocols.md has.

Words alone are judged where the search is by words, and in hybrid search where the model does not know the language of
the question: its cosines are about the same for all texts of that language, and what they find in mode dense is not
judged. Vectors alone are judged where the collection is not searched by words. Other models spread their cosines
differently, and have no evidence.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from aidre.engine.embedding import DEFAULT_SPACE
from aidre.engine.embedding.models import MULTILINGUAL
from aidre.engine.index.text import find_codes, words_met
from aidre.engine.model import EmbeddingSpace, Query
from aidre.engine.ports import Reader
from aidre.engine.retrieve.relevance import word_count
from aidre.engine.types import Hit

MAX_TEXT_CHARS: Final = 4_000
"""Characters of a hit in which words are looked for, where the engine does not know its words."""
MAX_CHUNKS: Final = 10_000
"""More of them were not measured."""
_CHUNK_OFFSET: Final = 50
_MAX_WORDS: Final = 12
_CODE_COSINE: Final = 0.4


class Coefficients(NamedTuple):
    """The weights of the regression. `likeness` may be negative, where the cosines of any two texts are high."""

    cosine: float
    words: float
    likeness: float
    size: float
    length: float
    bound: float

    def odds(
        self,
        cosines: NDArray[np.float64] | None,
        shares: NDArray[np.float64],
        *,
        likeness: float,
        chunks: int,
        count: float,
    ) -> NDArray[np.float64]:
        """The log odds of hits with these cosines (n,) and shares of the words (n,) for a question of `count` words."""
        demanded = (
            self.size * math.log(_CHUNK_OFFSET + min(chunks, MAX_CHUNKS))
            + self.length * math.log(min(max(count, 1), _MAX_WORDS))
            + self.bound
        )
        found: NDArray[np.float64] = self.words * shares + self.likeness * max(0.0, likeness) - demanded
        return found if cosines is None else found + self.cosine * cosines


class _Calibrated(NamedTuple):
    """The coefficients for a model: by cosines and words, by cosines alone; and the likeness that questions have on
    average, for engines that have no mean of their vectors."""

    both: Coefficients
    vectors: Coefficients
    likeness: float


WORDS: Final = Coefficients(cosine=0.0, words=7.9, likeness=0.0, size=0.4, length=-1.6, bound=1.9)
"""By words alone: the longer a question, the less probable it is that many of its words meet by chance."""
CALIBRATED: Final[dict[str | None, _Calibrated]] = {
    DEFAULT_SPACE.model: _Calibrated(
        Coefficients(cosine=12.3, words=4.1, likeness=21.6, size=0.5, length=0.3, bound=2.35),
        Coefficients(cosine=14.4, words=0.0, likeness=20.8, size=0.3, length=1.0, bound=1.7),
        likeness=0.04,
    ),
    MULTILINGUAL.model: _Calibrated(
        Coefficients(cosine=50.4, words=5.95, likeness=-16.6, size=0.5, length=0.15, bound=27.55),
        Coefficients(cosine=52.5, words=0.0, likeness=-31.0, size=0.5, length=0.4, bound=16.0),
        likeness=0.76,
    ),
}
"""By the name of the model."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """What is known of a question before its hits are judged. `chunks` counts those that pass its filter, `likeness` is
    the mean cosine with the stored vectors, or what it is taken for."""

    query: Query
    reader: Reader
    coefficients: Coefficients
    chunks: int
    likeness: float

    def odds(self, hits: Sequence[Hit]) -> list[float]:
        """The log odds that each hit answers the question."""
        if not hits:
            return []
        text = str(self.query.text)
        count, shares = self._shares(text, hits)
        cosines = self._cosines(hits)
        if cosines is not None and find_codes(text):
            has_code = [words_met(text, text_of(hit))[1] for hit in hits]
            cosines = np.where(has_code, np.maximum(cosines, _CODE_COSINE), cosines)
        found = self.coefficients.odds(cosines, shares, likeness=self.likeness, chunks=self.chunks, count=count)
        return [float(odds) for odds in found]

    def _shares(self, text: str, hits: Sequence[Hit]) -> tuple[float, NDArray[np.float64]]:
        if not self.coefficients.words:
            return word_count(text), np.zeros(len(hits))
        if self.reader.can.words:
            count, shares = self.reader.word_shares(text, hits)
            return count, np.array(shares)
        return word_count(text), np.array([words_met(text, text_of(hit))[0] for hit in hits])

    def _cosines(self, hits: Sequence[Hit]) -> NDArray[np.float64] | None:
        if not self.coefficients.cosine:
            return None
        space, vector = str(self.query.space), np.asarray(self.query.vector, np.float32)
        cosines = self.reader.cosines(space, vector, hits)
        return np.array([cosine_of(hit, vector, space) for hit in hits]) if cosines is None else cosines


def evidence_for(query: Query, space: EmbeddingSpace | None, reader: Reader, *, by_words: bool) -> Evidence | None:
    """The evidence for the hits of a question in all chunks; None where its model is not calibrated.

    `space` is None for a search by words alone. `by_words`: words of the question may be looked for in the hits.
    """
    calibrated = None if space is None else CALIBRATED.get(space.model)
    if space is not None and calibrated is None:
        return None
    if calibrated is None or space is None:
        return Evidence(query, reader, WORDS, reader.chunks, 0.0) if by_words else None
    if by_words and not reader.knows_question(space.id, str(query.text)):
        return None if query.mode == "dense" else Evidence(query, reader, WORDS, reader.chunks, 0.0)
    likeness = likeness_of(reader.centroid(space.id), query.vector)
    coefficients = calibrated.both if by_words else calibrated.vectors
    known = calibrated.likeness if likeness is None else likeness
    return Evidence(query, reader, coefficients, reader.chunks, known)


def likeness_of(
    centroid: NDArray[np.float32] | None, vector: NDArray[np.float32] | Sequence[float] | None
) -> float | None:
    """The mean cosine of a vector and the unit vectors whose mean is `centroid`; None where that is not known."""
    length = 0.0 if vector is None else float(np.linalg.norm(vector))
    return None if centroid is None or vector is None or length == 0 else float(centroid @ np.asarray(vector)) / length


def cosine_of(hit: Hit, vector: NDArray[np.float32], space: str) -> float:
    """The cosine of a question's vector and a hit; 0 where the hit has none."""
    stored = hit.chunk.vectors().get(space)
    length = 0.0 if stored is None else float(np.linalg.norm(stored) * np.linalg.norm(vector))
    return 0.0 if stored is None or length == 0 else float(stored @ vector) / length


def text_of(hit: Hit) -> str:
    """The title and the text of a hit, as far as words are looked for in them."""
    return f"{hit.chunk.title or ''} {hit.chunk.text}"[:MAX_TEXT_CHARS]
