"""The columns of chunks that every hit of an answer reads, opened once as raw buffers.

Arrow would make a scalar for each value. A slice of a buffer is bytes in one step, and never reads beyond the end of
the file, even if an offset is damaged.
"""

from __future__ import annotations

import itertools
from typing import Any, NamedTuple, TypeAlias

from aidre.engine.storage import Table

Passage: TypeAlias = tuple[tuple[str, int], str, str, int | None, bytes]
"""Location of the document (segment id, document row), chunk id, text, token count (None: not counted), and SHA-256 of
the text. A plain tuple: one is made for every hit, and a named tuple takes eight times as long to make."""


class FragmentBuffers(NamedTuple):
    """The columns behind `StoredChunk.fragments`, in one batch of BATCH_ROWS chunks.

    Value i of a column of strings is `values[offsets[i] : offsets[i + 1]]`; etags have a fixed width and no offsets.
    The buffers do not keep the mapped file alive: keep the Table as long as them.
    """

    id_offsets: Any
    ids: Any
    source_offsets: Any
    sources: Any
    metadata_offsets: Any
    metadata: Any
    etag_offsets: None
    etags: Any


def fragment_buffers(chunks: Table) -> list[FragmentBuffers]:
    """The buffers of each batch of a chunks file."""
    columns = [chunks.raw(name) for name in ("id", "json_source", "json_metadata", "etag")]
    return [FragmentBuffers(*itertools.chain(*views)) for views in zip(*columns, strict=True)]


def fragment_arrays(chunks: Table) -> list[tuple[Any, ...]]:
    """The same for the kernel: (offsets, bytes) of ids, of sources and of metadata, and the etags, batch by batch."""
    strings = [chunks.buffers(name) for name in ("id", "json_source", "json_metadata")]
    return list(zip(*strings, chunks.arrays("etag"), strict=True))


class Passages:
    """Reads a chunk whose text may be returned; `passages[row]` is its Passage."""

    def __init__(self, segment_id: str, chunks: Table) -> None:
        self._segment_id = segment_id
        self._document_rows, self._token_counts = chunks.integers("document_row"), chunks.integers("token_count")
        self._ids, self._texts, self._digests = chunks.bytes("id"), chunks.bytes("text"), chunks.fixed("content_hash")

    def __getitem__(self, row: int) -> Passage:
        return (
            (self._segment_id, self._document_rows.get(row) or 0),
            self._ids[row].decode(),
            self._texts[row].decode(),
            self._token_counts.get(row),
            self._digests[row],
        )
