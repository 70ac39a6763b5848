"""Bulk loads: rows by columns, derived files by processes, commits under way. The store is what row by row makes it."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from aidre.api.cli import main as cli
from aidre.engine.collection import commit as commits
from aidre.engine.collection.snapshot import Snapshot
from aidre.engine.collection.store import Store
from aidre.engine.maintenance.verify import verify
from aidre.ingest.formats.tables.parquet import read_parquet
from aidre.ingest.records.batch import RowBatch
from aidre.ingest.records.file import File
from aidre.ingest.records.vectors import VectorRules
from tests.support.ingests import BROUGHT, Bench
from tests.support.stores import NAME, names, normal, put, space_of, structured


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path, spaces=(BROUGHT,))


@pytest.fixture
def shared(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every commit of a first bulk load goes on ahead, and processes make what is derived."""
    monkeypatch.setattr(commits, "MIN_BACKGROUND_ROWS", 1)
    monkeypatch.setattr(commits, "MIN_WORKER_ROWS", 1)
    monkeypatch.setattr(commits, "available_cores", lambda: 2)


def rows(count: int, first: int = 0) -> list[dict[str, Any]]:
    vectors = normal(count, 4, seed=first + 1)
    return [
        {
            "id": f"d{number}",
            "title": None if number % 5 == 0 else f'Title "{number}"',
            "text": f"Wörter und words number {number}\n\u0007",
            "url": None if number % 7 == 0 else f"https://x.org/{number}",
            "updated_at": f"2026-04-01T12:00:{number % 60:02d}+02:00",
            "section": "A > B" if number % 3 else None,
            "type": "Article" if number % 2 else None,
            "metadata": {"n": number, "language": "de" if number % 4 else None, "tags": ["a", f"t{number % 9}"]},
            "price": number / 4 if number % 6 else None,
            "vectors": {BROUGHT.id: vector.tolist()},
        }
        for number, vector in enumerate(vectors, first)
    ]


def as_table(path: Path, found: list[dict[str, Any]], **options: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(found), path, **options)
    return path


