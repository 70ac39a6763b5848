"""Folders and files as streams of documents: which files there are, and which parser reads each. Writes nothing."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeAlias
from urllib.parse import quote

import pyarrow as pa

from aidre.engine.errors import AidreError, ConfigurationError
from aidre.engine.model import Json
from aidre.ingest.delimited import columns_of as delimited_columns
from aidre.ingest.delimited import delimited
from aidre.ingest.delimited import spaces_of as delimited_spaces
from aidre.ingest.extracted import sandboxed
from aidre.ingest.feeds import feed
from aidre.ingest.found import File, Found, Rejected, opened
from aidre.ingest.html import html
from aidre.ingest.json_file import holds_documents, json_file
from aidre.ingest.json_file import rows_of as json_file_rows
from aidre.ingest.json_file import spaces_of as json_file_spaces
from aidre.ingest.mapping import ColumnMapping, reach
from aidre.ingest.markdown import markdown, plain_text
from aidre.ingest.members import printable
from aidre.ingest.parquet import columns_of as parquet_columns
from aidre.ingest.parquet import parquet
from aidre.ingest.parquet import spaces_of as parquet_spaces
from aidre.ingest.rows import json_lines
from aidre.ingest.rows import rows_of as json_rows
from aidre.ingest.rows import spaces_of as json_spaces
from aidre.ingest.urls import is_url
from aidre.ingest.vectors import VectorRules
from aidre.ingest.web import WebSource, web_source
from aidre.ingest.xml import SNIFFED, Kind, kind_of_xml

Parser: TypeAlias = Callable[[File, VectorRules], Iterator[Found]]

PARSERS: dict[str, Parser] = {
    ".md": markdown,
    ".markdown": markdown,
    ".txt": plain_text,
    ".text": plain_text,
    ".html": html,
    ".htm": html,
    ".pdf": sandboxed("pdf"),
    ".docx": sandboxed("docx"),
    ".jsonl": json_lines,
    ".ndjson": json_lines,
    ".json": json_file,
    ".jsonld": json_file,
    ".csv": delimited,
    ".tsv": delimited,
    ".parquet": parquet,
    ".xml": feed,
    ".rss": feed,
    ".atom": feed,
}
_Look: TypeAlias = tuple[Callable[[File], Iterable[str]], Callable[[File], Iterable[Mapping[str, Json]]]]
_TABLES: dict[str, _Look] = {
    ".jsonl": (json_spaces, json_rows),
    ".ndjson": (json_spaces, json_rows),
    ".json": (json_file_spaces, json_file_rows),
    ".jsonld": (json_file_spaces, json_file_rows),
    ".csv": (delimited_spaces, delimited_columns),
    ".tsv": (delimited_spaces, delimited_columns),
    ".parquet": (parquet_spaces, parquet_columns),
}
"""For files of rows: the spaces that they bring vectors for, and rows that have all their columns."""

HIDDEN = (".", "~$")
"""How the names of files begin that are nobody's documents: hidden ones, and the locks of word processors."""


@dataclass(frozen=True, slots=True)
class Source:
    """A folder or one file. `root` is the folder that path ids count from; `only` is the file, inside it."""

    name: str
    root: Path
    only: str | None = None
    url_base: str | None = None

    def file(self, path: Path) -> File:
        origin = path.relative_to(self.root).as_posix()
        url = None if self.url_base is None else f"{self.url_base}/{quote(os.fsencode(origin))}"
        return File(path, self.name, origin, url, within=self.root if self.only is None else None)


AnySource: TypeAlias = Source | WebSource


def locate(paths: Sequence[str | Path], name: str | None = None, url_base: str | None = None) -> list[AnySource]:
    """The sources that these paths and addresses name; ConfigurationError for a path that is not there or readable."""
    if url_base is not None:
        if not url_base.startswith(("http://", "https://")):
            raise ConfigurationError(f"url base {url_base!r} must begin with http:// or https://")
        url_base = url_base.rstrip("/")
    sources = [_located(path, name, url_base) for path in paths]
    roots: dict[str, Path | str] = {}
    for source in sources:
        if roots.setdefault(source.name, source.root) != source.root:
            raise ConfigurationError(
                f"two sources are both named {source.name!r}: ingest one of them on its own with --source NAME"
            )
    return list(dict.fromkeys(sources))


