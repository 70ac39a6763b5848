"""A hybrid text query in process, from embedding to rendered answer, and the time of its parts.

    python -m benchmarks text [--rows N...] [--queries N] [--folder DIR] [--update-readme]

A chunk is generated from two real passages (docstrings of the standard library): half of the words of each, a third of
them redrawn from the vocabulary by frequency; its vector is the sum of both passages' embeddings plus noise. Posting
lists are therefore as long as in real text, chunks that share words tend to be neighbours, and a million chunks need
only a thousand embeddings. Queries are three to nine words of held-out passages, each asked once. Latencies are of
single queries in sequence; the parts of a query are timed while it runs.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from aidre.api.config.settings import CollectionSettings
from aidre.api.http.envelope import JSON_VARIANT
from aidre.api.protocols.aidre import search
from aidre.api.protocols.aidre.search_messages import ReturnFields, SearchMeta
from aidre.api.retrieval.visibility import VisibleCollection
from aidre.engine.collection.snapshot import Snapshot
from aidre.engine.collection.store import Store
from aidre.engine.embedding.embedder import DEFAULT_SPACE, Embedder, load_embedder
from aidre.engine.model import Chunk, Document, Query, Record
from aidre.engine.retrieve import Answer, Question, State
from aidre.engine.search import bm25, hybrid
from aidre.engine.search.hybrid import HybridQuery
from aidre.engine.storage.format import NO_KEY
from aidre.engine.types import Hit
from aidre.ingest.pipeline.batching import COMMIT_BYTES
from benchmarks.harness.equal_passages import texts
from benchmarks.report.results import record

COLLECTION: Final = "bench"
PASSAGES: Final = 1_000
BLOCK: Final = 25_000
REDRAWN: Final = 1 / 3
NOISE: Final = 0.7
"""Length of the noise vector; the signal is the sum of two unit vectors."""

WARM_UP: Final = 100
TOP_K: Final = 10


class Material(NamedTuple):
    """The source of the chunks: tokenized passages, their embeddings, the vocabulary, its cumulative frequencies."""

    passages: list[list[str]]
    vectors: NDArray[np.float32]
    words: list[str]
    cumulated: NDArray[np.float64]


PARTS: Final = (
    ("analysis_and_postings", bm25, "query_words"),
    ("dense", hybrid, "search_dense"),
    ("words_and_fusion", HybridQuery, "_fused_natively"),
    ("feedback", HybridQuery, "with_feedback"),
)
"""The timed parts of a hybrid search, each by the function that does it; none of them calls another."""


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="bench_text", description=__doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=[10_000])
    parser.add_argument("--queries", type=int, default=500)
    parser.add_argument("--folder", type=Path, help="parent of the temporary folder")
    parser.add_argument("--update-readme", action="store_true", help="write the figures into README.md")
    options = parser.parse_args(argv)
    embedder = load_embedder(DEFAULT_SPACE)
    for rows in options.rows:
        with tempfile.TemporaryDirectory(dir=options.folder) as folder:
            figures, raw = measure(Path(folder), embedder, rows, options.queries)
        print(json.dumps(figures))
        name = "bench_text" if rows <= 10_000 else f"bench_text_{rows}"
        record(name, figures, raw=raw, readme=options.update_readme)
    return 0


def measure(folder: Path, embedder: Embedder, rows: int, count: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """The figures, and the raw seconds of every query."""
    passages = list(texts(None))
    made, held_out = passages[:PASSAGES], passages[PASSAGES:]
    started = time.perf_counter()
    build(folder, embedder, material(made, embedder.embed_documents(made)), rows)
    built = time.perf_counter() - started
    snapshot = Store(folder).open(COLLECTION)
    asked = questions(held_out, WARM_UP + 2 * count)
    warm, fresh, others = asked[:WARM_UP], asked[WARM_UP : WARM_UP + count], asked[WARM_UP + count :]
    for text in warm:
        request(snapshot, embedder, text)
    with Stopwatch() as stopwatch:
        samples = [{**request(snapshot, embedder, text), **stopwatch.taken()} for text in fresh]
    raw = {name: [sample.get(name, 0.0) for sample in samples] for name in samples[0]}
    raw["total"] = [sample["embedding"] + sample["search"] + sample["rendering"] for sample in samples]
    raw["lexical_search_alone"] = [words_alone(snapshot, text) for text in others]
    median = {name: float(np.median(seconds)) for name, seconds in raw.items()}
    parts = list(dict.fromkeys(name for name, *_ in PARTS))
    statistics = bm25.Statistics(snapshot.segments)
    calibration = snapshot.space(embedder.space.id).calibration
    figures = {
        "chunks": snapshot.chunks,
        "seconds_to_build": round(built),
        "dense_side": calibration.kind if calibration else "exact",
        "chunks_with_a_word_of_the_query_median": int(
            np.median([holding(snapshot, statistics, text) for text in fresh])
        ),
        "p50_ms": milliseconds(median["total"]),
        "p99_ms": milliseconds(float(np.percentile(raw["total"], 99))),
        "embedding_p50_ms": milliseconds(median["embedding"]),
        **{f"{name}_p50_ms": milliseconds(median[name]) for name in parts},
        "fusion_and_the_rest_of_search_p50_ms": milliseconds(
            float(np.median([sample["search"] - sum(sample[name] for name in parts) for sample in samples]))
        ),
        "rendering_p50_ms": milliseconds(median["rendering"]),
        "lexical_search_alone_p50_ms": milliseconds(median["lexical_search_alone"]),
    }
    return figures, raw


def milliseconds(seconds: float) -> float:
    return round(seconds * 1000, 3)


class Stopwatch:
    """Times the functions of PARTS while queries run."""

    def __init__(self) -> None:
        self._seconds = dict.fromkeys((name for name, *_ in PARTS), 0.0)
        self._replaced = ExitStack()

    def __enter__(self) -> Stopwatch:
        for name, owner, function in PARTS:
            original = getattr(owner, function)
            setattr(owner, function, self._timed(name, original))
            self._replaced.callback(setattr, owner, function, original)
        return self

    def __exit__(self, *_: object) -> None:
        self._replaced.close()

    def _timed(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*args: Any, **options: Any) -> Any:
            started = time.perf_counter()
            result = function(*args, **options)
            self._seconds[name] += time.perf_counter() - started
            return result

        return timed

    def taken(self) -> dict[str, float]:
        """Seconds of each part since the last call."""
        seconds, self._seconds = self._seconds, dict.fromkeys(self._seconds, 0.0)
        return seconds


def request(snapshot: Snapshot, embedder: Embedder, text: str) -> dict[str, float]:
    """Runs one text query from its text to the rendered answer; returns the seconds of each stage."""
    started = time.perf_counter()
    (vector,) = embedder.embed_queries([text])
    embedded = time.perf_counter()
    query = Query(vector, embedder.space.id, TOP_K, text=text, mode="hybrid")
    hits = snapshot.search(query)
    searched = time.perf_counter()
    render(snapshot, query, hits)
    return {
        "embedding": embedded - started,
        "search": searched - embedded,
        "rendering": time.perf_counter() - searched,
    }


def words_alone(snapshot: Snapshot, text: str) -> float:
    started = time.perf_counter()
    snapshot.search(Query(None, None, TOP_K, text=text, mode="lexical"))
    return time.perf_counter() - started


def holding(snapshot: Snapshot, statistics: bm25.Statistics, text: str) -> int:
    """Number of chunks that contain a term of the query."""
    words = bm25.query_words(snapshot.segments, statistics, text)
    total = 0
    for view in snapshot.segments:
        found = np.zeros(view.segment.entry.chunks, np.bool_)
        for term in (term for word in words for term in word.terms):
            postings = view.postings(term)
            if postings is not None:
                found[postings.rows] = True
        total += int(np.count_nonzero(found))
    return total


def render(snapshot: Snapshot, query: Query, hits: list[Hit]) -> bytes:
    state = State(snapshot)
    shown = VisibleCollection(COLLECTION, state.reader, state, CollectionSettings(), "public")
    meta = SearchMeta(returned=len(hits), top_k=query.top_k, mode=query.mode)
    answer = Answer(Question(query.top_k), state, query.mode, None, query, hits, None)
    return search.render(shown, answer, ReturnFields(text=True), meta, identifier="00000000", variant=JSON_VARIANT)


def questions(passages: Sequence[str], count: int) -> list[str]:
    """Distinct word sequences of three to nine words."""
    found: dict[str, None] = {}
    for start in range(0, 110):
        for number, passage in enumerate(passages):
            words = passage.split()[start : start + 3 + (start + number) % 7]
            if any(len(word) > 3 for word in words):
                found[" ".join(words)] = None
    if len(found) < count:
        raise SystemExit(f"only {len(found)} distinct queries exist: ask for fewer with --queries")
    return list(islice(found, count))


def material(passages: Sequence[str], vectors: NDArray[np.float32]) -> Material:
    frequencies = Counter(word for passage in passages for word in re.findall(r"\w+", passage))
    words = list(frequencies)
    cumulated = np.cumsum([frequencies[word] for word in words], dtype=np.float64)
    return Material([passage.split() for passage in passages], vectors, words, cumulated / cumulated[-1])


def build(folder: Path, embedder: Embedder, made_of: Material, rows: int) -> None:
    space = embedder.space
    with Store(folder).writer(COLLECTION, spaces=[space], runtimes={space.id: embedder.runtime}) as writer:
        for first in range(0, rows, BLOCK):
            count = min(BLOCK, rows - first)
            pairs, vectors = vectors_of(made_of, first, count)
            records = list(records_of(made_of, pairs, first))
            writer.upsert(records, {space.id: writer.encode(space.id, vectors)}, {space.id: [NO_KEY] * count})
            if writer.pending_bytes >= COMMIT_BYTES:
                writer.commit()
        writer.commit()
        writer.finish()


def vectors_of(made_of: Material, first: int, count: int) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """For each chunk of a block: the ordinals of its two passages, shape (count, 2), and its unit vector."""
    rng = np.random.default_rng([7, first])
    pairs = rng.integers(0, len(made_of.passages), (count, 2))
    vectors = made_of.vectors[pairs].sum(axis=1)
    noise = rng.standard_normal(vectors.shape, dtype=np.float32)
    vectors += np.float32(NOISE / np.sqrt(vectors.shape[1])) * noise
    unit: NDArray[np.float32] = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return pairs, unit


def records_of(made_of: Material, pairs: NDArray[np.int64], first: int) -> Iterator[Record]:
    rng = np.random.default_rng([8, first])
    for number, (one, other) in enumerate(pairs.tolist(), first):
        words = [*made_of.passages[one][::2], *made_of.passages[other][1::2]]
        positions = np.flatnonzero(rng.random(len(words)) < REDRAWN)
        drawn = np.searchsorted(made_of.cumulated, rng.random(len(positions)))
        for position, word in zip(positions.tolist(), drawn.tolist(), strict=True):
            words[position] = made_of.words[word]
        text = " ".join(words)
        document = Document(f"row-{number:08d}", text, title=f"Row {number}")
        chunk = Chunk(f"{document.id}#chunk_1", 1, text, 0, len(text))
        yield Record(document, (chunk,), number.to_bytes(16, "little"))


if __name__ == "__main__":
    sys.exit(main())
