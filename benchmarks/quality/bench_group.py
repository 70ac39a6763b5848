"""Ten documents beside ten chunks: what a search by document finds that one for chunks does not, and what it takes.

    python -m benchmarks group PATH... --keep DIR [--update-readme]

PATH and --keep are those of `bench_quality`, which embeds the sets once. Each question is searched hybrid in turn for
ten chunks, for ten documents, and for ten of which none is a near-copy of a better one. A document has the rank of its
best chunk.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import fmean, median
from typing import Any, Final

from aidre.engine.collection.snapshot import Snapshot
from aidre.engine.collection.store import Store
from aidre.engine.embedding.embedder import DEFAULT_SPACE, Embedder, load_embedder
from aidre.engine.model import Query
from aidre.engine.retrieve.by_document import documents
from aidre.engine.types import Hit
from benchmarks.harness.judged_sets import JudgedSet, ndcg, read_set, recall, sets_in
from benchmarks.quality.bench_quality import collection_of, ingested
from benchmarks.report.results import record

TEN: Final = 10
KINDS: Final[Mapping[str, Callable[[Snapshot, Query], Sequence[Hit]]]] = {
    "chunks": lambda snapshot, query: snapshot.search(query),
    "documents": lambda snapshot, query: documents(snapshot, query, collapse=False).hits,
    "distinct": lambda snapshot, query: documents(snapshot, query, collapse=True).hits,
}


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
            snapshot = ingested(Store(options.keep / "store"), collection_of(data.name), data.corpus, embedder)
            rows[data.name] = measure(data, snapshot, embedder)
            print(data.name, rows[data.name], flush=True)
    rows["mean"] = {name: round(fmean(row[name] for row in rows.values()), 4) for name in next(iter(rows.values()))}
    record("bench_group", {"chunks, documents, distinct documents": rows}, readme=options.update_readme)
    return 0


def measure(data: JudgedSet, snapshot: Snapshot, embedder: Embedder) -> dict[str, Any]:
    recalls, gains, micros = ({kind: list[float]() for kind in KINDS} for _ in range(3))
    different = []
    for topic, vector in zip(data.topics, embedder.embed_queries([topic.text for topic in data.topics]), strict=True):
        query = Query(vector, DEFAULT_SPACE.id, TEN, text=topic.text, mode="hybrid")
        snapshot.search(query)  # so that the first kind finds in memory what the others do
        for kind, search in KINDS.items():
            started = time.perf_counter()
            hits = search(snapshot, query)
            micros[kind].append((time.perf_counter() - started) * 1e6)
            ids = [hit.document_id for hit in hits]
            recalls[kind].append(recall(ids, topic.grades, TEN))
            gains[kind].append(ndcg(ids, topic.grades, TEN))
            different += [len(set(ids))] if kind == "chunks" else []
    return {
        "chunks a document": round(snapshot.chunks / snapshot.documents, 2),
        "documents in ten chunks": round(fmean(different), 1),
        **{f"recall@10 {kind}": round(fmean(found), 4) for kind, found in recalls.items()},
        **{f"nDCG@10 {kind}": round(fmean(found), 4) for kind, found in gains.items()},
        **{f"µs {kind}": round(median(found)) for kind, found in micros.items()},
    }


if __name__ == "__main__":
    sys.exit(main())
