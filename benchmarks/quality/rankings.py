"""Candidates of the queries of a test set with the components of their scores, so that they can be re-ranked offline.

A ranking lists documents; a document has the rank of its best chunk.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Final, NamedTuple

import numpy as np
import orjson
from numpy.typing import NDArray

from aidre.engine.collection.snapshot import Snapshot
from aidre.engine.model import Fusion, Mode, Query
from aidre.engine.search import bm25 as lexical
from aidre.engine.types import Hit
from benchmarks.harness.judged_sets import Topic, ndcg, recall

MODES: Final[tuple[Mode, ...]] = ("lexical", "dense", "hybrid")
DOCUMENTS: Final = 100
"""Depth of a ranking, in documents."""


class Candidate(NamedTuple):
    """A chunk that any mode retrieved: its document id, its cosine, its BM25 score and the one of BM25+."""

    document: str
    cosine: float
    bm25: float
    bm25_plus: float


@dataclass(frozen=True, slots=True)
class Outcome:
    """Metrics of one way to search over one set, as means over the queries."""

    ndcg: float
    recall: float


@dataclass(frozen=True, slots=True)
class Result:
    """Metrics of one set under one chunking, by mode or other way to search."""

    name: str
    documents: int
    chunks: int
    outcomes: Mapping[str, Outcome]


def ranking(snapshot: Snapshot, query: Query) -> tuple[list[str], list[Hit]]:
    """The best DOCUMENTS document ids, or fewer if no more match, and the hits fetched to find them."""
    k = DOCUMENTS
    while True:
        k *= 2
        hits = snapshot.search(replace(query, top_k=k))
        documents = list(dict.fromkeys(hit.chunk.document_id for hit in hits))
        if len(hits) < k or len(documents) >= DOCUMENTS:
            return documents[:DOCUMENTS], hits


def outcome(rankings: Iterable[Sequence[str]], topics: Sequence[Topic]) -> Outcome:
    pairs = list(zip(rankings, topics, strict=True))
    return Outcome(
        fmean(ndcg(documents, topic.grades) for documents, topic in pairs),
        fmean(recall(documents, topic.grades, DOCUMENTS) for documents, topic in pairs),
    )


class Parts:
    """Computes the score components of the chunks of a snapshot."""

    def __init__(self, snapshot: Snapshot, space: str) -> None:
        self._segments = snapshot.segments
        self._statistics = lexical.Statistics(snapshot.segments)
        self._codes = [view.segment.columns[space].codes for view in snapshot.segments]
        self._rows = {
            view.segment.chunks.value("id", row): (segment_ord, row)
            for segment_ord, view in enumerate(snapshot.segments)
            for row in range(view.segment.entry.chunks)
        }

    def candidates(self, text: str, vector: NDArray[np.float32], hits: Iterable[Hit]) -> list[Candidate]:
        """The candidates of the hits, each chunk once."""
        words = lexical.query_words(self._segments, self._statistics, text)
        bm25, plus = (
            [
                lexical.score_rows(view, self._statistics, words, np.arange(view.segment.entry.chunks), delta=delta)
                for view in self._segments
            ]
            for delta in (0.0, lexical.DELTA)
        )
        unit = vector / np.linalg.norm(vector)
        found = []
        for name, document in {hit.chunk.id: hit.chunk.document_id for hit in hits}.items():
            segment_ord, row = self._rows[name]
            cosine = float(self._codes[segment_ord][row].astype(np.float32) @ unit)
            scores = float(bm25[segment_ord][row]), float(plus[segment_ord][row])
            found.append(Candidate(document, cosine, *scores))
        return found


def anew(candidates: Iterable[Candidate], mode: Mode, fusion: Fusion) -> list[str]:
    """Re-ranks the candidates by `mode`; returns the document ids, best first. Codes and feedback are left out."""
    scored = sorted(
        ((score(each, mode, fusion), each.document) for each in candidates if mode != "lexical" or each.bm25 > 0),
        key=lambda pair: -pair[0],
    )
    return list(dict.fromkeys(document for _, document in scored))[:DOCUMENTS]


def score(candidate: Candidate, mode: Mode, fusion: Fusion) -> float:
    if mode == "lexical":
        return candidate.bm25
    if mode == "dense":
        return candidate.cosine
    return fusion.a * candidate.cosine + (1 - fusion.a) * candidate.bm25_plus / (candidate.bm25_plus + fusion.c)


def write(path: Path, result: Result, topics: Sequence[Topic], found: Sequence[Sequence[Candidate]]) -> None:
    """Writes the candidates of each query to a JSON file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    content = {
        "set": result.name,
        "documents": result.documents,
        "chunks": result.chunks,
        "topics": [
            {"id": topic.id, "text": topic.text, "grades": topic.grades, "found": [list(each) for each in candidates]}
            for topic, candidates in zip(topics, found, strict=True)
        ],
    }
    path.write_bytes(orjson.dumps(content))


def read(path: Path, fusion: Fusion) -> Result:
    """Reads the candidates that `write` kept and re-ranks them."""
    content = orjson.loads(path.read_bytes())
    topics = [Topic(each["id"], each["text"], each["grades"]) for each in content["topics"]]
    found = [[Candidate(*candidate) for candidate in each["found"]] for each in content["topics"]]
    ranked = {mode: [anew(each, mode, fusion) for each in found] for mode in MODES}
    outcomes = {str(mode): outcome(each, topics) for mode, each in ranked.items()}
    return Result(content["set"], content["documents"], content["chunks"], outcomes)
