"""File sources: a folder or one file as a stream of documents, file by file. Writes nothing."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path

from aidre.ingest.records import File, Item, Mappings, Rejected, VectorRules, escape_unprintable
from aidre.ingest.sites import Sites, UrlStyle
from aidre.ingest.sources.other_kinds import describe_kinds
from aidre.ingest.sources.readers import is_document_file, read_file, readable_suffixes

_IGNORED_PREFIXES = (".", "~$")
"""Files and folders whose names begin with one of these are ignored: hidden ones, and lock files of word processors."""

_MAX_NAMED = 5
"""Skipped links and names that a notice names; it counts the others."""


@dataclass(frozen=True, slots=True)
class FileSource:
    """A folder or one file. `root` is the folder that ids made from paths are relative to; `only` is the file in it.

    Of a folder source code is read with `code` only; a file that is named is read in any case. With `ocr` (languages)
    images are read, and pages of PDF without text.
    """

    name: str
    root: Path
    only: str | None = None
    url_base: str | None = None
    code: bool = False
    url_style: UrlStyle = "auto"
    ocr: str | None = None

    def file(self, path: Path) -> File:
        """The file at a path, which has no address yet: `with_page` gives it one."""
        origin = path.relative_to(self.root).as_posix()
        within = self.root if self.only is None else None
        return File(path, self.name, origin, within=within, code=self.code, ocr=self.ocr)

    @property
    def suffixes(self) -> frozenset[str]:
        """The suffixes of the files that are read, in lower case."""
        return readable_suffixes(code=self.code or self.only is not None, ocr=self.ocr is not None)

    def sites(self, as_of: datetime | None = None) -> Sites:
        """The websites whose pages the files are, with what is published at `as_of`. Reads configuration files."""
        return Sites(self.root, self.name, self.url_base, self.url_style, deep=self.only is None, as_of=as_of)


def with_page(file: File, sites: Sites) -> File:
    """The file with the page that it is of a website, and the address of that."""
    page = sites.page(file)
    return replace(file, page=page, url=page.url)


@dataclass(frozen=True, slots=True)
class ReadFiles:
    """The files that one ingest has read, by device and inode, each with its source and its path in that.

    `other_kinds` counts by source the files that are not read, by suffix. `again` are sources with files that another
    name was read of.
    """

    names: dict[tuple[int, int], tuple[str, str]] = field(default_factory=dict)
    other_kinds: dict[str, Counter[str]] = field(default_factory=dict)
    again: set[str] = field(default_factory=set)

    def earlier_name(self, file: File) -> str | None:
        """Another name ("source/path") under which the file was read before; None for a file that was not, or cannot be
        opened."""
        try:
            status = file.path.stat()
        except OSError:
            return None
        name = file.source, file.origin
        first = self.names.setdefault((status.st_dev, status.st_ino), name)
        return None if first == name else "/".join(first)


def read_source(
    source: FileSource,
    rules: VectorRules,
    note: Callable[[str], None],
    mappings: Mappings | None = None,
    *,
    files: ReadFiles | None = None,
    as_of: datetime | None = None,
    called_by_path: Collection[str] = (),
) -> Iterator[Item]:
    """All items of a source, in the order of its file names; skipped files and links are reported to `note`.

    A file that has several names (links) is read once; `files` are those that other sources have read. Documents that
    are not published at `as_of` are left out. The files `called_by_path` ("source/path") get no id of their own.
    """
    sites = source.sites(as_of)
    for found in sites.in_order(source_files(source, note, files or ReadFiles())):
        if isinstance(found, Rejected):
            yield found
        else:
            is_called_by_path = bool(called_by_path) and found.id in called_by_path
            file = replace(found, is_called_by_path=True) if is_called_by_path else found
            yield from read_file(with_page(file, sites), rules, mappings, as_of)
    for text in sites.notices():
        note(text)


def source_files(source: FileSource, note: Callable[[str], None], files: ReadFiles) -> Iterator[File | Rejected]:
    """The files of a source that are to be read, in order, as `read_source` reads them."""
    other_kinds = files.other_kinds.setdefault(source.name, Counter())
    outside_links: list[str] = []
    second_names: list[str] = []
    suffixes = source.suffixes
    for path in walk(source, outside_links.append):
        if isinstance(path, Rejected):
            yield path
            continue
        file = source.file(path)
        if path.suffix.lower() in suffixes and (source.only is not None or is_document_file(file)):
            first = files.earlier_name(file)
            if first is None:
                yield file
            else:
                second_names.append(f"{file.id} is {first}")
                files.again.add(source.name)
        else:
            other_kinds[path.suffix.lower() or "no suffix"] += 1
    if other_kinds and source.only is None:
        skipped = "1 file" if other_kinds.total() == 1 else f"{other_kinds.total()} files"
        note(f"{source.name}: {skipped} of other kinds skipped ({describe_kinds(other_kinds)})")
    if second_names:
        names = escape_unprintable(", ".join(second_names[:_MAX_NAMED])) + (
            ", ..." if len(second_names) > _MAX_NAMED else ""
        )
        note(f"{source.name}: files with several names are read once ({names})")
    if outside_links:
        links = escape_unprintable(", ".join(outside_links[:_MAX_NAMED])) + (
            ", ..." if len(outside_links) > _MAX_NAMED else ""
        )
        skipped = f"{len(outside_links)} links that leave the folder skipped ({links})"
        note(f"{source.name}: {skipped}: ingest their targets as a source of their own")


def walk(source: FileSource, on_outside_link: Callable[[str], object]) -> Iterator[Path | Rejected]:
    """The files of a source in the order of their names, each folder once even if links form a cycle.

    A link that leaves the folder is not followed, and its path is passed to `on_outside_link`: an author who can write
    into the folder must not publish other files that this process may read.
    """
    if source.only is not None:
        yield source.root / source.only
        return
    yield from _FolderWalk(source, source.root.resolve(), on_outside_link).files()


@dataclass(slots=True)
class _FolderWalk:
    """State of a walk: the folders visited, and the links to folders and to files, which follow all others."""

    source: FileSource
    root: Path
    on_outside_link: Callable[[str], object]
    visited: set[tuple[int, int]] = field(default_factory=set)
    linked: list[Path] = field(default_factory=list)
    linked_files: list[Path] = field(default_factory=list)

    def files(self) -> Iterator[Path | Rejected]:
        yield from self._files_below(self.source.root)
        while self.linked:
            yield from self._files_below(self.linked.pop(0))
        yield from self.linked_files

    def _files_below(self, top: Path) -> Iterator[Path | Rejected]:
        pending = [top]
        while pending:
            folder = pending.pop()
            try:
                status = folder.stat()
                if (status.st_dev, status.st_ino) in self.visited:
                    continue
                self.visited.add((status.st_dev, status.st_ino))
                entries = _visible_entries(folder)
            except OSError as error:
                yield self._unreadable(folder, error)
                continue
            entries = [entry for entry in entries if self._is_inside(entry)]
            folders = [entry for entry in entries if _is_folder(entry)]
            self.linked.extend(Path(entry.path) for entry in folders if entry.is_symlink())
            pending.extend(Path(entry.path) for entry in reversed(folders) if not entry.is_symlink())
            files = [entry for entry in entries if _is_openable(entry)]
            self.linked_files.extend(Path(entry.path) for entry in files if entry.is_symlink())
            yield from (Path(entry.path) for entry in files if not entry.is_symlink())

    def _is_inside(self, entry: os.DirEntry[str]) -> bool:
        try:
            if not entry.is_symlink() or Path(os.path.realpath(entry.path)).is_relative_to(self.root):
                return True
        except OSError:  # the link has vanished or may not be followed: opening it reports that
            return True
        self.on_outside_link(Path(entry.path).relative_to(self.source.root).as_posix())
        return False

    def _unreadable(self, folder: Path, error: OSError) -> Rejected:
        origin = folder.relative_to(self.source.root).as_posix()
        return Rejected(
            escape_unprintable(origin), f"cannot be read: {error.strerror}", self.source.name, origin, folder=True
        )


def is_ignored(name: str) -> bool:
    """Whether an ingest leaves out files and folders of that name."""
    return name.startswith(_IGNORED_PREFIXES)


def _visible_entries(folder: Path) -> list[os.DirEntry[str]]:
    with os.scandir(folder) as entries:
        visible = (entry for entry in entries if not is_ignored(entry.name))
        return sorted(visible, key=lambda entry: entry.name)


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a link to itself
        return False


def _is_openable(entry: os.DirEntry[str]) -> bool:
    """Whether an entry is a file, or a dangling link, which is reported when it is opened; a pipe would block."""
    try:
        return entry.is_file() or (entry.is_symlink() and not Path(entry.path).exists())
    except OSError:
        return True
