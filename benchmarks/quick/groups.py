"""The groups of `make bench-quick`, for pytest-benchmark: in each, what is watched and the yardstick beside it.

A yardstick is fixed: it does the same kind of work over the same rows with numpy, the standard library or an empty
server, and none of aidre's code. All run in turns, so that a busy machine slows both sides. A group is two functions,
`quick_NAME` and `yardstick_of_NAME`.
"""

from __future__ import annotations

import http.client
import itertools
import json
import os
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import cycle, islice
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

from aidre.engine.collection.snapshot import Snapshot
from aidre.engine.collection.store import Store
from aidre.engine.model import EmbeddingSpace, Query
from aidre.ingest.pipeline.ingest import ingest
from aidre.ingest.pipeline.run import IngestOptions
from benchmarks.harness.commands import echoing, server, until_answered
from benchmarks.harness.data import vectors
from benchmarks.harness.equal_passages import texts
from benchmarks.text.bench_text import BLOCK, material, questions, records_of, vectors_of

ROWS_OF: Final = "AIDRE_QUICK_ROWS"
"""The environment variable with the number of rows."""
ROWS: Final = 20_000
TURNS: Final = 3
QUERIES: Final = 64
INGESTED: Final = 500
DIMENSIONS: Final = 384
TOP_K: Final = 10
COLLECTION: Final = "bench"
SPACE: Final = EmbeddingSpace("v", DIMENSIONS, "cosine", normalized=True)
CONFIGURATION: Final = f"""
[[spaces]]
id = "{SPACE.id}"
dimensions = {DIMENSIONS}
distance = "cosine"
normalized = true

[collections.{COLLECTION}]
spaces = ["{SPACE.id}"]
"""
ANSWER_BYTES: Final = 3_000
"""Of the echo server: about what ten results take."""

Benchmark = Any
"""pytest-benchmark's fixture."""


class Data(NamedTuple):
    """Chunks with their vectors, and questions with theirs; `folder` holds them as a store and as JSON lines."""

    folder: Path
    rows: NDArray[np.float32]
    texts: list[str]
    vectors: NDArray[np.float32]
    questions: list[str]

    @property
    def store(self) -> Path:
        return self.folder / "store"

    @property
    def lines(self) -> Path:
        return self.folder / "documents.jsonl"


@pytest.fixture(scope="session", autouse=True, params=range(TURNS))
def turn(request: pytest.FixtureRequest) -> int:
    """All groups run once before any runs again."""
    number: int = request.param
    return number


@pytest.fixture(autouse=True)
def group(request: pytest.FixtureRequest, benchmark: Benchmark) -> None:
    """The last word of a name: `quick_search` and `yardstick_of_search` are the two sides of one."""
    benchmark.group = str(request.node.originalname).rpartition("_")[2]


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory) -> Data:
    count, folder = int(os.environ.get(ROWS_OF, ROWS)), tmp_path_factory.mktemp("quick")
    passages = list(islice(texts(None), 1_200))
    made = material(passages[:1_000], vectors(1_000, DIMENSIONS))
    blocks = [(first, min(BLOCK, count - first)) for first in range(0, count, BLOCK)]
    parts = [(first, *vectors_of(made, first, size)) for first, size in blocks]
    records = [one for first, pairs, _ in parts for one in records_of(made, pairs, first)]
    rows = np.concatenate([part for *_, part in parts])
    with Store(folder / "store").writer(COLLECTION, spaces=[SPACE]) as writer:
        writer.upsert(records, {SPACE.id: writer.encode(SPACE.id, rows)}, {})
        writer.commit()
        writer.finish()
    stored = [record.document for record in records]
    found = Data(
        folder,
        rows,
        [one.text for one in stored],
        vectors(QUERIES, DIMENSIONS, 6),
        questions(passages[1_000:], QUERIES),
    )
    with found.lines.open("wb") as lines:
        for one, row in zip(stored[:INGESTED], rows, strict=False):
            line = {"id": one.id, "text": one.text, "vectors": {SPACE.id: row.tolist()}}
            lines.write(json.dumps(line).encode() + b"\n")
    return found


@pytest.fixture(scope="session")
def snapshot(data: Data) -> Snapshot:
    return Store(data.store).open(COLLECTION)


@pytest.fixture(scope="session")
def served(data: Data) -> Iterator[int]:
    """The port of a server over the store."""
    config = data.folder / "aidre.toml"
    config.write_text(CONFIGURATION)
    with server(["--store", data.store, "--config", config], 1) as (_, port):
        until_answered(port, bodies(data)[0])
        yield port


@pytest.fixture(scope="session")
def echoed() -> Iterator[int]:
    with echoing(ANSWER_BYTES) as (_, port):
        yield port


def each(benchmark: Benchmark, values: Sequence[Any], step: Callable[[Any], Any]) -> None:
    following = cycle(values)
    benchmark(lambda: step(next(following)))


def best(scores: NDArray[np.float32]) -> NDArray[np.intp]:
    found = np.argpartition(scores, -TOP_K)[-TOP_K:]
    return found[np.argsort(scores[found])[::-1]]


