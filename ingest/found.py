"""What reading a source yields: a document with the place it stands at, or the reason why there is none."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from aidre.engine.errors import InvalidDocument
from aidre.engine.model import Document

LARGEST = 64 << 20
"""Bytes of the longest line and of the largest file that is one document; a larger one fails by name."""


@dataclass(frozen=True, slots=True)
class File:
    """A file of a source: `origin` is its path inside the source, `url` what --url-base makes of that."""

    path: Path
    source: str
    origin: str
    url: str | None = None

    @property
    def id(self) -> str:
        return f"{self.source}/{self.origin}"


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


Found: TypeAlias = tuple[str, Document] | Rejected
"""A document goes with its "file" or "file:line", for messages."""


def decoded(content: bytes, encoding: str = "utf-8") -> str:
    """Text from bytes, without a byte order mark; raises InvalidDocument where they are in another encoding."""
    try:
        return content.decode(encoding).removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        raise InvalidDocument(f"not {encoding.upper()} at byte {error.start}: convert the file to UTF-8") from None
    except (UnicodeError, LookupError):  # also codecs that are no text encodings, like zip
        raise InvalidDocument(f"declares the unknown encoding {encoding}: convert the file to UTF-8") from None


def content(file: File) -> bytes:
    """The bytes of a file that is one document; raises InvalidDocument for a huge one, OSError as it comes."""
    with file.path.open("rb") as stream:
        read = stream.read(LARGEST + 1)
    if len(read) > LARGEST:
        raise InvalidDocument(f"larger than {LARGEST >> 20} MiB: split it")
    return read