def read(
    source: Source, rules: VectorRules, note: Callable[[str], None], mapping: ColumnMapping | None = None
) -> Iterator[Found]:
    """Everything that a source holds, file by file in order; `note` is told what was left out."""
    others: Counter[str] = Counter()
    outside: list[str] = []
    for found in [source.root / source.only] if source.only is not None else _walk(source, outside.append):
        if isinstance(found, Rejected):
            yield found
        elif found.suffix.lower() in PARSERS and (source.only is not None or _is_read(source.file(found))):
            yield from read_file(source.file(found), rules, mapping)
        else:
            others[found.suffix.lower() or "no suffix"] += 1
    if others:
        kinds = ", ".join(f"{kind} {count}" for kind, count in others.most_common(5))
        note(f"{source.name}: {others.total()} files of other kinds left out ({printable(kinds)})")
    if outside:
        links = printable(", ".join(outside[:5])) + (", ..." if len(outside) > 5 else "")
        left_out = f"{len(outside)} links that lead out of the folder left out ({links})"
        note(f"{source.name}: {left_out}: give what they lead to as a source of its own")


def brought_spaces(sources: Sequence[AnySource], mapping: ColumnMapping | None = None) -> set[str]:
    """Ids of the spaces that rows bring vectors for, from the schema or the first rows of each file on disk."""
    names: set[str] = set(mapping.vectors if mapping is not None else ())
    for file, (spaces_of, _) in _tables(sources):
        # Whoever reads the file says what is wrong with it.
        with suppress(OSError, pa.ArrowException, ValueError, AidreError):
            names.update(spaces_of(file))
    return names


def check_mapping(sources: Sequence[AnySource], mapping: ColumnMapping, where: str) -> None:
    """Refuse a mapping with a column that no row on disk has, as far as the first rows of each file tell."""
    missing, others = list(mapping.columns), dict[str, None]()
    for file, (_, columns_of) in _tables(sources):
        with suppress(OSError, pa.ArrowException, ValueError, AidreError):
            for row in columns_of(file):
                missing = [name for name in missing if reach(row, name) is None]
                others.update(dict.fromkeys(row))
                if not missing:
                    return
    if others:
        known = printable(", ".join(list(others)[:20]))
        raise ConfigurationError(f"{where} names the column {missing[0]!r}, which no row has: the rows have {known}")


def _tables(sources: Sequence[AnySource]) -> Iterator[tuple[File, _Look]]:
    for source in sources:
        if not isinstance(source, WebSource):
            for path in [source.root / source.only] if source.only is not None else _walk(source, _pass_over):
                look = _TABLES.get(path.suffix.lower()) if isinstance(path, Path) else None
                if look is not None and isinstance(path, Path):
                    yield source.file(path), look


def _located(path: str | Path, name: str | None, url_base: str | None) -> AnySource:
    if isinstance(path, str) and is_url(path):
        return web_source(path, name)
    if path == "":  # as of a variable that is not set; Path takes it for the folder we happen to be in
        raise ConfigurationError("a source has no name: give a file, a folder (. is this one) or an http(s) address")
    source = _source(Path(path), name, url_base)
    if source.only is None:
        return source
    file = source.root / source.only
    if _xml_kind(source.file(file)) != "sitemap":
        return source
    # Its pages are no documents of the folder, which may be a source of its own.
    return WebSource(name or f"{source.name}/{source.only}", source.only, str(file), file)