# -- search, by vector: beside the product of a matrix and a vector --------------------------------------------------


def quick_search(benchmark: Benchmark, data: Data, snapshot: Snapshot) -> None:
    each(benchmark, [Query(row, SPACE.id, TOP_K) for row in data.vectors], snapshot.search)


def yardstick_of_search(benchmark: Benchmark, data: Data) -> None:
    each(benchmark, list(data.vectors), lambda query: best(data.rows @ query))


# -- lexical: beside scores that were computed beforehand, added with numpy ------------------------------------------


def quick_lexical(benchmark: Benchmark, data: Data, snapshot: Snapshot) -> None:
    asked = [Query(None, None, TOP_K, text=text, mode="lexical") for text in data.questions]
    each(benchmark, asked, snapshot.search)


def yardstick_of_lexical(benchmark: Benchmark, data: Data) -> None:
    scan = WordScan(data.texts)
    each(benchmark, data.questions, scan.search)


class WordScan:
    """BM25 without stems, as bm25s does it: a word's scores in all rows are known, and a search adds them up."""

    def __init__(self, texts: Sequence[str]) -> None:
        counts = [Counter(words(text)) for text in texts]
        lengths = np.array([count.total() for count in counts], np.float32)
        found: dict[str, list[tuple[int, int]]] = {}
        for row, count in enumerate(counts):
            for word, number in count.items():
                found.setdefault(word, []).append((row, number))
        self.rows = len(texts)
        self.postings = {word: self._scored(pairs, lengths) for word, pairs in found.items()}

    def _scored(self, pairs: Sequence[tuple[int, int]], lengths: NDArray[np.float32]) -> tuple[Any, Any]:
        held, numbers = np.array(pairs).T
        rarity = np.log(1 + (self.rows - len(held) + 0.5) / (len(held) + 0.5))
        norm = 1.2 * (0.25 + 0.75 * lengths[held] / lengths.mean())
        return held, (rarity * numbers * 2.2 / (numbers + norm)).astype(np.float32)

    def search(self, question: str) -> NDArray[np.intp]:
        scores = np.zeros(self.rows, np.float32)
        for word in words(question):
            if word in self.postings:
                held, gained = self.postings[word]
                scores[held] += gained
        return best(scores)


def words(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower())


# -- hybrid: beside both of these ------------------------------------------------------------------------------------


def quick_hybrid(benchmark: Benchmark, data: Data, snapshot: Snapshot) -> None:
    pairs = zip(data.vectors, data.questions, strict=True)
    asked = [Query(row, SPACE.id, TOP_K, text=text, mode="hybrid") for row, text in pairs]
    each(benchmark, asked, snapshot.search)


def yardstick_of_hybrid(benchmark: Benchmark, data: Data) -> None:
    scan = WordScan(data.texts)
    pairs = list(zip(data.vectors, data.questions, strict=True))
    each(benchmark, pairs, lambda pair: (best(data.rows @ pair[0]), scan.search(pair[1])))


# -- ingest: beside reading the same lines, counting their words and writing the same vectors, synced ----------------


def quick_ingest(benchmark: Benchmark, data: Data, tmp_path: Path) -> None:
    numbers = itertools.count()

    def load() -> None:
        store = Store(tmp_path / str(next(numbers)))
        ingest(store, COLLECTION, [data.lines], spaces=[SPACE], embedders={}, options=IngestOptions(), report=silent)

    benchmark.pedantic(load, rounds=3, warmup_rounds=1)


def yardstick_of_ingest(benchmark: Benchmark, data: Data, tmp_path: Path) -> None:
    def load() -> None:
        documents = [json.loads(line) for line in data.lines.read_bytes().splitlines()]
        counts = [Counter(words(one["text"])) for one in documents]
        rows = np.array([one["vectors"][SPACE.id] for one in documents], np.float16)
        for name, content in (("vectors", rows.tobytes()), ("words", json.dumps(counts).encode())):
            with (tmp_path / name).open("wb") as file:
                file.write(content)
                os.fsync(file.fileno())

    benchmark.pedantic(load, rounds=3, warmup_rounds=1)


def silent(event: object) -> None:
    """What ingest reports is of no interest here."""


# -- http: beside an empty server under the same uvicorn -------------------------------------------------------------


def quick_http(benchmark: Benchmark, data: Data, served: int) -> None:
    ask(benchmark, bodies(data), served)


def yardstick_of_http(benchmark: Benchmark, data: Data, echoed: int) -> None:
    ask(benchmark, bodies(data), echoed)


def ask(benchmark: Benchmark, requests: Sequence[bytes], port: int) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)

    def post(body: bytes) -> None:
        connection.request("POST", "/search", body, {"Content-Type": "application/aidre+json"})
        response = connection.getresponse()
        response.read()
        assert response.status == 200

    each(benchmark, requests, post)
    connection.close()


def bodies(data: Data) -> list[bytes]:
    return [json.dumps({"query_vector": row.tolist(), "embedding_space": SPACE.id}).encode() for row in data.vectors]
