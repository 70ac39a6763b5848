"""What `aidre events` shows and exports, `api/cli/events.py`, and who may read what the protocol writes down."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import stat
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from aidre.api.cli.events import export
from aidre.api.cli.main import run
from tests.hostile.older_receipts import older_receipts
from tests.support.publishers import log_of, printed, publishing

Kept = tuple[Path, list[dict[str, Any]]]
"""A store, and the events that it has."""


@pytest.fixture
def store(publisher: Path, tmp_path: Path) -> Path:
    """A publisher's store for one test."""
    shutil.copytree(publisher / "store", tmp_path / "store")
    return tmp_path / "store"


@pytest.fixture(scope="module")
def kept(publisher: Path, tmp_path_factory: pytest.TempPathFactory) -> Kept:
    """Five accesses and two citations, in a store that is read only."""
    store = tmp_path_factory.mktemp("kept") / "store"
    shutil.copytree(publisher / "store", store)
    with publishing(store) as (client, platform):
        answers = [platform.retrieve(platform.request(id=f"req_{n}")) for n in range(5)]
        for answer in answers[:2]:
            platform.report(platform.citation(answer, timestamp="2026-01-05T10:00:00+01:00"))
        return store, log_of(client)


@pytest.fixture
def own_kept(kept: Kept, tmp_path: Path) -> Kept:
    """The same in a store for one test."""
    shutil.copytree(kept[0], tmp_path / "store")
    return tmp_path / "store", kept[1]


@pytest.mark.slow
def test_events_are_listed_in_order(kept: Kept, capsys: pytest.CaptureFixture[str]) -> None:
    store, events = kept
    status, lines, _ = printed(capsys, "events", "--store", store, "--json")
    assert status == 0
    assert [json.loads(line) for line in lines] == events
    _, lines, _ = printed(capsys, "events", "--store", store)
    assert len(lines) == 7
    assert "10 chunks" in lines[0]
    assert "https://example.com/" in lines[5]


@pytest.mark.parametrize(
    ("words", "count"),
    [
        (["--type", "access"], 5),
        (["--type", "citation"], 2),
        (["--platform", "platform"], 7),
        (["--platform", "other"], 0),
        (["--request", "req_1"], 2),
        (["--request", "req_1", "--type", "citation"], 1),
        (["--until", "2026-01-05T09:00:00Z"], 0),
        (["--until", "2026-01-05T09:00:01Z"], 2),
        (["--since", "2026-01-05T09:00:00Z", "--type", "citation"], 2),
        (["--since", "2026-01-06", "--type", "citation"], 0),
    ],
)
def test_events_are_filtered(kept: Kept, capsys: pytest.CaptureFixture[str], words: list[str], count: int) -> None:
    status, lines, _ = printed(capsys, "events", "--store", kept[0], *words, "--json")
    assert (status, len(lines)) == (0, count)


