"""The files of STORE/.log: those that a backup takes (receipts, offers and binds), and their verification.

Promises, the cursor secret and the counters of limits are left out: they belong to the running server.
"""

from __future__ import annotations

import os
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

from aidre.api.access.limits import chunk_budget, token_bucket
from aidre.api.http import connect_read_only, find_damage
from aidre.api.protocols.intent import LEDGER_FILE, log_faults
from aidre.engine.errors import StorageFailed
from aidre.engine.maintenance import StoreProblem

LOG_FOLDER = ".log"
_SQLITE_MAGIC = b"SQLite format 3\0"
_EXCLUDED = (
    "nlweb-promises.sqlite",
    "intake-rates.",
    "cursor.key",
    "LOCK",
    token_bucket.NAME,
    chunk_budget.NAME,
    "scrub.",
)
"""File names that begin so."""

_SQLITE_COMPANIONS = ("-wal", "-shm", "-journal")


@contextmanager
def log_files(store: Path, folder: Path | None = None) -> Iterator[list[tuple[str, Path]]]:
    """The files to back up of the folder of receipts, by default that in the store, each with its name in the archive;
    databases as copies that vanish with the context.

    Each is as of one moment. The copies are unlinked before they are written, so that none remains however the process
    ends. Databases come first, so that the event log of an older release, copied later, has every event that they refer
    to. Raises StorageFailed.
    """
    folder = store / LOG_FOLDER if folder is None else folder
    paths = [path for path in sorted(folder.rglob("*")) if path.is_file() and not _is_excluded(path)]
    with ExitStack() as copies:
        databases = [path for path in paths if _is_database(path)]
        files = [(_archive_name(folder, path), _copy(path, copies)) for path in databases]
        files += [(_archive_name(folder, path), path) for path in paths if path not in databases]
        yield files


def _is_excluded(path: Path) -> bool:
    is_taken_over = path.parent.name.endswith(".old")  # the event log of an older release
    return is_taken_over or path.name.startswith((".", *_EXCLUDED)) or path.name.endswith(_SQLITE_COMPANIONS)


def _is_database(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(len(_SQLITE_MAGIC)) == _SQLITE_MAGIC


def _archive_name(folder: Path, path: Path) -> str:
    return f"{LOG_FOLDER}/{path.relative_to(folder).as_posix()}"


def _copy(path: Path, copies: ExitStack) -> Path:
    """A consistent copy of a database, even while a server writes to it. The copy is unlinked before it is written."""
    with tempfile.NamedTemporaryFile(prefix="aidre-") as temporary:
        copy = copies.enter_context(os.fdopen(os.open(temporary.name, os.O_RDONLY | os.O_CLOEXEC), "rb"))
        target = sqlite3.connect(temporary.name)
        target.execute("PRAGMA journal_mode = OFF").fetchall()  # a journal would be a second file with a name
    try:
        with closing(target), closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as source:
            source.backup(target)
    except sqlite3.Error as error:
        raise StorageFailed(f"{LOG_FOLDER}/{path.name} cannot be read: {error}", file=path.name) from error
    return Path(f"/proc/self/fd/{copy.fileno()}")


_DATABASES = {LEDGER_FILE: False, "intake.sqlite": False, "nlweb-promises.sqlite": True}
"""By file name: whether its loss does no harm. Promises are valid for minutes."""


def log_problems(store: Path, folder: Path | None = None) -> Iterator[StoreProblem]:
    """Damage in the folder of receipts, offers, binds and promises, by default that in the store.

    Databases are checked by row checksums and SQLite's own check; the event log of an older release, as long as it is
    not taken over, by the checksums in its ledger and line by line.
    """
    folder = store / LOG_FOLDER if folder is None else folder
    for name, is_expendable in _DATABASES.items():
        if (folder / name).exists():
            fault = find_damage(folder / name)
            if fault is not None:
                yield StoreProblem(f"{LOG_FOLDER}/{name}", fault, is_expendable)
    for path, fault, is_derived in _log_faults(folder):
        yield StoreProblem(f"{LOG_FOLDER}/{path.relative_to(folder).as_posix()}", fault, is_derived)


def _log_faults(folder: Path) -> list[tuple[Path, str, bool]]:
    try:
        with closing(connect_read_only(folder / LEDGER_FILE)) as connection:
            return list(log_faults(folder, connection))
    except sqlite3.Error:  # without its ledger, whose damage was reported above
        return list(log_faults(folder, None))
