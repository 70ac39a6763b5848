"""The user's cache folder: derived folders, published atomically and safe to delete.

It is `AIDRE_CACHE`, else `$XDG_CACHE_HOME/aidre`, else `~/.cache/aidre`. This module does not know its contents.
"""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from aidre.engine.errors import StorageFailed
from aidre.engine.storage import durable


def cache_folder() -> Path:
    """The cache folder, created if missing; if it is not writable, a private folder of this user in the system's
    temporary folder."""
    folder = named_cache()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    except OSError:
        return _temporary_cache()
    return folder


def cache_folders() -> list[Path]:
    """The cache folder, and the one that is meant to be it but cannot be written: what it has can be read."""
    return list(dict.fromkeys((cache_folder(), named_cache())))


@contextmanager
def staging(parent: Path) -> Iterator[Path]:
    """A new folder beside the published ones, removed on exit unless it was published."""
    parent.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix=".new-", dir=parent))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def publish(folder: Path, target: Path, intact: Callable[[Path], bool]) -> None:
    """Publish the finished `folder` as `target` atomically. An intact `target` of another process is kept."""
    for path in (*folder.rglob("*"), folder):
        if path.is_dir():
            durable.sync_folder(path)
        else:
            durable.sync_file(path)
    for _ in range(3):  # each attempt can lose to one other process
        try:
            folder.rename(target)
        except OSError:
            if intact(target):
                return
            _set_aside(target)
        else:
            durable.sync_folder(target.parent)
            return
    raise StorageFailed(f"cache folder {target.parent} cannot be written: free it, or name another one in AIDRE_CACHE")


def write_file(path: Path, content: bytes) -> None:
    """Replace a small file atomically."""
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=".new-", delete=False) as file:
        file.write(content)
    Path(file.name).replace(path)


def _set_aside(target: Path) -> None:
    with staging(target.parent) as aside:
        try:
            target.rename(aside / "damaged")
        except FileNotFoundError:
            return


def named_cache() -> Path:
    """The folder that is meant to be it, whether or not it is there."""
    named = os.environ.get("AIDRE_CACHE")
    return (Path(named).expanduser() if named else _home_cache() / "aidre").absolute()


def _home_cache() -> Path:
    named = os.environ.get("XDG_CACHE_HOME")
    return Path(named) if named else Path("~/.cache").expanduser()


def _temporary_cache() -> Path:
    """A private folder; one prepared by another user is not trusted, because models in it are executed."""
    folder = Path(tempfile.gettempdir()) / f"aidre-{os.getuid()}"
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        state = folder.lstat()
    except OSError:
        return Path(tempfile.mkdtemp(prefix="aidre-"))
    mine = stat.S_ISDIR(state.st_mode) and state.st_uid == os.getuid() and not state.st_mode & 0o022
    return folder if mine else Path(tempfile.mkdtemp(prefix="aidre-"))
