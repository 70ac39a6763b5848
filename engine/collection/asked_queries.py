"""Queries that a calibration measures beside the generated ones: texts embedded by the model of a space, and queries of
users.

The texts are titles and sentences of the stored documents, as questions about them would be, and texts about many other
subjects. Embedding them takes as long as embedding some fifty chunks; a space is calibrated from some thousands on.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from aidre.engine.embedding import probes
from aidre.engine.errors import InvalidVector, ModelUnavailable
from aidre.engine.index.vectors import encode_query
from aidre.engine.model import EmbeddingSpace
from aidre.engine.ports import EmbedQueries
from aidre.engine.search import Kind, QuerySample, asked_sample, bm25, measured_weight
from aidre.engine.segment import SegmentView, StoredChunk

log = logging.getLogger(__name__)

SAMPLED_TEXTS: Final = 160
"""Titles and sentences: the mean recall over this many queries is known to about .003."""

_TITLE_EVERY: Final = 4
"""Every n-th text is the title of its document, if it has one."""

_MIN_CHARACTERS, _MAX_CHARACTERS = 15, 200
"""Length of a sentence that may stand for a question."""

_SENTENCE_END: Final = re.compile(r"(?<=[.!?])\s+|(?<=[。！？])|\n+")
_SEED: Final = 20_260_103


@dataclass(frozen=True, slots=True)
class AskedQueries:
    """By space: its model, where that is at hand, and encoded queries of users, of shape (n, dimensions)."""

    models: Mapping[str, EmbedQueries] = field(default_factory=dict)
    given: Mapping[str, NDArray[np.float32]] = field(default_factory=dict)

    def samples(self, space: EmbeddingSpace, segments: Sequence[SegmentView]) -> list[QuerySample]:
        samples = []
        if space.id in self.models:
            others = [text for probe in probes() for text in probe]
            kinds: tuple[tuple[Kind, list[str]], ...] = (("texts", sample_texts(segments)), ("others", others))
            try:
                for kind, texts in kinds:
                    queries = _encode(space, self.models[space.id](texts))
                    if len(queries):
                        samples.append(asked_sample(kind, queries))
            except ModelUnavailable as error:  # of an endpoint, for the moment: what was embedded is worth its commit
                log.warning("calibrated without texts: %s", error)
        if space.id in self.given:
            samples.append(asked_sample("given", self.given[space.id]))
        return samples

    def weight(
        self, space: EmbeddingSpace, segments: Sequence[SegmentView], statistics: bm25.Statistics, tag: str
    ) -> float | None:
        """The weight of the cosine for questions in a language; None where it cannot be measured now."""
        if space.id not in self.models:
            return None
        try:
            return measured_weight(space, segments, statistics, tag, self.models[space.id])
        except ModelUnavailable as error:
            log.warning("not measured how well space %s reads %s: %s", space.id, tag, error)
            return None


def sample_texts(segments: Sequence[SegmentView], count: int = SAMPLED_TEXTS) -> list[str]:
    """Titles and sentences of up to `count` live chunks; always the same for the same segments."""
    rng = np.random.default_rng(_SEED)
    ends = np.cumsum([view.live.count for view in segments])
    rows = int(ends[-1])
    texts = []
    for number, pick in enumerate(np.sort(rng.choice(rows, min(count, rows), replace=False)).tolist()):
        segment_ord = int(np.searchsorted(ends, pick, side="right"))
        view = segments[segment_ord]
        chunk = StoredChunk(view.segment, int(view.live.rows()[pick - (ends[segment_ord] - view.live.count)]))
        texts.append((number % _TITLE_EVERY == 0 and chunk.title) or _sentence_of(chunk.text, rng))
    return texts


def _sentence_of(text: str, rng: np.random.Generator) -> str:
    """A random sentence of usual length; without one, the beginning of the text."""
    pieces = [piece.strip() for piece in _SENTENCE_END.split(text)]
    sentences = [piece for piece in pieces if _MIN_CHARACTERS <= len(piece) <= _MAX_CHARACTERS]
    return sentences[rng.integers(len(sentences))] if sentences else text[:_MAX_CHARACTERS]


def _encode(space: EmbeddingSpace, vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    """The vectors as queries, without those that the space refuses: a text without words may have no direction."""
    queries = []
    for vector in vectors:
        try:
            queries.append(encode_query(space, vector))
        except InvalidVector:
            continue
    return np.concatenate(queries) if queries else np.empty((0, space.dimensions), np.float32)
