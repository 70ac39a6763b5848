"""The folder that the workers of one server share, in memory where that is to be had, and what dead servers left there.

Whoever makes a folder holds the lock of a file in it as long as it lives: a folder that nobody holds is removed by the
next server that starts, which no signal can prevent and no number of a process can mistake.
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

MEMORY = Path("/dev/shm")
"""Files there cost no disk."""
PREFIX = "aidre-run-"
OWNER = "owner"
YOUNG_SECONDS = 60.0
"""So long after it was made, a folder without a lock may be one whose owner is just about to take it."""


@contextmanager
def shared_folder() -> Iterator[Path]:
    """A folder of this process's own; it is removed at the end, and those that nobody holds any more at once."""
    place = MEMORY if os.access(MEMORY, os.W_OK) else Path(tempfile.gettempdir())
    remove_left(place)
    folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=place))
    descriptor = os.open(folder / f".{OWNER}", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        (folder / f".{OWNER}").rename(folder / OWNER)  # it has its name when it is locked, and at no time before
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(descriptor)


def remove_left(place: Path) -> None:
    """Removes the folders of servers that are no more; those of other users are not ours to open."""
    for folder in place.glob(f"{PREFIX}*"):
        with suppress(OSError):
            if _is_left(folder):
                shutil.rmtree(folder, ignore_errors=True)


def _is_left(folder: Path) -> bool:
    status = folder.lstat()
    if folder.is_symlink() or status.st_uid != os.geteuid():
        return False
    try:
        descriptor = os.open(folder / OWNER, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        return status.st_mtime < time.time() - YOUNG_SECONDS
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(descriptor)
    return True
