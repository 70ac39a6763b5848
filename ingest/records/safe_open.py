"""Opens a file beneath a folder without following symlinks out of it, even if a path becomes a link meanwhile (TOCTOU).

Write access to a source folder must not publish other files that this process may read.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Final

_LINK_ERRORS: Final = (errno.ELOOP, errno.ENOTDIR)
"""What O_NOFOLLOW raises at a link that is opened as a file, and as a folder."""

_FILE_FLAGS: Final = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
"""O_NONBLOCK: a file that was replaced by a pipe must not block; it has no effect on a regular file."""

_FOLDER_FLAGS: Final = getattr(os, "O_PATH", os.O_RDONLY) | os.O_CLOEXEC | os.O_DIRECTORY
"""O_PATH, if available: a folder on the way needs the search permission alone, not the read permission."""


def open_beneath(folder: Path, path: Path) -> int:
    """A descriptor of the regular file at `path`, below `folder`; raises OSError (EXDEV for a link that leaves)."""
    try:
        return _open_without_links(folder, path.relative_to(folder).parts)
    except OSError as error:
        if error.errno not in _LINK_ERRORS:
            raise
    # There are links on the way: resolve them, then open the real path without following any.
    root, real = Path(os.path.realpath(folder)), Path(os.path.realpath(path))
    if not real.is_relative_to(root):
        raise OSError(errno.EXDEV, "a link that leads out of the folder: ingest its target as a source of its own")
    return _open_without_links(root, real.relative_to(root).parts)


def _open_without_links(folder: Path, parts: Sequence[str]) -> int:
    descriptor = os.open(folder, _FOLDER_FLAGS)
    for depth, part in enumerate(parts, 1):
        flags = _FILE_FLAGS if depth == len(parts) else _FOLDER_FLAGS | os.O_NOFOLLOW
        try:
            inner = os.open(part, flags, dir_fd=descriptor)
        finally:
            os.close(descriptor)
        descriptor = inner
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "not a file any more")
    return descriptor
