"""Opens a file of a folder and none outside of it, whatever becomes a link between the look at it and the opening.

Who may write into a folder decides what is published of it, and of nothing else that this process may read.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Final

_LINKED: Final = (errno.ELOOP, errno.ENOTDIR)
"""How opening ends at a link that is not followed: as a file, as a folder."""

_FILE: Final = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
"""What became a pipe must not block; of a file it means nothing."""
_FOLDER: Final = getattr(os, "O_PATH", os.O_RDONLY) | os.O_CLOEXEC | os.O_DIRECTORY
"""To go through, if possible: a folder on the way need not be one that can be listed."""


def open_beneath(folder: Path, path: Path) -> int:
    """The descriptor of the file at a path below the folder, reached by no link that leads out; raises OSError."""
    try:
        return _opened(folder, path.relative_to(folder).parts)
    except OSError as error:
        if error.errno not in _LINKED:
            raise
    # Where the links lead now is gone to without following any.
    root, real = Path(os.path.realpath(folder)), Path(os.path.realpath(path))
    if not real.is_relative_to(root):
        raise OSError(errno.EXDEV, "a link that leads out of the folder: give what it leads to as a source of its own")
    return _opened(root, real.relative_to(root).parts)


def _opened(folder: Path, parts: Sequence[str]) -> int:
    place = os.open(folder, _FOLDER)
    for at, part in enumerate(parts, 1):
        flags = _FILE if at == len(parts) else _FOLDER | os.O_NOFOLLOW
        try:
            inner = os.open(part, flags, dir_fd=place)
        finally:
            os.close(place)
        place = inner
    if not stat.S_ISREG(os.fstat(place).st_mode):
        os.close(place)
        raise OSError(errno.EINVAL, "not a file any more")
    return place
