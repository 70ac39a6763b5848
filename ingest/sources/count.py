"""Counts the documents of sources before they are read: the total of a progress bar, not a promise.

It looks at names of files and at line ends, so it is quick; a blank line or a cell with line ends makes it too high.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

from aidre.ingest.records import File, Rejected, open_file
from aidre.ingest.sources.folder import FileSource, walk
from aidre.ingest.sources.locate import Source
from aidre.ingest.sources.readers import READERS, is_document_file

_ONE_DOCUMENT = frozenset({".md", ".markdown", ".txt", ".text", ".html", ".htm", ".pdf", ".docx"})
_HEADER_LINES = {".jsonl": 0, ".ndjson": 0, ".csv": 1, ".tsv": 1}
"""Kinds with a document in each line, and how many lines are none."""

_COUNTED_BYTES = 64 << 20
"""Bytes of a file whose line ends are counted; the others are taken to be like these."""
_BLOCK_BYTES = 1 << 20


def count_documents(sources: Iterable[Source]) -> int | None:
    """The number of documents; None if a source is fetched, or if a file does not tell (Parquet, JSON, a feed)."""
    total = 0
    for source in sources:
        count = _count_in_files(source) if isinstance(source, FileSource) else None
        if count is None:
            return None
        total += count
    return total


def _count_in_files(source: FileSource) -> int | None:
    total = 0
    for path in walk(source, lambda link: None):
        if isinstance(path, Rejected):
            continue
        suffix = path.suffix.lower()
        if suffix in _ONE_DOCUMENT:
            total += 1
        elif suffix in _HEADER_LINES:
            with suppress(OSError):
                total += max(0, _count_lines(source.file(path)) - _HEADER_LINES[suffix])
        elif suffix in READERS and is_document_file(source.file(path)):
            return None
    return total


def _count_lines(file: File) -> int:
    """The number of lines of a file; of a large one by those at its beginning."""
    lines = read = 0
    last = b"\n"
    with open_file(file) as stream:
        while read < _COUNTED_BYTES and (block := stream.read(_BLOCK_BYTES)):
            lines, read, last = lines + block.count(b"\n"), read + len(block), block[-1:]
        rest = stream.seek(0, 2) - read
    if rest > 0:
        return lines + lines * rest // read
    return lines + (last != b"\n")
