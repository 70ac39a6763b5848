"""The notes of a folder by their names, as wikilinks call them."""

from __future__ import annotations

import os
import posixpath
from collections import defaultdict
from pathlib import Path

_NOTES = (".md", ".mdx", ".qmd", ".markdown")
_MAX_FILES = 200_000


class NoteNames:
    """Files below a folder. A name without a folder means the note with the shortest path."""

    def __init__(self, root: Path) -> None:
        self._by_path: dict[str, str] = {}
        self._by_name: dict[str, list[str]] = defaultdict(list)
        count = 0
        for top, folders, files in os.walk(root):
            folders[:] = sorted(name for name in folders if not name.startswith(".") and name != "node_modules")
            prefix = os.path.relpath(top, root).replace(os.sep, "/")
            for name in sorted(files):
                stem, suffix = posixpath.splitext(name)
                if suffix.lower() not in _NOTES:
                    continue
                path = name if prefix == "." else f"{prefix}/{name}"
                self._by_path.setdefault(path.lower()[: -len(suffix)], path)
                self._by_name[stem.lower()].append(path)
            count += len(files)
            if count > _MAX_FILES:
                break

    def find(self, name: str, beside: str = "") -> str | None:
        """The path of a note that a page in the folder `beside` calls by that name, or path."""
        name = name.strip().strip("/").lower()
        for suffix in _NOTES:
            name = name.removesuffix(suffix)
        if not name:
            return None
        relative = posixpath.normpath(posixpath.join(beside.lower(), name))
        for path in (relative, name) if name.startswith(".") else (name, relative):
            if path in self._by_path:
                return self._by_path[path]
        last = name.rpartition("/")[2]
        candidates = [path for path in self._by_name.get(last, ()) if _ends_with(path, name)]
        return min(candidates, key=lambda path: (path.count("/"), path), default=None)


def _ends_with(path: str, name: str) -> bool:
    stem = posixpath.splitext(path.lower())[0]
    return stem == name or stem.endswith("/" + name)
