"""Reads files beneath a folder by their relative paths, and none outside of it."""

from __future__ import annotations

import os
import posixpath
from dataclasses import dataclass
from pathlib import Path

from aidre.ingest.records import open_beneath

MAX_BYTES = 1 << 20
"""Bytes of a configuration file, and of an included one; a larger one is not read."""


@dataclass(frozen=True, slots=True)
class Folder:
    """Paths are relative to `root`, with slashes. Links that leave `bounds`, and paths that do, are as if absent."""

    root: Path
    bounds: Path

    def real(self, path: str) -> Path | None:
        """The path of a file, whether it exists or not; None if it leads out of the bounds."""
        joined = Path(os.path.normpath(self.root / path))
        return joined if joined.is_relative_to(self.bounds) and "\0" not in path else None

    def read(self, path: str) -> str | None:
        """The text of a file; None for one that does not exist, cannot be read, is too large, or is outside."""
        content = self.read_bytes(path)
        return None if content is None else content.decode("utf-8", "replace").removeprefix("\ufeff")

    def read_bytes(self, path: str) -> bytes | None:
        real = self.real(path)
        if real is None:
            return None
        try:
            with os.fdopen(open_beneath(self.bounds, real), "rb") as stream:
                content = stream.read(MAX_BYTES + 1)
        except (OSError, ValueError):
            return None
        return content if len(content) <= MAX_BYTES else None

    def is_file(self, path: str) -> bool:
        real = self.real(path)
        return real is not None and os.path.isfile(real)  # noqa: PTH113 - Path.is_file fails for a long name

    def is_folder(self, path: str) -> bool:
        real = self.real(path)
        return real is not None and os.path.isdir(real)  # noqa: PTH112

    def names(self, path: str) -> list[str]:
        """The names in a folder, sorted; none for one that does not exist."""
        real = self.real(path)
        try:
            return sorted(one.name for one in real.iterdir()) if real is not None else []
        except OSError:
            return []


def below(path: str, folder: str) -> str | None:
    """A normalized path relative to a folder that it is in; None if it is not."""
    folder = posixpath.normpath(folder or ".")
    if folder == ".":
        return None if path.startswith("../") else path
    return path[len(folder) + 1 :] if path.startswith(folder + "/") else None


def split_name(path: str) -> tuple[str, str, str]:
    """Folder with a slash at its end ("" for none), stem and suffix of a path."""
    folder, name = posixpath.split(path)
    stem, suffix = posixpath.splitext(name)
    return (folder + "/" if folder else ""), stem, suffix.lower()
