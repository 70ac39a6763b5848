"""Ten documents beside ten chunks: what a search by document finds that one for chunks does not, and what it takes.

    python -m benchmarks.bench_group PATH... --keep DIR [--update-readme]

PATH and --keep are those of `bench_quality`, which embeds the sets once. Each question is searched hybrid, ten chunks
and ten documents in turn; a document has the rank of its best chunk.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import fmean, median
from typing import Any, Final

from aidre.engine.collection.store import Store
from aidre.engine.embedding.embedder import DEFAULT_SPACE, Embedder, load_embedder
from aidre.engine.model import Query
from aidre.engine.retrieve.by_document import documents
from aidre.engine.types import Hit
from benchmarks.bench_quality import collection_of, ingested
from benchmarks.quality import JudgedSet, ndcg, read_set, recall, sets_in
from benchmarks.report import record

TEN: Final = 10


class Found:
    """What the questions of a set found by one kind of search."""

    def __init__(self) -> None:
        self.ndcg: list[float] = []
        self.recall: list[float] = []
        self.different: list[int] = []
        self.micros: list[float] = []

    def search(self, search: Callable[[], Sequence[Hit]], grades: Any) -> None:
        started = time.perf_counter()
        hits = search()
        self.micros.append((time.perf_counter() - started) * 1e6)
        ids = [hit.document_id for hit in hits]
        self.ndcg.append(ndcg(ids, grades, TEN))
        self.recall.append(recall(ids, grades, TEN))
        self.different.append(len(set(ids)))


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="bench_group", description=__doc__)
    parser.add_argument("paths", nargs="+", type=Path, help="test sets, or folders of test sets")
    parser.add_argument("--keep", type=Path, required=True, help="the folder in which bench_quality keeps its stores")
    parser.add_argument("--update-readme", action="store_true", help="write the figures into README.md")
    options = parser.parse_args(argv)
    embedder, rows = load_embedder(DEFAULT_SPACE), {}
    for path in options.paths:
        for folder in sets_in(path):
            data = read_set(folder)
            rows[data.name] = measure(data, embedder, options.keep)
            print(data.name, rows[data.name], flush=True)
    record("bench_group", {"hybrid, by set": rows, **means(rows)}, readme=options.update_readme)
    return 0


def measure(data: JudgedSet, embedder: Embedder, keep: Path) -> dict[str, Any]:
    snapshot = ingested(Store(keep / "store"), collection_of(data.name), data.corpus, embedder)
    chunks, grouped = Found(), Found()
    for topic, vector in zip(data.topics, embedder.embed_queries([topic.text for topic in data.topics]), strict=True):
        query = Query(vector, DEFAULT_SPACE.id, TEN, text=topic.text, mode="hybrid")
        chunks.search(lambda query=query: snapshot.search(query), topic.grades)  # type: ignore[misc]
        grouped.search(lambda query=query: documents(snapshot, query, collapse=False).hits, topic.grades)  # type: ignore[misc]
    return {
        "chunks a document": round(snapshot.chunks / snapshot.documents, 2),
        "documents in ten chunks": round(fmean(chunks.different), 1),
        "recall@10 of chunks": round(fmean(chunks.recall), 4),
        "of documents": round(fmean(grouped.recall), 4),
        "nDCG@10 of chunks": round(fmean(chunks.ndcg), 4),
        "nDCG@10 of documents": round(fmean(grouped.ndcg), 4),
        "µs of chunks": round(median(chunks.micros)),
        "µs of documents": round(median(grouped.micros)),
    }


def means(rows: dict[str, dict[str, Any]]) -> dict[str, float]:
    names = "recall@10 of chunks", "of documents", "nDCG@10 of chunks", "nDCG@10 of documents"
    return {f"mean_{name}": round(fmean(row[name] for row in rows.values()), 4) for name in names}


if __name__ == "__main__":
    sys.exit(main())
