"""A file of a source: where it comes from, how its bytes are read, and what is noted of it.

A file beneath a folder is opened without following symlinks out of it, even if a path becomes a link meanwhile
(TOCTOU): write access to a source folder must not publish other files that this process may read.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple, Protocol

from aidre.engine.errors import InvalidDocument
from aidre.ingest.records.charsets import decode
from aidre.ingest.records.mapping import ColumnMapping

_MAX_CHARACTERS = 60
"""Characters of an example."""


@dataclass(frozen=True, slots=True)
class Noted:
    """A notice about a file that was read: an encoding that it does not declare, an invalid date."""

    where: str
    text: str


@dataclass(slots=True)
class Notes:
    """Texts, each with its first example and how often it was added."""

    _found: dict[str, tuple[str, int]] = field(default_factory=dict)

    def add(self, text: str, example: str = "") -> None:
        first, count = self._found.get(text, (example[:_MAX_CHARACTERS], 0))
        self._found[text] = (first, count + 1)

    def items(self, where: str) -> Iterator[Noted]:
        """The notes on the file `where`, which are forgotten."""
        for text, (example, count) in self._found.items():
            details = [example] * bool(example) + [f"{count:,} times"] * (count > 1)
            yield Noted(where, text + (f" ({', '.join(details)})" if details else ""))
        self._found.clear()


_LINK_ERRORS: Final = (errno.ELOOP, errno.ENOTDIR)
"""What O_NOFOLLOW raises at a link that is opened as a file, and as a folder."""

_FILE_FLAGS: Final = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
"""O_NONBLOCK: a file that was replaced by a pipe must not block; it has no effect on a regular file."""

_FOLDER_FLAGS: Final = getattr(os, "O_PATH", os.O_RDONLY) | os.O_CLOEXEC | os.O_DIRECTORY
"""O_PATH, if available: a folder on the way needs the search permission alone, not the read permission."""


def open_beneath(folder: Path, path: Path) -> int:
    """A descriptor of the regular file at `path`, below `folder`; raises OSError (EXDEV for a link that leaves)."""
    try:
        return _open_without_links(folder, path.relative_to(folder).parts)
    except OSError as error:
        if error.errno not in _LINK_ERRORS:
            raise
    # There are links on the way: resolve them, then open the real path without following any.
    root, real = Path(os.path.realpath(folder)), Path(os.path.realpath(path))
    if not real.is_relative_to(root):
        raise OSError(errno.EXDEV, "a link that leads out of the folder: ingest its target as a source of its own")
    return _open_without_links(root, real.relative_to(root).parts)


def _open_without_links(folder: Path, parts: Sequence[str]) -> int:
    descriptor = os.open(folder, _FOLDER_FLAGS)
    for depth, part in enumerate(parts, 1):
        flags = _FILE_FLAGS if depth == len(parts) else _FOLDER_FLAGS | os.O_NOFOLLOW
        try:
            inner = os.open(part, flags, dir_fd=descriptor)
        finally:
            os.close(descriptor)
        descriptor = inner
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "not a file any more")
    return descriptor


class LeftOut(NamedTuple):
    """Why a file is not a document, and until when (RFC 3339), if that is known."""

    reason: str
    until: str | None = None


class SitePage(Protocol):
    """The page of one file."""

    def left_out(self, as_of: datetime | None) -> LeftOut | None:
        """Why the file is not a document of its own, or not yet; None if it is. Without `as_of` drafts are taken."""
        ...

    def expand(self, text: str) -> str:
        """The text with the files that it includes, links between pages as addresses, and wikilinks as links."""
        ...

    def with_includes(self, content: bytes) -> bytes:
        """The content of a file in reStructuredText or AsciiDoc with what it includes; other content as it is."""
        ...

    def include(self, target: str) -> str | None:
        """The text of a file beside the page or, after a slash, below the site's folder; None outside of the folder."""
        ...


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
    if decoded.notice is not None:
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
