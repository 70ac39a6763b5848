"""What a backup takes of STORE/.log while a server writes there."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path

import pytest
from building import NAME, everything, write

from aidre.api.backup import LOG, log_files
from aidre.api.database import connect, transaction
from aidre.api.guard.guard import Guard
from aidre.api.settings import parse_settings
from aidre.engine.backup import back_up
from aidre.engine.errors import StorageFailed
from aidre.engine.restore import restore
from aidre.engine.store import Store

LIMITS = '[limits]\nrate = "9/minute"\nchunks_per_day = 9\n'


def rows(path: Path) -> list[int]:
    connection = sqlite3.connect(path)
    found = [row[0] for row in connection.execute("SELECT n FROM receipts ORDER BY n")]
    connection.close()
    return found


def test_receipts_come_back_and_what_concerns_a_running_server_does_not(tmp_path: Path) -> None:
    store = tmp_path / "store"
    write(store, ["a"])
    (store / LOG / "events").mkdir(parents=True)
    (store / LOG / "events" / "000001.jsonl").write_text("{}\n")
    (store / LOG / "events" / "LOCK").touch()
    (store / LOG / "cursor.key").write_text("secret")
    (store / LOG / "nlweb-promises.sqlite").write_bytes(b"SQLite format 3\0")
    asyncio.run(Guard(parse_settings(LIMITS), [store / LOG]).close())
    assert {path.name for path in (store / LOG).iterdir()} >= {"limits", "chunks-today"}
    connection = connect(store / LOG / "intent.sqlite", synchronous="FULL")
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
    restore(Store(new), tmp_path / "backup.tar", beside=LOG)
    assert sorted(path.name for path in (new / LOG).rglob("*")) == ["000001.jsonl", "events", "intent.sqlite"]
    assert rows(new / LOG / "intent.sqlite") == [1]
    assert rows(store / LOG / "intent.sqlite") == [1, 2]
    assert everything(Store(new).open(NAME)) == ["a"]
    (new / LOG / "events" / "000001.jsonl").write_text("written to again\n")


def test_a_store_without_receipts_has_none_to_save(tmp_path: Path) -> None:
    with log_files(tmp_path) as found:
        assert found == []


def test_a_database_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / LOG).mkdir()
    (tmp_path / LOG / "intent.sqlite").write_bytes(b"SQLite format 3\0" + b"x" * 5000)
    with pytest.raises(StorageFailed, match=r"\.log/intent\.sqlite cannot be read"), log_files(tmp_path):
        pass
