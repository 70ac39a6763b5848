"""A chunk of an open segment, with its document's properties; every property is read when it is used."""

from __future__ import annotations

from binascii import hexlify
from collections.abc import Mapping
from typing import Any

import numpy as np
import orjson
from msgspec import Struct
from numpy.typing import NDArray

from aidre.engine.index.text import WordFinder
from aidre.engine.index.vectors import decode
from aidre.engine.model import Highlight, HighlightLimits, Json
from aidre.engine.segment.segment_reader import SegmentReader
from aidre.engine.storage import BATCH_ROWS, ETAG_BYTES
from aidre_client.values import beginning, kept_chunk


class StoredChunk(Struct, eq=False):
    """One chunk row of a segment; a struct, because ten are made for each answer."""

    segment: SegmentReader
    row: int

    def __reduce__(self) -> tuple[Any, ...]:
        return kept_chunk(self)

    def __repr__(self) -> str:
        return f"<StoredChunk {self.id!r}: {beginning(self.text)!r}>"

    # -- several columns at once, for every hit of an answer --------------------------------------------------

    @property
    def fragments(self) -> tuple[bytes, bytes, bytes, bytes]:
        """JSON of the chunk's id, of its source and of its metadata, and its etag in hexadecimal."""
        row = self.row
        id_offsets, ids, source_offsets, sources, metadata_offsets, metadata, _, etags = self.segment.fragments[
            row // BATCH_ROWS
        ]
        row %= BATCH_ROWS
        end = row + 1
        etag = row * ETAG_BYTES
        return (
            orjson.dumps(ids[id_offsets[row] : id_offsets[end]].decode()),
            sources[source_offsets[row] : source_offsets[end]],
            metadata[metadata_offsets[row] : metadata_offsets[end]],
            hexlify(etags[etag : etag + ETAG_BYTES]),
        )

    @property
    def passage(self) -> tuple[tuple[str, int], str, str, int | None, bytes]:
        row = self.row
        documents, ids, texts, token_counts, digests = self.segment.passage_columns
        key = self.segment.id, documents.get(row) or 0
        return key, ids[row].decode(), texts[row].decode(), token_counts.get(row), digests[row]

    # -- the chunk -------------------------------------------------------------------------------------------

    def _bytes(self, name: str) -> bytes:
        return self.segment.chunks.bytes(name)[self.row]

    @property
    def id(self) -> str:
        return self._bytes("id").decode()

    @property
    def text(self) -> str:
        return self._bytes("text").decode()

    @property
    def span(self) -> tuple[int, int]:
        """Start and end of the text in its document, in characters."""
        chunks = self.segment.chunks
        return int(chunks.value("start", self.row)), int(chunks.value("end", self.row))

    @property
    def section(self) -> str | None:
        section: str | None = self.segment.chunks.value("section", self.row)
        return section

    @property
    def digest(self) -> bytes:
        """The SHA-256 of the text's UTF-8 bytes."""
        return self.segment.chunks.fixed("content_hash")[self.row]

    @property
    def signature(self) -> bytes | None:
        """None where an older release stored none."""
        chunks = self.segment.chunks
        return chunks.fixed("signature")[self.row] if chunks.has("signature") else None

    @property
    def content_hash(self) -> str:
        return "sha256:" + self.digest.hex()

    def vectors(self) -> dict[str, NDArray[np.float32]]:
        """By space, the chunk's vector, float32 of shape (dimensions,), scaled to the norm it was ingested with."""
        row = slice(self.row, self.row + 1)
        columns = self.segment.columns.items()
        return {space: decode(column.codes[row], column.norms[row])[0] for space, column in columns}

    def highlight(self, finder: WordFinder, limits: HighlightLimits) -> Highlight:
        """The words of a query in text, title and section, by the language that the chunk is indexed in."""
        lexicon = self.segment.lexicon
        language = lexicon.tags[lexicon.languages[self.row]]
        return finder.highlight(language, self.text, self.title, self.section, limits)

    # -- its document ----------------------------------------------------------------------------------------

    def _document(self, name: str) -> Any:
        return self.segment.documents.value(name, self.document_row)

    @property
    def document_row(self) -> int:
        return int(self.segment.chunks.value("document_row", self.row))

    @property
    def document_key(self) -> tuple[str, int]:
        """The document's segment id and row: the content of a segment never changes."""
        return self.segment.id, self.document_row

    @property
    def document_chunk_count(self) -> int:
        return int(self._document("chunks"))

    @property
    def document_digests(self) -> list[tuple[str, bytes]]:
        """The id and the `digest` of every chunk of the document."""
        ids, digests = self.segment.chunks.bytes("id"), self.segment.chunks.fixed("content_hash")
        return [(ids[row].decode(), digests[row]) for row in self.segment.chunk_rows(self.document_row)]

    @property
    def document_id(self) -> str:
        return str(self._document("id"))

    @property
    def json_payload(self) -> bytes | None:
        payload: bytes | None = self._document("payload")
        return payload

    @property
    def url(self) -> str | None:
        url: str | None = self._document("url")
        return url

    @property
    def title(self) -> str | None:
        title: str | None = self._document("title")
        return title

    @property
    def type(self) -> str | None:
        type_: str | None = self._document("type")
        return type_

    @property
    def updated_at(self) -> str:
        return str(self._document("updated_at"))

    @property
    def metadata(self) -> Mapping[str, Json]:
        """The document's own metadata as ingested."""
        stored = self._document("metadata")
        metadata: Mapping[str, Json] = orjson.loads(stored) if stored else {}
        return metadata

    @property
    def schema_object(self) -> bytes | None:
        """The schema.org object as JSON; None where the document has none."""
        value: bytes | None = self._document("schema_object")
        return value
