"""What is saved of STORE/.log beside the collections: receipts, offers and binds, as they are in one moment each.

Promises, the secret of cursors and what the limits have counted are left out: they concern the server that runs now.
Copies that are needed on the way have no name, so that none is left, however this ends.
"""

from __future__ import annotations

import os
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

from aidre.api.guard import buckets, budget
from aidre.api.intake.rates import RATES
from aidre.engine.errors import StorageFailed

LOG = ".log"
_SQLITE = b"SQLite format 3\0"
_LEFT_OUT = ("nlweb-promises.sqlite", RATES, "cursor.key", "LOCK", buckets.NAME, budget.NAME, "scrub.")
_OF_SQLITE = ("-wal", "-shm", "-journal")


@contextmanager
def log_files(store: Path) -> Iterator[list[tuple[str, Path]]]:
    """The files to put into a backup, each with its name there; databases as copies that are gone afterwards.

    Databases come first: what they know to have been written to the event log stands in it then. StorageFailed.
    """
    folder = store / LOG
    paths = [path for path in sorted(folder.rglob("*")) if path.is_file() and not _is_left_out(path)]
    with ExitStack() as copies:
        databases = [path for path in paths if _is_database(path)]
        found = [(_label(store, path), _copied(path, copies)) for path in databases]
        found += [(_label(store, path), path) for path in paths if path not in databases]
        yield found


def _is_left_out(path: Path) -> bool:
    return path.name.startswith((".", *_LEFT_OUT)) or path.name.endswith(_OF_SQLITE)


def _is_database(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(len(_SQLITE)) == _SQLITE


def _label(store: Path, path: Path) -> str:
    return path.relative_to(store).as_posix()


def _copied(path: Path, copies: ExitStack) -> Path:
    """A consistent copy though a server writes to the database meanwhile. It has lost its name before it is written."""
    with tempfile.NamedTemporaryFile(prefix="aidre-") as named:
        copy = copies.enter_context(os.fdopen(os.open(named.name, os.O_RDONLY | os.O_CLOEXEC), "rb"))
        target = sqlite3.connect(named.name)
        target.execute("PRAGMA journal_mode = OFF").fetchall()  # a journal would stand beside it under a name
    try:
        with closing(target), closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as source:
            source.backup(target)
    except sqlite3.Error as error:
        raise StorageFailed(f"{LOG}/{path.name} cannot be read: {error}", file=path.name) from error
    return Path(f"/proc/self/fd/{copy.fileno()}")
