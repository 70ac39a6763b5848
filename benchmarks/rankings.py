"""What a search found for the queries of a set, with the parts of every score, so that it can be ranked anew.

A ranking is of documents, each at the place of its best chunk.
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

from aidre.engine import lexical
from aidre.engine.model import Fusion, Mode, Query
from aidre.engine.snapshot import Hit, Snapshot
from benchmarks.quality import Topic, ndcg, recall

MODES: Final[tuple[Mode, ...]] = ("lexical", "dense", "hybrid")
DOCUMENTS: Final = 100
"""How many documents of each ranking are looked at."""


class Candidate(NamedTuple):
    """A chunk that any mode found: its document, its cosine and its BM25 score."""

    document: str
    cosine: float
    bm25: float


@dataclass(frozen=True, slots=True)
class Outcome:
    """One mode over one set: means over its queries."""

    ndcg: float
    recall: float


@dataclass(frozen=True, slots=True)
class Result:
    """One set in one division into chunks."""

    name: str
    documents: int
    chunks: int
    outcomes: Mapping[Mode, Outcome]


def ranking(snapshot: Snapshot, query: Query) -> tuple[list[str], list[Hit]]:
    """The best DOCUMENTS documents, and the chunks that were fetched to find them, or all that there are."""
    wanted = DOCUMENTS
    while True:
        wanted *= 2
        hits = snapshot.search(replace(query, top_k=wanted))
        documents = list(dict.fromkeys(hit.chunk.document_id for hit in hits))
        if len(hits) < wanted or len(documents) >= DOCUMENTS:
            return documents[:DOCUMENTS], hits


def outcome(rankings: Iterable[Sequence[str]], topics: Sequence[Topic]) -> Outcome:
    pairs = list(zip(rankings, topics, strict=True))
    return Outcome(
        fmean(ndcg(documents, topic.grades) for documents, topic in pairs),
        fmean(recall(documents, topic.grades, DOCUMENTS) for documents, topic in pairs),
    )


class Parts:
    """Tells of any chunk of a snapshot what its score is made of."""

    def __init__(self, snapshot: Snapshot, space: str) -> None:
        self._parts = snapshot.parts
        self._statistics = lexical.Statistics(snapshot.parts)
        self._codes = [part.segment.columns[space].codes for part in snapshot.parts]
        self._places = {
            name: (place, row)
            for place, part in enumerate(snapshot.parts)
            for row, name in enumerate(part.segment.chunks.value("id", row) for row in range(part.segment.entry.chunks))
        }

    def candidates(self, text: str, vector: NDArray[np.float32], hits: Iterable[Hit]) -> list[Candidate]:
        """Of some hits, each chunk once."""
        words = lexical.asked(self._parts, self._statistics, text)
        bm25 = [
            lexical.score(part, self._statistics, words, np.arange(part.segment.entry.chunks)) for part in self._parts
        ]
        unit = vector / np.linalg.norm(vector)
        found = []
        for name, document in {hit.chunk.id: hit.chunk.document_id for hit in hits}.items():
            place, row = self._places[name]
            cosine = float(self._codes[place][row].astype(np.float32) @ unit)
            found.append(Candidate(document, cosine, float(bm25[place][row])))
        return found


def anew(candidates: Iterable[Candidate], mode: Mode, fusion: Fusion) -> list[str]:
    """The documents in the order of this mode, as far as their chunks are among the candidates."""
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
    return fusion.a * candidate.cosine + (1 - fusion.a) * candidate.bm25 / (candidate.bm25 + fusion.c)


def write(path: Path, result: Result, topics: Sequence[Topic], found: Sequence[Sequence[Candidate]]) -> None:
    """Keep what was found for each query."""
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
    """What `write` kept, ranked anew."""
    content = orjson.loads(path.read_bytes())
    topics = [Topic(each["id"], each["text"], each["grades"]) for each in content["topics"]]
    found = [[Candidate(*candidate) for candidate in each["found"]] for each in content["topics"]]
    outcomes = {mode: outcome([anew(each, mode, fusion) for each in found], topics) for mode in MODES}
    return Result(content["set"], content["documents"], content["chunks"], outcomes)