def lines(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The same rows for JSON Lines: what a table has not is null there and missing here."""
    made = [{name: value for name, value in row.items() if value is not None} for row in found]
    for row in made:
        if "metadata" in row:
            row["metadata"] = {name: value for name, value in row["metadata"].items() if value is not None}
    return made


def stored(snapshot: Snapshot) -> dict[str, Any]:
    """Everything that a store holds of each chunk, and of what filters and words see of all of them."""
    chunks = {}
    for part in snapshot.segments:
        segment = part.segment
        spoken = [segment.lexicon.tags[place] for place in segment.lexicon.languages.tolist()]
        for row in range(segment.entry.chunks):
            chunk_id = segment.chunks.value("id", row)
            chunk = snapshot.get(chunk_id)
            assert chunk is not None
            document = {
                name: segment.documents.value(name, chunk.document_row)
                for name in segment.documents.file.schema.names
                if name not in ("first_chunk", "origin")
            }
            whole = {name: segment.chunks.value(name, row) for name in segment.chunks.file.schema.names}
            del whole["document_row"]
            vectors = {space: vector.tobytes() for space, vector in chunk.vectors().items()}
            chunks[chunk_id] = (document, whole, vectors, spoken[row], int(segment.lexicon.lengths[row]))
    return chunks


# -- rows by columns -------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_table_is_stored_as_the_same_rows_one_by_one(tmp_path: Path, bench: Bench) -> None:
    found = rows(50)
    as_table(bench.docs / "r.parquet", found)
    other = Bench(tmp_path / "other", spaces=(BROUGHT,))
    other.rows("r.jsonl", *lines(found))
    assert bench.run(source="s").updated == other.run(source="s").updated == 50
    assert stored(bench.store.open("c")) == stored(other.store.open("c"))
    assert len(stored(bench.store.open("c"))) == 50


@pytest.mark.slow
def test_rows_are_unchanged_whichever_way_they_came(bench: Bench) -> None:
    found = rows(20)
    as_table(bench.docs / "r.parquet", found)
    assert bench.run(source="s").new == 20
    assert bench.run(source="s").unchanged == 20
    (bench.docs / "r.parquet").unlink()
    bench.rows("r.jsonl", *lines(found))
    summary = bench.run(source="s")
    assert (summary.unchanged, summary.updated) == (20, 0)


@pytest.mark.slow
def test_a_changed_table_writes_what_changed_and_keeps_the_first_date(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = [{name: value for name, value in row.items() if name != "updated_at"} for row in rows(20)]
    as_table(bench.docs / "r.parquet", found)
    bench.run()
    dates = {key: document["updated_at"] for key, (document, *_) in stored(bench.store.open("c")).items()}
    found[3]["title"] = "another"
    found[4]["text"] = "another"
    monkeypatch.setattr("aidre.engine.collection.writer.now", lambda: "2999-01-01T00:00:00Z")
    as_table(bench.docs / "r.parquet", [*found, *({**row, "updated_at": None} for row in rows(2, first=20))])
    summary = bench.run()
    assert (summary.unchanged, summary.updated, summary.new) == (18, 4, 2)
    after = {key: document["updated_at"] for key, (document, *_) in stored(bench.store.open("c")).items()}
    assert after["d3#chunk_1"] == dates["d3#chunk_1"]
    assert after["d4#chunk_1"] == after["d20#chunk_1"] == "2999-01-01T00:00:00Z"


def read(bench: Bench, found: list[dict[str, Any]]) -> list[Any]:
    path = as_table(bench.docs / "r.parquet", found)
    return list(read_parquet(File(path, "s", "r.parquet"), VectorRules([BROUGHT], [])))


@pytest.mark.slow
def test_usual_rows_come_as_columns(bench: Bench) -> None:
    (found,) = read(bench, rows(10))
    assert isinstance(found, RowBatch)
    assert [where for where, _ in found.documents()] == [f"r.parquet:{number}" for number in range(1, 11)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("id", ""),
        ("id", "a\u0000b"),
        ("id", "x" * 2000),
        ("id", None),
        ("updated_at", "yesterday"),
        ("metadata", None),
        ("vectors", None),
        ("vectors", {BROUGHT.id: [0.0, 0.0, 0.0, 0.0]}),
        ("vectors", {BROUGHT.id: [1.0, 2.0]}),
        ("vectors", {BROUGHT.id: [float("nan"), 0.0, 0.0, 1.0]}),
    ],
)
def test_an_unusual_row_in_the_middle_is_named_as_it_is_row_by_row(
    tmp_path: Path, bench: Bench, name: str, value: Any
) -> None:
    found = rows(30)
    found[13][name] = value
    as_table(bench.docs / "r.parquet", found)
    other = Bench(tmp_path / "other", spaces=(BROUGHT,))
    content = b"".join(orjson.dumps(row) + b"\n" for row in lines(found))
    other.write("r.jsonl", content.replace(b"[null,", b"[1e999,"))
    one, two = bench.run(source="s"), other.run(source="s")
    assert (one.updated, one.failed) == (two.updated, two.failed)
    assert [problem.split(": ")[0][-3:] for problem in bench.problems] == [
        problem.split(": ")[0][-3:] for problem in other.problems
    ]
    assert [problem.partition(": ")[0] for problem in bench.problems] == ["r.parquet:14"] * one.failed


@pytest.mark.slow
def test_the_last_of_an_id_wins_in_a_batch_between_batches_and_between_commits(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, shared: None
) -> None:
    monkeypatch.setattr("aidre.ingest.formats.tables.parquet.BATCH_ROWS", 8)
    found = rows(64)
    for early, late in ((2, 5), (3, 12), (20, 60), (21, 61)):
        found[late]["id"] = found[early]["id"]
    as_table(bench.docs / "r.parquet", found)
    summary = bench.run(commit_every=16)
    assert summary.documents == 64
    assert bench.notices == [
        "4 documents repeat the id of an earlier one (d2, d3, d20, d21): the last of each id was kept"
    ]
    snapshot = bench.store.open("c")
    assert snapshot.documents == 60
    for early, late in ((2, 5), (3, 12), (20, 60), (21, 61)):
        chunk = snapshot.get(f"d{early}#chunk_1")
        assert chunk is not None
        assert chunk.text == found[late]["text"]
    assert [report.problems for report in verify(bench.store)] == [()]


@pytest.mark.slow
def test_commit_every_holds_for_columns(bench: Bench, shared: None) -> None:
    as_table(bench.docs / "r.parquet", rows(50))
    bench.run(commit_every=20)
    assert [commit.documents for commit in bench.commits] == [20, 40, 50]
    assert [commit.generation for commit in bench.commits] == [1, 2, 3]


# -- processes that derive -------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_load_by_processes_is_the_same_as_without(
    tmp_path: Path, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    as_table(bench.docs / "r.parquet", rows(60))
    bench.run(source="s", commit_every=25)
    other = Bench(tmp_path / "other", spaces=(BROUGHT,))
    as_table(other.docs / "r.parquet", rows(60))
    for name in ("MIN_BACKGROUND_ROWS", "MIN_WORKER_ROWS"):
        monkeypatch.setattr(commits, name, 1)
    monkeypatch.setattr(commits, "available_cores", lambda: 2)
    other.run(source="s", commit_every=25)
    one, two = bench.store.open("c"), other.store.open("c")
    assert stored(one) == stored(two)
    assert len(one.segments) == len(two.segments)
    for part, same in zip(one.segments, two.segments, strict=True):
        files, others = part.segment.entry.files, same.segment.entry.files
        assert {name: file.checksum for name, file in files.items()} == {
            name: file.checksum for name, file in others.items()
        }


@pytest.mark.slow
def test_index_codes_wait_for_the_end_of_a_load_however_long_it_takes(tmp_path: Path, shared: None) -> None:
    space, rows = space_of("cosine", 768), structured(1_800, 768)
    with Store(tmp_path).writer(NAME, spaces=[space]) as writer:
        for first, last in itertools.pairwise((0, 1_700, 1_750, 1_800)):
            put(writer, names(last - first, first), rows[first:last])
            writer.begin_commit()
            writer.wait_for_commit()
            for path in tmp_path.rglob("*"):  # nothing is too young to be swept
                os.utime(path, (0, 0))
        assert len(list(tmp_path.rglob("*.index.arrow"))) == 3
        writer.finish()
    snapshot = Store(tmp_path).open(NAME)
    assert [bool(part.segment.scans) for part in snapshot.segments] == [True]
    assert [report.problems for report in verify(Store(tmp_path))] == [()]


LOADED, FREE, COMMIT = 1_000, 600, 100
"""Rows of a load that is stopped, those that it reads without being told to go on, and those of a commit."""

LOAD = f"""
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # also where this test runs in the background of a shell
from aidre.api.cli import main as cli
from aidre.engine.collection import commit as commits
from aidre.ingest.formats.tables import parquet
assert commits.MIN_BACKGROUND_ROWS and commits.MIN_WORKER_ROWS
commits.MIN_BACKGROUND_ROWS = commits.MIN_WORKER_ROWS = 1
commits.available_cores = lambda: 2
parquet.BATCH_ROWS = {COMMIT}
read_batch = parquet._read_batch

def waiting(batch, first, *more):
    if first > {FREE}:
        sys.stdin.readline()
    return read_batch(batch, first, *more)

parquet._read_batch = waiting
sys.exit(cli.run(sys.argv[1:]))
"""


@pytest.mark.process
@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGKILL])
def test_a_load_that_is_stopped_keeps_what_was_acknowledged_and_goes_on_from_there(
    tmp_path: Path, stop: signal.Signals, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is stopped while it waits for rows, so it cannot have ended, and while it commits those that it has."""
    data = as_table(tmp_path / "docs" / "r.parquet", rows(LOADED), row_group_size=COMMIT)
    config = tmp_path / "aidre.toml"
    config.write_text(
        '[[spaces]]\nid = "brought"\ndimensions = 4\ndistance = "cosine"\n[collections.c]\nspaces = ["brought"]\n'
    )
    given = ["ingest", data, "--store", tmp_path / "store", "--collection", "c", "--config", config, "--json"]
    arguments = [*map(str, given), "--commit-every", str(COMMIT)]
    with subprocess.Popen(
        [sys.executable, "-c", LOAD, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as process:
        assert process.stdout is not None
        told = [orjson.loads(process.stdout.readline()) for _ in range(2)]
        os.kill(process.pid, stop)
        told += [orjson.loads(line) for line in process.stdout.read().splitlines() if line.endswith(b"}")]
    assert process.returncode != 0
    acknowledged = max(event["documents"] for event in told if event["event"] == "commit")
    assert 2 * COMMIT <= acknowledged <= FREE
    left = Store(tmp_path / "store").open("c").documents
    assert acknowledged <= left <= FREE
    capsys.readouterr()
    assert cli.run(arguments) == 0
    last = orjson.loads(capsys.readouterr().out.splitlines()[-1])
    assert (last["unchanged"], last["updated"]) == (left, LOADED - left)
    assert Store(tmp_path / "store").open("c").documents == LOADED
    assert [report.problems for report in verify(Store(tmp_path / "store"))] == [()]
