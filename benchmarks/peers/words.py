"""Engines that search texts, each in its own environment: by words, by vectors, or by both.

`benchmarks.peers.worker` runs them; `text.bench_words` compares them. A search is timed up to the library's own
result, without reading the stored fields of its hits.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from importlib import metadata
from pathlib import Path
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from benchmarks.peers.engines.protocol import Entry

Vectors = NDArray[np.float32]
Search = Callable[[str, Vectors, int], Any]
"""Answers one question (its text and its vector, as the mode needs them) with k hits; this call is timed."""

WARM_UP: Final = 20


class ByWords(Protocol):
    """One engine over texts with their unit vectors."""

    modes: Mapping[str, Search]
    """Its searches by mode: "words", "vectors", "hybrid", or "ranks", which joins two lists by their ranks."""

    def build(self, texts: Sequence[str], vectors: Vectors, folder: Path) -> None: ...

    def rows_of(self, answered: Any) -> list[int]:
        """Row numbers of an answer, best first."""


class Aidre:
    """A store of one space; the code of a release that is imported."""

    def __init__(self) -> None:
        self.modes: Mapping[str, Search] = {"words": self._words, "vectors": self._vectors, "hybrid": self._hybrid}

    def build(self, texts: Sequence[str], vectors: Vectors, folder: Path) -> None:
        from aidre.engine.collection.store import Store
        from aidre.engine.model import Chunk, Document, EmbeddingSpace, Fusion, Query, Record

        self._query = Query
        if "method" in {field.name for field in fields(Fusion)}:  # 0.2.0 has none
            self._by_ranks = Fusion(method="rrf")
            self.modes = {**self.modes, "ranks": self._ranks}
        batch = 50_000
        space = EmbeddingSpace("v", vectors.shape[1], "cosine", normalized=True)
        with Store(folder / "store").writer("bench", spaces=[space]) as writer:
            for first in range(0, len(texts), batch):
                records = []
                for number, text in enumerate(texts[first : first + batch], first):
                    document = Document(f"row-{number:08d}", text)
                    chunk = Chunk(f"{document.id}#chunk_1", 1, text, 0, len(text))
                    records.append(Record(document, (chunk,), number.to_bytes(16, "little")))
                codes = writer.encode("v", np.asarray(vectors[first : first + len(records)]))
                writer.upsert(records, {"v": codes}, {})
                if (first + len(records)) % (4 * batch) == 0:
                    writer.commit()
            writer.commit()
            writer.finish()
        self._snapshot = Store(folder / "store").open("bench")

    def _words(self, text: str, vector: Vectors, k: int) -> Any:
        return self._snapshot.search(self._query(None, None, k, text=text, mode="lexical"))

    def _vectors(self, text: str, vector: Vectors, k: int) -> Any:
        return self._snapshot.search(self._query(vector, "v", k))

    def _hybrid(self, text: str, vector: Vectors, k: int) -> Any:
        return self._snapshot.search(self._query(vector, "v", k, text=text, mode="hybrid"))

    def _ranks(self, text: str, vector: Vectors, k: int) -> Any:
        return self._snapshot.search(self._query(vector, "v", k, text=text, mode="hybrid", fusion=self._by_ranks))

    def rows_of(self, answered: Any) -> list[int]:
        return [int(hit.chunk.document_id.removeprefix("row-")) for hit in answered]


class Tantivy:
    """One segment, with stems of English."""

    def __init__(self) -> None:
        self.modes: Mapping[str, Search] = {"words": self._words}

    def build(self, texts: Sequence[str], vectors: Vectors, folder: Path) -> None:
        import tantivy

        schema = tantivy.SchemaBuilder()
        schema.add_integer_field("number", stored=True)
        schema.add_text_field("text", stored=True, tokenizer_name="en_stem", index_option="freq")
        (folder / "tantivy").mkdir()
        index = tantivy.Index(schema.build(), path=str(folder / "tantivy"))
        writer = index.writer(heap_size=1_000_000_000, num_threads=1)
        for number, text in enumerate(texts):
            writer.add_document(tantivy.Document(number=number, text=text))
        writer.commit()
        writer.wait_merging_threads()
        index.reload()
        self._index, self._searcher = index, index.searcher()

    def _words(self, text: str, vector: Vectors, k: int) -> Any:
        query, _ = self._index.parse_query_lenient(text, ["text"])
        return self._searcher.search(query, k)

    def rows_of(self, answered: Any) -> list[int]:
        return [self._searcher.doc(address)["number"][0] for _, address in answered.hits]


class Bm25s:
    """Scores computed beforehand, with stems and stop words of English."""

    def __init__(self) -> None:
        self.modes: Mapping[str, Search] = {"words": self._words}

    def build(self, texts: Sequence[str], vectors: Vectors, folder: Path) -> None:
        import bm25s
        import Stemmer

        self._bm25s, self._stemmer = bm25s, Stemmer.Stemmer("english")
        self._retriever = bm25s.BM25()
        self._retriever.index(self._tokens(list(texts)), show_progress=False)

    def _tokens(self, texts: str | list[str]) -> Any:
        return self._bm25s.tokenize(texts, stopwords="en", stemmer=self._stemmer, show_progress=False)

    def _words(self, text: str, vector: Vectors, k: int) -> Any:
        return self._retriever.retrieve(self._tokens(text), k=k, show_progress=False)

    def rows_of(self, answered: Any) -> list[int]:
        return [int(number) for number in answered.documents[0]]


class LanceDb:
    """A graph of the vectors, an index of the words, and its own fusion of their ranks."""

    def __init__(self) -> None:
        self.modes: Mapping[str, Search] = {"words": self._words, "vectors": self._vectors, "hybrid": self._hybrid}

    def build(self, texts: Sequence[str], vectors: Vectors, folder: Path) -> None:
        import lancedb
        import pyarrow as pa
        from lancedb.index import FTS, IvfHnswSq

        column = pa.FixedSizeListArray.from_arrays(
            pa.array(np.ascontiguousarray(vectors).reshape(-1)), vectors.shape[1]
        )
        rows = pa.table({"number": pa.array(range(len(texts))), "text": pa.array(texts), "v": column})
        self._table = lancedb.connect(str(folder / "lancedb")).create_table("bench", rows)
        graph = IvfHnswSq(distance_type="cosine", num_partitions=1, m=16, ef_construction=128)
        self._table.create_index("v", config=graph)
        self._table.create_index("text", config=FTS(with_position=False))

    def _words(self, text: str, vector: Vectors, k: int) -> Any:
        return self._table.search(text, query_type="fts").select(["number"]).limit(k).to_arrow()

    def _vectors(self, text: str, vector: Vectors, k: int) -> Any:
        return self._table.search(vector).distance_type("cosine").select(["number"]).limit(k).to_arrow()

    def _hybrid(self, text: str, vector: Vectors, k: int) -> Any:
        asked = self._table.search(query_type="hybrid").vector(vector).text(text)
        return asked.distance_type("cosine").select(["number"]).limit(k).to_arrow()

    def rows_of(self, answered: Any) -> list[int]:
        found: list[int] = answered.column("number").to_pylist()
        return found


ENTRIES: Final = (
    Entry("aidre words", "words", "Aidre", None, "aidre", "postings with bounds, vectors in lists of 4-bit codes"),
    Entry("tantivy", "words", "Tantivy", "words", "tantivy", "postings, stems of English"),
    Entry("bm25s", "words", "Bm25s", "words", "bm25s", "scores computed beforehand, stems of English"),
    Entry("lancedb words", "words", "LanceDb", "stores", "lancedb", "FTS and IVF_HNSW_SQ, ranks fused"),
)


class WordsWorker:
    """The commands of `benchmarks.peers.worker` for an engine that searches texts."""

    def __init__(self, name: str) -> None:
        self._entry = next(one for one in ENTRIES if one.name == name)
        self._engine: ByWords = globals()[self._entry.made]()
        self._warm: set[str] = set()
        self._texts: list[str] = []
        self._vectors: Vectors = np.empty((0, 0), np.float32)

    def build(self, texts: str, vectors: str, questions: str, asked: str, folder: str) -> dict[str, Any]:
        with Path(texts).open(encoding="utf-8") as lines:
            rows = [json.loads(line) for line in lines]
        self._texts = json.loads(Path(questions).read_bytes())
        self._vectors = np.load(asked)
        started = time.perf_counter()
        self._engine.build(rows, np.load(vectors, mmap_mode="r"), Path(folder))
        seconds = time.perf_counter() - started
        version = metadata.version(self._entry.distribution)
        return {"version": version, "seconds": seconds, "modes": list(self._engine.modes)}

    def pin(self, core: int) -> dict[str, Any]:
        for task in Path("/proc/self/task").iterdir():
            os.sched_setaffinity(int(task.name), {core})
        return {}

    def search(self, *, mode: str, k: int, first: int, count: int) -> dict[str, Any]:
        """Runs single questions in sequence; returns the microseconds of each, by the clock and of the processor."""
        search = self._engine.modes[mode]
        if mode not in self._warm:
            self._warm.add(mode)
            for number in range(WARM_UP):
                search(self._texts[-1 - number], self._vectors[-1 - number], k)
        microseconds, processor, answered = [], [], []
        for number in range(first, first + count):
            text, vector = self._texts[number], self._vectors[number]
            started, used = time.perf_counter(), time.process_time()
            answered.append(search(text, vector, k))
            used, now = time.process_time() - used, time.perf_counter()
            microseconds.append(round((now - started) * 1e6, 1))
            processor.append(round(used * 1e6, 1))
        rows = [self._engine.rows_of(one) for one in answered]
        return {"microseconds": microseconds, "processor_us": processor, "rows": rows}

    def close(self) -> dict[str, Any]:
        return {}
