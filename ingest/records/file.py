"""A file of a source: where it comes from, and how its bytes are read."""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import BinaryIO

from aidre.engine.errors import InvalidDocument
from aidre.ingest.records.charsets import decode
from aidre.ingest.records.mapping import ColumnMapping
from aidre.ingest.records.notes import Notes
from aidre.ingest.records.safe_open import open_beneath
from aidre.ingest.records.site_page import SitePage

MAX_DOCUMENT_BYTES = 64 << 20
"""Bytes of a file that is one document, and of one line of a file of rows; a larger one fails by name."""


@dataclass(frozen=True, slots=True)
class File:
    """A file of a source: `origin` is its path inside the source, `url` the address of its page.

    For a fetched file `origin` is the requested address, which is also its id, and `url` the address that answered.
    `mapping` is the configured meaning of the columns of rows. `within` is the folder outside which the file is not
    opened; None means anywhere. Documents that are not published at the moment `as_of` are left out; None means that
    drafts are read, too. `is_called_by_path` ignores the id that a front matter gives the file. `charset` is the
    encoding that a server declares. With `notes`, optional members that cannot be read are left out and noted; without,
    they fail. `code` is for archives: source code in them is read. `page` is the page of a website that it becomes.
    `ocr` are the languages in which pages without text are recognised, as tesseract names them; without, they are not.
    """

    path: Path
    source: str
    origin: str
    url: str | None = None
    fetched: bool = False
    mapping: ColumnMapping | None = None
    within: Path | None = None
    as_of: datetime | None = None
    is_called_by_path: bool = False
    charset: str | None = None
    notes: Notes | None = None
    code: bool = False
    page: SitePage | None = None
    ocr: str | None = None

    @property
    def id(self) -> str:
        return self.origin if self.fetched else f"{self.source}/{self.origin}"


def read_text_file(file: File) -> str:
    """The text of a file that is one document; raises InvalidDocument, OSError."""
    decoded = decode(read_content(file), file.charset)
    note(file, decoded.notice)
    return decoded.text


def note(file: File, text: str | None, example: str = "") -> None:
    """Add a note on a file, if there is a `text` and a place for it."""
    if text is not None and file.notes is not None:
        file.notes.add(text, example)


def open_file(file: File, buffering: int = -1) -> BinaryIO:
    """The file as a stream of bytes; raises OSError."""
    if file.within is None:
        return file.path.open("rb", buffering)
    return os.fdopen(open_beneath(file.within, file.path), "rb", buffering)


def read_content(file: File) -> bytes:
    """The bytes of a file that is one document; raises InvalidDocument beyond MAX_DOCUMENT_BYTES, and OSError."""
    with open_file(file) as stream:
        size = os.fstat(stream.fileno()).st_size
        content = stream.read(min(size, MAX_DOCUMENT_BYTES) + 1)  # read() allocates its whole argument first
        if len(content) > size:
            content += stream.read(MAX_DOCUMENT_BYTES + 1)
    if len(content) > MAX_DOCUMENT_BYTES:
        raise InvalidDocument(f"larger than {MAX_DOCUMENT_BYTES >> 20} MiB: split it")
    return content
