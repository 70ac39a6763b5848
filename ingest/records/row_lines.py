"""Files of rows as lines of UTF-8: they are too large to be looked through before the first row is read."""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from contextlib import contextmanager
from tempfile import TemporaryFile
from typing import BinaryIO, cast

from aidre.ingest.records.charsets import decode, find_encoding, find_mark
from aidre.ingest.records.file import MAX_DOCUMENT_BYTES, File, note, open_file

_HEAD_BYTES = 1 << 18
_SAMPLE_BYTES = 1 << 15
_BLOCK_BYTES = 1 << 20
"""Bytes of the sample, of the non-ASCII lines and of a block from which an encoding is detected or changed."""


@contextmanager
def open_rows(file: File, buffering: int = -1) -> Iterator[BinaryIO]:
    """A file of rows in an encoding whose line ends are single bytes; raises OSError.

    UTF-16 is rewritten as UTF-8 in a temporary file, and so are lines that end with carriage returns alone.
    """
    with open_file(file, buffering) as stream:
        head = stream.read(_SAMPLE_BYTES)
        codec = find_mark(head)
        stream.seek(0)
        has_returns = b"\n" not in head and b"\r" in head[:-1]  # the last may belong to a line feed behind the head
        if codec in (None, "utf-8") and not has_returns:
            yield stream
            return
        with TemporaryFile() as rewritten:
            for block in _as_utf8(stream, codec):
                rewritten.write(block.replace(b"\r", b"\n") if has_returns else block)
            rewritten.seek(0)
            yield cast(BinaryIO, rewritten)


def _as_utf8(stream: BinaryIO, codec: str | None) -> Iterator[bytes]:
    """The blocks of a stream, those in UTF-16 and UTF-32 as UTF-8."""
    blocks = iter(lambda: stream.read(_BLOCK_BYTES), b"")
    if codec in (None, "utf-8"):
        yield from blocks
        return
    decoder = codecs.getincrementaldecoder(codec or "")("replace")
    for block in blocks:
        yield decoder.decode(block).encode("utf-8", "replace")
    yield decoder.decode(b"", True).encode("utf-8", "replace")


class RowDecoder:
    """Decodes the lines of a file, in UTF-8 until one is not; then the file's lines beyond ASCII tell its encoding."""

    def __init__(self, file: File) -> None:
        self._file = file
        self._codec = "utf-8"
        self._is_known = False
        if file.charset is not None:
            with open_rows(file) as stream:
                decoded = decode(stream.read(_HEAD_BYTES), file.charset)
            self._codec, self._is_known = decoded.encoding, decoded.encoding != "utf-8"

    def decode(self, line: bytes) -> str:
        """The text of a line; raises InvalidDocument for a file that is not text."""
        try:
            return line.decode(self._codec)
        except UnicodeError:
            if not self._is_known:
                self._codec, self._is_known = find_encoding(self._sample(line)), True
                if self._codec != "utf-8":
                    note(self._file, f"is not utf-8: read as {self._codec}")
        text = line.decode(self._codec, "replace")
        if "\ufffd" in text:
            note(self._file, f"has lines that are not all {self._codec}: what cannot be read is shown as \ufffd")
        return text

    def to_utf8(self, line: bytes) -> bytes:
        """The same as bytes of UTF-8."""
        return line if line.isascii() else self.decode(line).encode("utf-8", "replace")

    def _sample(self, line: bytes) -> bytes:
        """Lines of the file beyond ASCII, from its beginning on to at least the one that was not UTF-8."""
        found: list[bytes] = []
        with open_rows(self._file, _BLOCK_BYTES) as stream:
            for each in iter(lambda: stream.readline(_SAMPLE_BYTES), b""):
                if not each.isascii():
                    found.append(each)
                if sum(map(len, found)) > _SAMPLE_BYTES or stream.tell() > MAX_DOCUMENT_BYTES:
                    break
        return b"".join(found) or line