def _source(path: Path, name: str | None, url_base: str | None) -> Source:
    # A link that is named is known by its own name: only the folder that it stands in is resolved.
    absolute = Path(os.path.abspath(path))  # noqa: PTH100
    named = absolute.parent.resolve() / absolute.name
    try:
        if named.resolve(strict=True).is_dir():
            with os.scandir(named):
                return Source(name or _name(named), named, None, url_base)
    except (OSError, RuntimeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "a loop of links"
        raise ConfigurationError(f"source {printable(str(path))} cannot be read: {reason}") from None
    if not named.is_file():
        raise ConfigurationError(f"source {printable(str(path))} is neither a file nor a folder")
    if named.suffix.lower() not in PARSERS:
        raise ConfigurationError(
            f"source {printable(str(path))} is of no known kind: {' '.join(sorted(PARSERS))} can be read"
        )
    return Source(name or _name(named.parent), named.parent, named.name, url_base)


def _xml_kind(file: File) -> Kind | None:
    if file.path.suffix.lower() != ".xml":
        return None
    try:
        with opened(file) as stream:
            return kind_of_xml(stream.read(SNIFFED))
    except OSError:
        return None


def _is_read(file: File) -> bool:
    """Whether a file that stands in a folder is read: XML when it is a feed (sitemaps are fetched by name), JSON when
    it is linked data or rows (a folder of pages may have a package.json)."""
    match file.path.suffix.lower():
        case ".xml":
            return _xml_kind(file) == "feed"
        case ".json":
            with suppress(OSError):
                return holds_documents(file)
    return True


def _name(folder: Path) -> str:
    return folder.name or "root"


def _walk(source: Source, leave_out: Callable[[str], object]) -> Iterator[Path | Rejected]:
    """Files below a folder in order of their names, each folder once, however links lead back to it.

    A link out of the folder is not followed, and `leave_out` is told of it: who writes into a folder decides what is
    published of it, and of nothing else that this process may read.
    """
    walk = _Walk(source, source.root.resolve(), leave_out)
    yield from _folder(source.root, walk)
    while walk.linked:
        yield from _folder(walk.linked.pop(0), walk)


@dataclass(slots=True)
class _Walk:
    """Through one source: the folders that were seen, and the links to folders that come after all others."""

    source: Source
    root: Path
    leave_out: Callable[[str], object]
    seen: set[tuple[int, int]] = field(default_factory=set)
    linked: list[Path] = field(default_factory=list)

    def is_inside(self, entry: os.DirEntry[str]) -> bool:
        try:
            if not entry.is_symlink() or Path(os.path.realpath(entry.path)).is_relative_to(self.root):
                return True
        except OSError:  # it is gone again, or may not be followed: opening it says so
            return True
        self.leave_out(Path(entry.path).relative_to(self.source.root).as_posix())
        return False


def _folder(top: Path, walk: _Walk) -> Iterator[Path | Rejected]:
    source, seen, pending = walk.source, walk.seen, [top]
    while pending:
        path = pending.pop()
        try:
            status = path.stat()
            if (status.st_dev, status.st_ino) in seen:
                continue
            seen.add((status.st_dev, status.st_ino))
            with os.scandir(path) as entries:
                visible = sorted((entry for entry in entries if not entry.name.startswith(HIDDEN)), key=_entry_name)
        except OSError as error:
            yield _unreadable(source, path, error)
            continue
        visible = [entry for entry in visible if walk.is_inside(entry)]
        folders = [entry for entry in visible if _is_folder(entry)]
        walk.linked.extend(Path(entry.path) for entry in folders if entry.is_symlink())
        pending.extend(Path(entry.path) for entry in reversed(folders) if not entry.is_symlink())
        yield from (Path(entry.path) for entry in visible if _is_openable(entry))


def _pass_over(origin: str) -> None:
    """What is left out is told of when the source is read."""


def _entry_name(entry: os.DirEntry[str]) -> str:
    return entry.name


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a link to itself
        return False


def _is_openable(entry: os.DirEntry[str]) -> bool:
    """Whether an entry is a file, or a link that leads nowhere, which opening it will say; a pipe would block."""
    try:
        return entry.is_file() or (entry.is_symlink() and not Path(entry.path).exists())
    except OSError:
        return True


def _unreadable(source: Source, folder: Path, error: OSError) -> Rejected:
    origin = folder.relative_to(source.root).as_posix()
    where = printable(origin)
    return Rejected(where, f"cannot be read: {error.strerror}", source.name, origin, folder=True)


def read_file(file: File, rules: VectorRules, mapping: ColumnMapping | None = None) -> Iterator[Found]:
    """What a file's parser yields; a file that fails is one failure more, not the end."""
    file = file if mapping is None else replace(file, mapping=mapping)
    where = printable(file.origin)
    if where != file.origin:
        yield Rejected(where, "the file name is not printable text: rename it", file.source, file.origin)
        return
    try:
        yield from PARSERS[file.path.suffix.lower()](file, rules)
    except AidreError as error:
        yield Rejected(where, error.message, file.source, file.origin)
    except OSError as error:
        yield Rejected(where, f"cannot be read: {error.strerror or _first_line(error)}", file.source, file.origin)
    except (pa.ArrowException, UnicodeDecodeError) as error:
        yield Rejected(where, f"not a readable Parquet file: {_first_line(error)}", file.source, file.origin)


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]


def check_roots(known: Mapping[str, str], roots: Mapping[str, str]) -> None:
    """Refuse a source name that another folder has; a folder that is gone passes its name on."""
    for name, root in roots.items():
        other = known.get(name, root)
        if other != root and Path(other).exists():
            raise ConfigurationError(
                f"source {name!r} is already {other}: give {root} a name of its own with --source NAME"
            )
