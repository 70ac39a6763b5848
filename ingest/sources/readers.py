"""Reads a file by its suffix, and each file of a zip archive as a file of a folder.

A failure of a reader becomes one rejected file.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import groupby
from pathlib import Path, PurePath, PurePosixPath
from tempfile import TemporaryDirectory
from typing import Any, TypeAlias

import orjson
import pyarrow as pa

from aidre.engine.errors import AidreError, InvalidDocument
from aidre.ingest.formats import SNIFF_BYTES, XmlKind, read_feed, read_html, read_markdown, read_text, sniff_xml
from aidre.ingest.formats.markup import CODE_SUFFIXES, read_notebook
from aidre.ingest.formats.scans import IMAGE_SUFFIXES, ask_image, ask_pdf
from aidre.ingest.formats.tables import (
    holds_documents,
    read_csv,
    read_json_file,
    read_json_lines,
    read_parquet,
    read_xlsx,
)
from aidre.ingest.records import (
    File,
    Item,
    Mappings,
    Notes,
    Rejected,
    Unpublished,
    VectorRules,
    escape_unprintable,
    note,
    open_file,
)
from aidre.ingest.sandbox import SHARED, sandboxed_reader, stream_file
from aidre.ingest.sources.body import lists_addresses
from aidre.ingest.sources.other_kinds import describe_kinds, find_missing

Reader: TypeAlias = Callable[[File, VectorRules], Iterator[Item]]

_MAX_FILE_NAME = 60
"""Characters of the name that a file has on the disk; its suffix stays."""


@dataclass(frozen=True, slots=True)
class _ArchivePart:
    """A block of a file of the archive; the last part of all has `others` instead."""

    number: int
    name: str
    problem: str | None
    content: memoryview[int]
    others: Counter[str] | None = None


def read_zip(file: File, rules: VectorRules) -> Iterator[Item]:
    """The items of the files in an archive whose suffixes are read, and that are documents.

    A file in it is called `archive.zip/file`. The sandbox inflates it; an archive inside an archive is not read.
    Where the archive itself cannot be read, all documents from it are kept. Raises OSError.
    """
    suffixes = readable_suffixes(code=file.code, ocr=bool(file.ocr)) - {".zip"}
    others: Counter[str] = Counter()
    with TemporaryDirectory(prefix="aidre-zip-") as folder:
        try:
            parts = map(_to_part, stream_file(SHARED, "zip", file, {"suffixes": sorted(suffixes)}))
            for (number, name), blocks in groupby(parts, lambda part: (part.number, part.name)):
                if number < 0:
                    others += next(blocks).others or Counter()
                    continue
                member = _to_member(file, name, Path(folder))
                problem = _write(member.path, blocks)
                if problem is not None:
                    where = escape_unprintable(member.origin)
                    yield Rejected(where, problem, file.source, member.origin)
                elif is_document_file(member):
                    yield from read_file(member, rules)
                else:
                    others[member.path.suffix.lower()] += 1
                member.path.unlink(missing_ok=True)
        except InvalidDocument as error:
            yield Rejected(file.origin, error.message, file.source, file.origin, folder=True)
    if others:
        files = "1 file" if others.total() == 1 else f"{others.total()} files"
        note(file, f"{files} of other kinds skipped ({describe_kinds(others)})")


def _to_part(raw: memoryview[int]) -> _ArchivePart:
    content = bytes(raw)
    line, _, rest = content.partition(b"\n")
    try:
        head: dict[str, Any] = orjson.loads(line)
        if "others" in head:
            return _ArchivePart(
                -1, "", None, memoryview(b""), Counter({str(k): int(v) for k, v in head["others"].items()})
            )
        return _ArchivePart(int(head["number"]), str(head["name"]), head.get("problem"), memoryview(rest))
    except (ValueError, TypeError, KeyError, AttributeError):
        raise InvalidDocument("cannot be read: its parser gave an invalid answer") from None


def _to_member(file: File, name: str, folder: Path) -> File:
    """A file of an archive as one on the disk. Its address is that of the archive."""
    inner = PurePosixPath(name)
    suffix = inner.suffix[:_MAX_FILE_NAME]
    stem = inner.name[: len(inner.name) - len(suffix)].encode("utf-8", "replace")[:_MAX_FILE_NAME]
    path = folder / (stem.decode("utf-8", "ignore").replace("\0", "") + suffix)
    return replace(
        file, path=path, origin=f"{file.origin}/{name}", within=None, is_called_by_path=True, notes=Notes(), page=None
    )


def _write(path: Path, blocks: Iterator[_ArchivePart]) -> str | None:
    """Write the blocks of a file; returns why it cannot be read."""
    problem = None
    with path.open("wb") as output:
        for part in blocks:
            problem = part.problem or problem
            output.write(part.content)
    return None if problem is None else str(problem)


READERS: dict[str, Reader] = {
    **dict.fromkeys((".md", ".markdown", ".mdown", ".mkd", ".mdx", ".qmd", ".rmd"), read_markdown),
    ".ipynb": read_notebook,
    **dict.fromkeys((".rst", ".rest"), sandboxed_reader("rst")),
    **dict.fromkeys((".adoc", ".asciidoc"), sandboxed_reader("asciidoc")),
    ".org": sandboxed_reader("org"),
    ".txt": read_text,
    ".text": read_text,
    ".html": read_html,
    ".htm": read_html,
    ".xhtml": read_html,
    ".pdf": sandboxed_reader("pdf", ask_pdf),
    ".docx": sandboxed_reader("docx"),
    **dict.fromkeys((".pptx", ".ppsx"), sandboxed_reader("pptx")),
    **dict.fromkeys((".odt", ".odp"), sandboxed_reader("odf")),
    ".epub": sandboxed_reader("epub"),
    ".rtf": sandboxed_reader("rtf"),
    ".eml": sandboxed_reader("eml"),
    ".jsonl": read_json_lines,
    ".ndjson": read_json_lines,
    ".json": read_json_file,
    ".jsonld": read_json_file,
    ".csv": read_csv,
    ".tsv": read_csv,
    ".xlsx": read_xlsx,
    ".xlsm": read_xlsx,
    ".parquet": read_parquet,
    ".xml": read_feed,
    ".rss": read_feed,
    ".atom": read_feed,
    ".zip": read_zip,
}
"""The reader of each suffix. Files of some need a library (other_kinds.py)."""

_ASKED_READERS: dict[str, Reader] = {
    **dict.fromkeys(CODE_SUFFIXES, sandboxed_reader("code")),
    **dict.fromkeys(IMAGE_SUFFIXES, sandboxed_reader("image", ask_image)),
}
"""Readers of what is read where it is asked for."""


def read_file(
    file: File,
    rules: VectorRules,
    mappings: Mappings | None = None,
    as_of: datetime | None = None,
    ocr: str | None = None,
) -> Iterator[Item]:
    """The items of a file, without those that are not published at `as_of`; None takes drafts, too. `ocr` are the
    languages for pages without text, of a file that names none.

    A file whose reader fails is one failure, not the end of the run.
    """
    notes = Notes() if file.notes is None else file.notes
    mapping = file.mapping if mappings is None else mappings.of(file.origin)
    file = replace(file, mapping=mapping, as_of=as_of or file.as_of, notes=notes, ocr=file.ocr or ocr)
    where = escape_unprintable(file.origin)
    if where != file.origin:
        yield Rejected(where, "the file name is not printable text: rename it", file.source, file.origin)
        return
    left_out = None if file.page is None else file.page.left_out(file.as_of)
    if left_out is not None:
        yield Unpublished(file.origin, left_out.reason, file.source, file.origin, left_out.until)
        return
    try:
        suffix = file.path.suffix.lower()
        yield from (READERS.get(suffix) or _ASKED_READERS[suffix])(file, rules)
    except AidreError as error:
        yield Rejected(where, error.message, file.source, file.origin)
    except OSError as error:
        yield Rejected(where, f"cannot be read: {error.strerror or _first_line(error)}", file.source, file.origin)
    except (pa.ArrowException, UnicodeDecodeError) as error:
        yield Rejected(where, f"not a readable Parquet file: {_first_line(error)}", file.source, file.origin)
    yield from notes.items(where)


def is_document_file(file: File) -> bool:
    """Whether a file of a folder is read, given that its suffix has a reader.

    XML is read if it is a feed (sitemaps are ingested by name), JSON if it is linked data or rows (a folder of pages
    may have a package.json).
    """
    match file.path.suffix.lower():
        case ".xml":
            return xml_kind(file) == "feed"
        case ".json":
            with suppress(OSError):
                return holds_documents(file)
    return True


def xml_kind(file: File) -> XmlKind | None:
    """The kind of an XML file; None for other files, and for files that cannot be opened."""
    return sniff_xml(_start_of(file)) if file.path.suffix.lower() == ".xml" else None


def is_sitemap(file: File) -> bool:
    """Whether a file lists the addresses of pages: in XML, or as a text."""
    is_text = file.path.suffix.lower() in (".txt", ".text")
    return lists_addresses(_start_of(file)) if is_text else xml_kind(file) == "sitemap"


def _start_of(file: File) -> bytes:
    try:
        with open_file(file) as stream:
            return stream.read(SNIFF_BYTES)
    except OSError:
        return b""


def readable_suffixes(*, code: bool = False, ocr: bool = False) -> frozenset[str]:
    """The suffixes that have a reader, whose library is installed; with `code` also those of source code, with `ocr` of
    images."""
    known = (*READERS, *(CODE_SUFFIXES if code else ()), *(IMAGE_SUFFIXES if ocr else ()))
    return frozenset(suffix for suffix in known if find_missing(suffix) is None)


def is_readable(path: str, *, code: bool = False, ocr: bool = False) -> bool:
    """Whether a file has one of the `readable_suffixes`."""
    return PurePath(path).suffix.lower() in readable_suffixes(code=code, ocr=ocr)


def may_name_itself(path: str) -> bool:
    """Whether a file of that name may have a front matter, with an id of its own."""
    return READERS.get(PurePath(path).suffix.lower()) is read_markdown


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
