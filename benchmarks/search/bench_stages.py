"""The stages of one search request in process, each measured alone by pytest-benchmark.

    python -m benchmarks stages [--rows N] [--synthetic] [--update-readme]

The stages: read the JSON, parse the request, encode the vector, search, render the answer; then the additional stages
of a filter and of a text query. The store holds real passages with their embeddings. A figure is the median of many
rounds over different queries, in microseconds and as a share of the vector search.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from itertools import cycle
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import orjson
import pytest

from aidre.api.config.settings import CollectionSettings, Limits
from aidre.api.http.envelope import JSON_VARIANT
from aidre.api.protocols.aidre import search
from aidre.api.protocols.aidre.search_messages import ReturnFields, SearchMeta
from aidre.api.retrieval.visibility import VisibleCollection
from aidre.engine.collection.snapshot import Snapshot
from aidre.engine.collection.store import Store
from aidre.engine.embedding.embedder import DEFAULT_SPACE, load_embedder
from aidre.engine.index.fields.filters import parse_filter
from aidre.engine.index.vectors.encoding import encode_query
from aidre.engine.model import Chunk, Document, EmbeddingSpace, Query, Record
from aidre.engine.retrieve import Answer, Question, State
from benchmarks.harness.metrics import figure
from benchmarks.harness.real import ROWS, Real, real, synthetic
from benchmarks.report import results as report

COLLECTION, SPACE, TOP_K, BATCH = "bench", "v", 10, 20_000
QUERIES: Final = 200
CONDITION: Final = {"year": {"gte": 2000}}
ROWS_OF, SYNTHETIC = "AIDRE_STAGES_ROWS", "AIDRE_STAGES_SYNTHETIC"
"""Environment variables by which `main` passes its options to the stages, which pytest imports itself."""

REFERENCE_STAGE: Final = "search"
"""The other stages are reported as shares of this one."""

Benchmark = Callable[[Callable[[], Any]], Any]


class Served(NamedTuple):
    """A snapshot, query vectors, query texts, and request bodies."""

    snapshot: Snapshot
    queries: list[Any]
    texts: list[str]
    bodies: list[bytes]


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="bench_stages", description=__doc__)
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--synthetic", action="store_true", help="synthetic vectors instead of real embeddings")
    parser.add_argument("--seconds", type=float, default=1.0, help="time limit per stage")
    parser.add_argument("--update-readme", action="store_true", help="write benchmarks/REPORT.md and README.md")
    options = parser.parse_args(argv)
    os.environ |= {ROWS_OF: str(options.rows), SYNTHETIC: "1" if options.synthetic else ""}
    with tempfile.TemporaryDirectory() as folder:
        measured = Path(folder) / "stages.json"
        status = run(measured, options.seconds)
        if status:
            return status
        raw = json.loads(measured.read_bytes())
    figures = {"rows": options.rows, "stages": stages(raw)}
    print(json.dumps(figures, indent=1))
    report.record("bench_stages", figures, raw=raw, readme=options.update_readme)
    return 0


def run(measured: Path, seconds: float) -> int:
    # The options of the tests, which do without this plugin, are left out.
    words = ["-q", "-p", "no:cacheprovider", "-o", "addopts=", "-o", "filterwarnings="]
    words += ["-o", "python_functions=stage_*"]
    words += ["--benchmark-disable-gc", "--benchmark-warmup=on", f"--benchmark-max-time={seconds}"]
    return int(pytest.main([*words, f"--rootdir={measured.parent}", f"--benchmark-json={measured}", __file__]))


def stages(raw: dict[str, Any]) -> dict[str, Any]:
    """Median and quartiles of each stage in microseconds, and its share of the search."""
    found = {one["name"].removeprefix("stage_"): one["stats"] for one in raw["benchmarks"]}
    whole = found[REFERENCE_STAGE]["median"]
    return {
        name.replace("_", " "): {
            "p50_us": float(figure(1e6 * stats["median"]).replace(",", "")),
            "quartiles_us": [float(figure(1e6 * stats[quartile]).replace(",", "")) for quartile in ("q1", "q3")],
            "over_the_search": round(stats["median"] / whole, 3),
        }
        for name, stats in found.items()
    }


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    rows = int(os.environ.get(ROWS_OF, ROWS))
    with tempfile.TemporaryDirectory() as folder:
        found = synthetic(Path(folder) / "made", rows, QUERIES) if os.environ.get(SYNTHETIC) else real(rows, QUERIES)
        snapshot = build(Path(folder) / "store", found)
        queries = [np.array(row) for row in found.ood]
        bodies = [json.dumps({"query_vector": row.tolist(), "embedding_space": SPACE}).encode() for row in queries]
        yield Served(snapshot, queries, found.questions()[: len(queries)], bodies)


def build(path: Path, found: Real) -> Snapshot:
    space = EmbeddingSpace(SPACE, found.rows.shape[1], "cosine", normalized=True)
    passages = found.passages()
    with Store(path).writer(COLLECTION, spaces=[space]) as writer:
        for first in range(0, len(found.rows), BATCH):
            rows = np.asarray(found.rows[first : first + BATCH])
            records = [record(number, passages[number]) for number in range(first, first + len(rows))]
            writer.upsert(records, {SPACE: writer.encode(SPACE, rows)}, {})
        writer.commit()
        writer.finish()
    return Store(path).open(COLLECTION)


def record(number: int, text: str) -> Record:
    url = f"https://example.com/rows/{number}"
    document = Document(
        f"row-{number:08d}", text, title=f"Row {number}", url=url, metadata={"year": 1990 + number % 36}
    )
    chunk = Chunk(f"{document.id}#chunk_1", 1, text, 0, len(text))
    return Record(document, (chunk,), number.to_bytes(16, "little"))


def each(benchmark: Benchmark, values: Sequence[Any], stage: Callable[[Any], Any]) -> None:
    following = cycle(values)
    benchmark(lambda: stage(next(following)))


def stage_read(benchmark: Benchmark, served: Served) -> None:
    each(benchmark, served.bodies, orjson.loads)


def stage_parse(benchmark: Benchmark, served: Served) -> None:
    each(benchmark, [orjson.loads(body) for body in served.bodies], lambda body: search.parse(body, Limits()))


def stage_encode(benchmark: Benchmark, served: Served) -> None:
    space = served.snapshot.space(SPACE).space
    each(benchmark, served.queries, lambda vector: encode_query(space, vector))


def stage_search(benchmark: Benchmark, served: Served) -> None:
    each(benchmark, dense(served), served.snapshot.search)


def stage_render(benchmark: Benchmark, served: Served) -> None:
    state = State(served.snapshot)
    shown = VisibleCollection(COLLECTION, state.reader, state, CollectionSettings(), "public")
    space = served.snapshot.space(SPACE).space
    answers = [
        Answer(Question(TOP_K), state, "dense", space, query, served.snapshot.search(query), None)
        for query in dense(served)
    ]
    meta = SearchMeta(returned=TOP_K, top_k=TOP_K, mode="dense", embedding_space=SPACE)
    each(
        benchmark,
        answers,
        lambda answer: search.render(
            shown, answer, ReturnFields(text=True), meta, identifier="0" * 8, variant=JSON_VARIANT
        ),
    )


def stage_filter_parsed(benchmark: Benchmark, served: Served) -> None:
    each(benchmark, [CONDITION], parse_filter)


def stage_mask_made(benchmark: Benchmark, served: Served) -> None:
    segments, condition = served.snapshot.segments, parse_filter(CONDITION)
    each(benchmark, [condition], lambda only: [view.segment.fields.mask(only) for view in segments])


def stage_search_filtered(benchmark: Benchmark, served: Served) -> None:
    requests = [Query(row, SPACE, TOP_K, filter=parse_filter(CONDITION)) for row in served.queries]
    each(benchmark, requests, served.snapshot.search)


def stage_query_embedded(benchmark: Benchmark, served: Served) -> None:
    if os.environ.get(SYNTHETIC):
        pytest.skip("synthetic runs load no model")
    embedder = load_embedder(DEFAULT_SPACE)
    each(benchmark, served.texts, lambda text: embedder.embed_queries([text]))


def stage_search_lexical(benchmark: Benchmark, served: Served) -> None:
    requests = [Query(None, None, TOP_K, text=text, mode="lexical") for text in served.texts]
    each(benchmark, requests, served.snapshot.search)


def stage_search_hybrid(benchmark: Benchmark, served: Served) -> None:
    """Dense search, BM25 and their fusion."""
    pairs = zip(served.queries, served.texts, strict=True)
    requests = [Query(row, SPACE, TOP_K, text=text, mode="hybrid") for row, text in pairs]
    each(benchmark, requests, served.snapshot.search)


def dense(served: Served) -> list[Query]:
    return [Query(row, SPACE, TOP_K) for row in served.queries]


if __name__ == "__main__":
    sys.exit(main())
