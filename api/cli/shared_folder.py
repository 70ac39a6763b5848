"""The folder that the workers of one server share, in memory if possible; removes the folders of dead servers.

The process that creates a folder holds a lock on a file in it for its lifetime. The next server that starts removes
every folder without a lock: this works after any signal, and does not depend on process ids, which are reused.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

MEMORY_FOLDER = Path("/dev/shm")
"""A file system in memory."""

PREFIX = "aidre-run-"
OWNER_FILE = "owner"
GRACE_SECONDS = 60.0
"""A younger folder without a lock may belong to a server that is about to take the lock."""


@contextmanager
def shared_folder() -> Iterator[Path]:
    """A folder of this process, removed at the end of the context. Abandoned folders are removed at its start."""
    parent = MEMORY_FOLDER if os.access(MEMORY_FOLDER, os.W_OK) else Path(tempfile.gettempdir())
    remove_abandoned(parent)
    folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=parent))
    descriptor = os.open(folder / f".{OWNER_FILE}", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        (folder / f".{OWNER_FILE}").rename(folder / OWNER_FILE)  # under this name the file is always locked
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(descriptor)


def remove_abandoned(parent: Path) -> None:
    """Remove the folders of servers that have ended, those of other users excepted."""
    for folder in parent.glob(f"{PREFIX}*"):
        with suppress(OSError):
            if _is_abandoned(folder):
                shutil.rmtree(folder, ignore_errors=True)


def _is_abandoned(folder: Path) -> bool:
    status = folder.lstat()
    if folder.is_symlink() or status.st_uid != os.geteuid():
        return False
    try:
        descriptor = os.open(folder / OWNER_FILE, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        return status.st_mtime < time.time() - GRACE_SECONDS
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(descriptor)
    return True
