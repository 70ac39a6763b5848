"""What a backup takes of STORE/.log while a server writes there, `api/cli/backup.py`, and what ends it."""

from __future__ import annotations

import asyncio
import signal
import sqlite3
import tempfile
from pathlib import Path

import pytest

from aidre.api.access.guard import Guard
from aidre.api.cli.backup import LOG_FOLDER, log_files
from aidre.api.config.settings import parse_settings
from aidre.api.http.sqlite import connect, transaction
from aidre.api.protocols.intent.event_ledger import LEDGER_FILE, EventLedger, read_events
from aidre.engine.collection.store import Store
from aidre.engine.errors import StorageFailed
from aidre.engine.maintenance.backup import back_up
from aidre.engine.maintenance.restore import restore_archive
from tests.api.cli.backups import STAGES, interrupted_backup
from tests.hostile.nursery import started
from tests.hostile.older_receipts import older_receipts
from tests.support.stores import NAME, everything, write

LIMITS = '[limits]\nrate = "9/minute"\nchunks_per_day = 9\n'


def rows(path: Path) -> list[int]:
    connection = sqlite3.connect(path)
    found = [row[0] for row in connection.execute("SELECT n FROM receipts ORDER BY n")]
    connection.close()
    return found


def test_receipts_come_back_and_what_concerns_a_running_server_does_not(tmp_path: Path) -> None:
    store = tmp_path / "store"
    write(store, ["a"])
    (store / LOG_FOLDER / "events").mkdir(parents=True)
    (store / LOG_FOLDER / "events" / "000001.jsonl").write_text("{}\n")
    (store / LOG_FOLDER / "events" / "LOCK").touch()
    (store / LOG_FOLDER / "cursor.key").write_text("secret")
    for name in ("nlweb-promises.sqlite", "intake-rates.sqlite"):
        (store / LOG_FOLDER / name).write_bytes(b"SQLite format 3\0")
    asyncio.run(Guard(parse_settings(LIMITS), [store / LOG_FOLDER]).close())
    assert {path.name for path in (store / LOG_FOLDER).iterdir()} >= {"limits", "chunks-today"}
    connection = connect(store / LOG_FOLDER / "intent.sqlite", synchronous="FULL")
    connection.execute("CREATE TABLE receipts (n INTEGER)")
    with transaction(connection):
        connection.execute("INSERT INTO receipts VALUES (1)")
    connection.execute("BEGIN IMMEDIATE")
    connection.execute("INSERT INTO receipts VALUES (2)")
    with log_files(store) as found:
        assert [label for label, _ in found] == [".log/intent.sqlite", ".log/events/000001.jsonl"]
        back_up(Store(store), [NAME], tmp_path / "backup.tar", found)
    connection.execute("COMMIT")
    connection.close()
    new = tmp_path / "new"
    restore_archive(Store(new), tmp_path / "backup.tar", beside=LOG_FOLDER)
    assert sorted(path.name for path in (new / LOG_FOLDER).rglob("*")) == ["000001.jsonl", "events", "intent.sqlite"]
    assert rows(new / LOG_FOLDER / "intent.sqlite") == [1]
    assert rows(store / LOG_FOLDER / "intent.sqlite") == [1, 2]
    assert everything(Store(new).open(NAME)) == ["a"]
    (new / LOG_FOLDER / "events" / "000001.jsonl").write_text("written to again\n")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with receipts."""
    store = tmp_path_factory.mktemp("store")
    write(store, ["a"])
    (store / LOG_FOLDER).mkdir()
    connection = connect(store / LOG_FOLDER / "intent.sqlite", synchronous="OFF")
    connection.execute("CREATE TABLE receipts (n INTEGER)")
    connection.close()
    return store


def test_copies_of_databases_have_no_name_while_they_are_saved(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with log_files(store) as [(_, copy)]:
        assert list(tmp_path.iterdir()) == []
        assert copy.read_bytes()[:6] == b"SQLite"
    assert not copy.exists()


@pytest.mark.process
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGKILL])
def test_a_backup_that_is_ended_leaves_nothing(store: Path, tmp_path: Path, number: signal.Signals) -> None:
    temporary, target = tmp_path / "temporary", tmp_path / "backups" / "backup.tar"
    temporary.mkdir()
    target.parent.mkdir()
    for stage in STAGES:
        with started(interrupted_backup, stage, number, store, target, temporary) as child:
            child.process.join()
            status = child.process.exitcode
        assert status == (-number if number == signal.SIGKILL else 128 + number), stage
        assert temporary.with_suffix(".said").read_bytes() == b"", stage
        assert list(temporary.iterdir()) == [], stage
        left = [path.name for path in target.parent.iterdir()]
        assert target.name not in left
        assert len(left) <= (number == signal.SIGKILL), "the next backup removes what a killed one has left"


@pytest.mark.parametrize("is_taken_over", [False, True])
def test_receipts_of_an_older_release_are_saved_once(tmp_path: Path, is_taken_over: bool) -> None:
    expected = older_receipts(tmp_path / LOG_FOLDER, ["a", "b", "c", "d"])
    if is_taken_over:
        EventLedger(tmp_path / LOG_FOLDER / LEDGER_FILE).close()
    with log_files(tmp_path) as found:
        assert len(found) == (1 if is_taken_over else 2)
        for label, path in found:
            copy = tmp_path / "restored" / label
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(path.read_bytes())
    restored = tmp_path / "restored" / LOG_FOLDER / LEDGER_FILE
    for _ in range(2):
        assert [event["event_id"] for event in read_events(restored)] == expected
        EventLedger(restored).close()


def test_a_store_without_receipts_has_none_to_save(tmp_path: Path) -> None:
    with log_files(tmp_path) as found:
        assert found == []


def test_a_database_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / LOG_FOLDER).mkdir()
    (tmp_path / LOG_FOLDER / "intent.sqlite").write_bytes(b"SQLite format 3\0" + b"x" * 5000)
    with pytest.raises(StorageFailed, match=r"\.log/intent\.sqlite cannot be read"), log_files(tmp_path):
        pass
