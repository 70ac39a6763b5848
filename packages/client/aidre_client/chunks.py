"""Chunks of a server as the library's hits show them."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import msgspec

from aidre_client.messages import ChunkAnswer, CountedFacet, Passage, Result
from aidre_client.values import Copies, Document, Facet, Highlight, Hit, Json

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

NO_COPIES = Copies()
RESERVED = frozenset({"updated_at", "canonical", "visibility", "content_hash", "etag", "provenance"})
"""Members of `metadata` that are not the document's own."""
OF_ONE_CHUNK = frozenset({"content_hash", "etag", "provenance"})
"""Those that differ between the chunks of a document."""
SEPARATOR = "#chunk_"
"""Between the ids of document and chunk, in servers of this project."""


@dataclass(frozen=True, slots=True)
class RemoteChunk:
    """A chunk of a server. A member that the server does not send is empty: `text` where it withholds texts, `url`,
    `title`, `section` and `updated_at` where it says nothing of them."""

    id: str
    text: str
    document_id: str
    section: str | None
    url: str | None
    title: str | None
    type: str | None
    updated_at: str
    canonical: bool
    metadata: Mapping[str, Json]
    json_payload: bytes | None
    schema_object: bytes | None
    collection: str | None
    reserved: Mapping[str, Json]
    """`visibility`, `content_hash`, `etag` and the like, as they were sent."""
    has_text: bool
    relevance: float | None = None
    """From 0 to 1, where the server says."""
    highlight: Highlight | None = None
    """Where words of the query are, if that was asked for."""
    sent_vectors: Mapping[str, Sequence[float]] = field(default_factory=dict, repr=False)
    """The vectors as numbers, by space, if they were asked for."""
    copies: Copies = NO_COPIES
    """With group="document", the near-copies of the document."""
    passages: Sequence[Hit[RemoteChunk]] = field(default=(), repr=False)
    """With group="document", the next best chunks of the document, without what the server says of results alone."""

    @property
    def span(self) -> tuple[int, int]:
        """From the beginning of the chunk: servers do not say where in its document a chunk is."""
        return 0, len(self.text)

    def vectors(self) -> Mapping[str, NDArray[np.float32]]:
        """By space, the vector of the chunk, if it was asked for."""
        if not self.sent_vectors:
            return {}
        import numpy as np

        return {space: np.asarray(vector, np.float32) for space, vector in self.sent_vectors.items()}

    @property
    def content_hash(self) -> str:
        """As the server states it, else that of the text."""
        stated = self.reserved.get("content_hash")
        return stated if isinstance(stated, str) else "sha256:" + hashlib.sha256(self.text.encode()).hexdigest()

    @property
    def etag(self) -> str | None:
        etag = self.reserved.get("etag")
        return etag if isinstance(etag, str) else None

    @property
    def provenance(self) -> str | None:
        """The signed statement about the chunk, a compact JWS; verified by `RemoteCollection.chunk`."""
        token = self.reserved.get("provenance")
        return token if isinstance(token, str) else None

    def to_document(self) -> Document:
        """The chunk as a document of its own, to be stored in a local collection under the id of the chunk."""
        return Document(
            self.id,
            self.text,
            title=self.title,
            url=self.url,
            updated_at=self.updated_at or None,
            section=self.section,
            metadata=self.metadata,
        )


def to_hit(result: Result, collection: str | None) -> Hit[RemoteChunk]:
    """A result as a hit. Its score is not a number where the server sends none."""
    chunk = replace(
        to_chunk(result, collection),
        relevance=result.relevance,
        highlight=result.highlight,
        sent_vectors=result.vectors,
        copies=NO_COPIES if result.copies is None else Copies(result.copies.count, result.copies.ids),
    )
    if result.passages:
        chunk = replace(chunk, passages=[_to_passage(passage, chunk) for passage in result.passages])
    return Hit(chunk, math.nan if result.score is None else result.score)


def _to_passage(sent: Passage, best: RemoteChunk) -> Hit[RemoteChunk]:
    """Another chunk of the document of a hit; what is signed or hashed is of the hit alone."""
    reserved = {name: value for name, value in best.reserved.items() if name not in OF_ONE_CHUNK}
    chunk = replace(
        best,
        id=sent.id or "",
        text=sent.text or "",
        has_text=sent.text is not None,
        section=sent.section,
        relevance=sent.relevance,
        highlight=sent.highlight,
        reserved=reserved,
        sent_vectors={},
        copies=NO_COPIES,
    )
    return Hit(chunk, sent.score)


def to_facet(sent: CountedFacet) -> Facet:
    return Facet(
        tuple((facet_value.value, facet_value.count) for facet_value in sent.values),
        sent.documents,
        sent.missing,
        sent.min,
        sent.max,
        sent.distinct,
        tuple(range_count.count for range_count in sent.ranges),
    )


def to_chunk(sent: Result | ChunkAnswer, collection: str | None) -> RemoteChunk:
    chunk_id, text, reserved = sent.id or "", sent.text or "", dict[str, Json]()
    own = dict[str, Json]()
    for name, value in sent.metadata.items():
        (reserved if name in RESERVED else own)[name] = value
    document_id, found, _ = chunk_id.rpartition(SEPARATOR)
    updated_at = reserved.get("updated_at")
    payload = None if sent.semantic_payload is None else msgspec.json.encode(sent.semantic_payload)
    is_object = isinstance(sent.semantic_payload, dict) and "@type" in sent.semantic_payload
    return RemoteChunk(
        id=chunk_id,
        text=text,
        document_id=document_id if found else chunk_id,
        section=sent.source.section,
        url=sent.source.url,
        title=sent.source.title,
        type=_type_of(sent.semantic_payload),
        updated_at=updated_at if isinstance(updated_at, str) else "",
        canonical=reserved.get("canonical") is not False,
        metadata=own,
        json_payload=payload,
        schema_object=payload if is_object else None,
        collection=collection,
        reserved=reserved,
        has_text=sent.text is not None,
    )


def _type_of(payload: Json) -> str | None:
    found = payload.get("@type") if isinstance(payload, dict) else None
    return found if isinstance(found, str) else None
