"""SQLite files that workers share, `api/http/sqlite.py`: how they are opened, and what opening one again does."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from aidre.api.http.sqlite import connect, transaction

LEAVE_WAL = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], timeout=0)
try:
    print(connection.execute("PRAGMA journal_mode = DELETE").fetchone()[0])
except sqlite3.OperationalError as error:
    print(error)
"""


@pytest.mark.process
def test_opening_a_file_again_leaves_the_locks_of_who_has_it_open(tmp_path: Path) -> None:
    path = tmp_path / "shared.sqlite"
    with closing(connect(path, synchronous="FULL")) as first:
        first.execute("CREATE TABLE kept (value)")
        connect(path, synchronous="FULL").close()
        # Another process may end WAL mode, and with it remove the log, only where nobody has the file open.
        done = subprocess.run([sys.executable, "-c", LEAVE_WAL, str(path)], capture_output=True, text=True, check=True)
        assert done.stdout.strip() == "database is locked"


def test_a_file_is_its_owners_alone_and_written_ahead(tmp_path: Path) -> None:
    path = tmp_path / "shared.sqlite"
    with closing(connect(path, synchronous="NORMAL")) as connection:
        assert path.stat().st_mode & 0o777 == 0o600
        assert connection.execute("PRAGMA journal_mode").fetchone()[0] == "wal"
        assert connection.execute("PRAGMA secure_delete").fetchone()[0] == 1


def test_a_transaction_that_fails_leaves_nothing_and_the_next_one_begins(tmp_path: Path) -> None:
    with closing(connect(tmp_path / "shared.sqlite", synchronous="OFF")) as connection:
        connection.execute("CREATE TABLE kept (value UNIQUE)")
        with pytest.raises(sqlite3.IntegrityError), transaction(connection):
            connection.execute("INSERT INTO kept VALUES (1)")
            connection.execute("INSERT INTO kept VALUES (1)")
        with transaction(connection):
            connection.execute("INSERT INTO kept VALUES (2)")
        assert connection.execute("SELECT value FROM kept").fetchall() == [(2,)]
