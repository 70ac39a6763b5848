"""What reading a source yields: a document with the place it stands at, or the reason why there is none."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, TypeAlias

from aidre.engine.errors import InvalidDocument
from aidre.engine.model import Document
from aidre.ingest.beneath import open_beneath
from aidre.ingest.mapping import ColumnMapping

if TYPE_CHECKING:  # the child that reads what strangers wrote has no room for Arrow
    from aidre.ingest.plain_rows import PlainRows

LARGEST = 64 << 20
"""Bytes of the longest line and of the largest file that is one document; a larger one fails by name."""


@dataclass(frozen=True, slots=True)
class File:
    """A file of a source: `origin` is its path inside the source, `url` what --url-base makes of that.

    Of one that was fetched `origin` is the address that was asked for, which is its id too, and `url` the one that
    answered. `mapping` is what the configuration says of the columns of rows, `within` the folder that a file is not
    read outside of.
    """

    path: Path
    source: str
    origin: str
    url: str | None = None
    fetched: bool = False
    mapping: ColumnMapping | None = None
    within: Path | None = None

    @property
    def id(self) -> str:
        return self.origin if self.fetched else f"{self.source}/{self.origin}"


@dataclass(frozen=True, slots=True)
class Rejected:
    """Something that gives no document. `where` is "file" or "file:line".

    What --mirror must not delete: the document `document_id`, or where that is not known everything that
    came from `origin`, or with `folder` from below it.
    """

    where: str
    reason: str
    source: str
    origin: str
    document_id: str | None = None
    folder: bool = False


@dataclass(frozen=True, slots=True)
class Unchanged:
    """What was fetched from `origin` before is as it was, or may be: its documents stay, and so many count as read."""

    where: str
    source: str
    origin: str
    documents: int = 1


@dataclass(frozen=True, slots=True)
class Listed:
    """All documents of a listing (a feed, a sitemap, rows) came before this. Unless one of them failed, `state` makes
    the next request of it conditional; of which `kind` it was is remembered in any case."""

    source: str
    origin: str
    kind: str
    state: Mapping[str, str]


Found: TypeAlias = "tuple[str, Document] | PlainRows | Rejected | Unchanged | Listed"
"""A document goes with its "file" or "file:line", for messages."""


def decoded(content: bytes, encoding: str = "utf-8") -> str:
    """Text from bytes, without a byte order mark; raises InvalidDocument where they are in another encoding."""
    try:
        return content.decode(encoding).removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        raise InvalidDocument(f"not {encoding.upper()} at byte {error.start}: convert the file to UTF-8") from None
    except (UnicodeError, LookupError):  # also codecs that are no text encodings, like zip
        raise InvalidDocument(f"declares the unknown encoding {encoding}: convert the file to UTF-8") from None


def opened(file: File, buffering: int = -1) -> BinaryIO:
    """The file as a stream of bytes; raises OSError."""
    if file.within is None:
        return file.path.open("rb", buffering)
    return os.fdopen(open_beneath(file.within, file.path), "rb", buffering)


def content(file: File) -> bytes:
    """The bytes of a file that is one document; raises InvalidDocument for a huge one, OSError as it comes."""
    with opened(file) as stream:
        size = os.fstat(stream.fileno()).st_size
        read = stream.read(min(size, LARGEST) + 1)  # so many bytes are allocated before any is read
        if len(read) > size:
            read += stream.read(LARGEST + 1)
    if len(read) > LARGEST:
        raise InvalidDocument(f"larger than {LARGEST >> 20} MiB: split it")
    return read