def test_events_are_exported_as_lines_and_as_parquet(
    kept: Kept, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store, events = kept
    lines, parquet = tmp_path / "out.jsonl", tmp_path / "out.parquet"
    assert printed(capsys, "events", "--store", store, "--export", lines, "--json")[1] == ['{"exported":7}']
    assert [json.loads(line) for line in lines.read_text(encoding="utf-8").splitlines()] == events
    assert printed(capsys, "events", "--store", store, "--export", parquet, "--type", "citation")[0] == 0
    table = pq.read_table(parquet).to_pylist()
    assert [row["citation"] for row in table] == [event["citation"] for event in events if "citation" in event]
    assert {row["timestamp"] for row in table} == {datetime(2026, 1, 5, 9, tzinfo=UTC)}
    assert {row["access"] for row in table} == {None}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out.jsonl", "out.parquet"]


def test_what_an_interrupted_export_of_the_same_process_number_left_is_replaced(tmp_path: Path) -> None:
    (tmp_path / f".events.jsonl.{os.getpid()}.tmp").write_text("half", encoding="utf-8")
    assert export([{"event_id": "1"}], tmp_path / "events.jsonl") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["events.jsonl"]


def test_what_is_exported_is_for_its_owner_alone(store: Path, tmp_path: Path) -> None:
    with publishing(store) as (_, platform):
        platform.retrieve()
    for name in ("events.jsonl", "events.parquet"):
        for _ in range(2):  # also over one that is there
            assert run(["events", "--store", str(store), "--export", str(tmp_path / name)]) == 0
            assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o600


@pytest.mark.parametrize("before", [None, 0o755])
def test_what_is_written_down_is_for_its_owner_alone(store: Path, before: int | None) -> None:
    folder = store / ".log"
    if before is not None:
        folder.mkdir(mode=before)
        folder.chmod(before)
    umask = os.umask(0)
    try:
        with publishing(store) as (_, platform):
            platform.report(platform.citation(platform.retrieve()))
            modes = {stat.S_IMODE(path.stat().st_mode) for path in folder.rglob("*") if path.is_file()}
    finally:
        os.umask(umask)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert modes == {0o600}


def test_a_store_without_events_has_none(store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert printed(capsys, "events", "--store", store, "--json") == (0, [], "")
    assert printed(capsys, "events", "--store", store, "--export", tmp_path / "none.parquet")[0] == 0
    assert pq.read_table(tmp_path / "none.parquet").num_rows == 0


@pytest.mark.parametrize(
    "words", [["--since", "soon"], ["--until", "5"], ["--export", "events.csv"], ["--type", "click"]], ids=" ".join
)
def test_a_wrong_call_is_one_line(store: Path, capsys: pytest.CaptureFixture[str], words: list[str]) -> None:
    status, out, err = printed(capsys, "events", "--store", store, *words)
    assert (status, out, err.count("\n")) == (2, [], 1)


def contents(folder: Path) -> dict[Path, bytes]:
    """All files but the index of a write-ahead log, which readers change."""
    files = (path for path in folder.rglob("*") if path.is_file() and not path.name.endswith("-shm"))
    return {path: path.read_bytes() for path in files}


def test_events_of_an_older_release_are_listed_where_they_lie(
    store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    expected = older_receipts(store / ".log", ["a", "b", "c", "d", "e"])
    before = contents(store / ".log")
    status, listed, _ = printed(capsys, "events", "--store", store, "--json")
    assert (status, [json.loads(line)["event_id"] for line in listed]) == (0, expected)
    assert run(["events", "--store", str(store), "--export", str(tmp_path / "all.jsonl")]) == 0
    lines = (tmp_path / "all.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line)["event_id"] for line in lines] == expected
    after = contents(store / ".log")
    assert {path: content for path, content in after.items() if not path.name.endswith("-wal")} == before


@pytest.mark.parametrize("size", [100, 2_000])
def test_a_ledger_that_cannot_be_read_is_said_behind_what_an_older_log_has(
    store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], size: int
) -> None:
    expected = older_receipts(store / ".log", ["a", "b"], 1)
    (store / ".log" / "intent.sqlite").write_bytes((b"not a database " * size)[:size])
    status, lines, error = printed(capsys, "events", "--store", store, "--json")
    assert (status, [json.loads(line)["event_id"] for line in lines]) == (1, expected)
    assert "cannot use intent.sqlite" in str(error)
    assert run(["events", "--store", str(store), "--export", str(tmp_path / "all.jsonl")]) == 1
    assert not (tmp_path / "all.jsonl").exists()


def test_events_are_exported_to_standard_output(kept: Kept, capsys: pytest.CaptureFixture[str]) -> None:
    status, lines, _ = printed(capsys, "events", "--store", kept[0], "--export", "-", "--type", "citation")
    assert (status, [json.loads(line) for line in lines]) == (0, kept[1][5:])


def test_a_damaged_event_is_left_out_and_a_damaged_page_said_behind_the_others(
    own_kept: Kept, capsys: pytest.CaptureFixture[str]
) -> None:
    store, events = own_kept
    path = store / ".log" / "intent.sqlite"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    whole = path.read_bytes()
    place = whole.index(events[2]["event_id"].encode())
    path.write_bytes(whole[: place - 1] + b"\0" + whole[place:])
    status, lines, _ = printed(capsys, "events", "--store", store, "--json")
    assert (status, [json.loads(line) for line in lines]) == (0, [*events[:2], *events[3:]])
    path.write_bytes(whole[:4_096] + b"\xff" * 4_096 + whole[8_192:])
    assert printed(capsys, "events", "--store", store, "--json")[0] == 1
