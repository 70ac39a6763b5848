"""Finds the configuration files of generators in a folder, and in the folders that it is in.

A folder of pages often is a part of a repository whose configuration is above it, or in `website` beside it. Folders
above are looked at up to the one that holds `.git`, a few at most; they only say which addresses pages have.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from aidre.ingest.records import escape_unprintable
from aidre.ingest.sites.generators import GENERATORS
from aidre.ingest.sites.settings import Folder, Generator

_MAX_FOLDERS = 20_000
_MAX_DEPTH = 8
_MAX_ABOVE = 4
_MAX_SITES = 200
_BESIDE = ("website", "site", "docs")
"""Folders beside that of the pages in which some projects keep the configuration."""

_NEVER = frozenset({"node_modules", "__pycache__", "venv", "vendor"})


class Recognised(NamedTuple):
    """A generator with the folder of its configuration. `config` is the file's name, relative to the source."""

    generator: Generator
    folder: Folder
    config: str


def recognise(root: Path, *, deep: bool = True) -> list[Recognised]:
    """The sites of a folder: inside first, the deepest first, then those above it, the nearest first.

    Without `deep` the folders inside are not looked at.
    """
    inside = sorted(_inside(root, _MAX_DEPTH if deep else 0), key=lambda one: -len(one.folder.root.parts))
    return [*inside, *_above(root)]


def _inside(root: Path, max_depth: int) -> Iterator[Recognised]:
    pending = [(root, 0)]
    seen = found = 0
    top = _top(root)
    while pending and seen < _MAX_FOLDERS and found < _MAX_SITES:
        folder, depth = pending.pop()
        seen += 1
        try:
            with os.scandir(folder) as entries:
                names = {entry.name: entry.is_dir(follow_symlinks=False) for entry in entries}
        except OSError:
            continue
        one = _load(Folder(folder, top), names, root)
        if one is not None:
            found += 1
            yield one
        if depth < max_depth:
            inner = (name for name, is_folder in names.items() if is_folder and name not in _NEVER)
            pending += [(folder / name, depth + 1) for name in inner if not name.startswith((".", "~$"))]


def _top(root: Path) -> Path:
    """The folder with `.git` that a folder is in, if it is near: parts of a configuration may be there; else itself."""
    return next((one for one in (root, *list(root.parents)[:_MAX_ABOVE]) if _is_top(one)), root)


def _is_top(folder: Path) -> bool:
    return os.path.exists(folder / ".git")  # noqa: PTH110 - Path.exists fails where a folder may not be looked into


def _above(root: Path) -> Iterator[Recognised]:
    here = root
    for folder in list(root.parents)[:_MAX_ABOVE]:
        if _is_top(here):
            return
        for candidate in (folder, *(folder / name for name in _BESIDE)):
            if candidate != here and os.path.isdir(candidate) and not os.path.islink(candidate):  # noqa: PTH112, PTH114
                one = _load(Folder(candidate, folder), dict.fromkeys(_names(candidate), True), root)
                if one is not None:
                    yield one
        here = folder


def _names(folder: Path) -> list[str]:
    try:
        return [entry.name for entry in folder.iterdir()]
    except OSError:
        return []


def _load(folder: Folder, names: dict[str, bool], root: Path) -> Recognised | None:
    """The generator of one folder, by the first configuration file that it has."""
    for file, load in GENERATORS.items():
        if file.partition("/")[0] in names and (folder.is_file(file) or folder.is_folder(file)):
            generator = load(folder, file)
            if generator is not None:
                return Recognised(generator, folder, _name(folder.root / file, root))
    return None


def _name(file: Path, root: Path) -> str:
    return escape_unprintable(os.path.relpath(file, root))
