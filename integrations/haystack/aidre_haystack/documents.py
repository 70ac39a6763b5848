"""Haystack's documents as aidre stores them, and back.

Content, metadata and embedding are text, metadata and vector. What aidre has no place for, and names of metadata that
it sets itself, are kept in the member `haystack`; `haystack_without` lists what a document lacks, since a row of a
vector store has a text and a vector always.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from haystack.dataclasses import ByteStream, Document, SparseEmbedding

import aidre

SPACE = "haystack"
"""The id of the embedding space; its vectors come with the documents."""
OTHER, WITHOUT = "haystack", "haystack_without"
RESERVED = {"visibility", "content_hash", "etag", "provenance", "updated_at", "canonical", OTHER}
"""Names of metadata that have another meaning in aidre; they are kept, and filters over them read every document."""
NO_TEXT = "…"
"""Stands for a content that is missing or blank; it has no word that a search could find."""


def to_row(document: Document, dimensions: int) -> tuple[aidre.Document, np.ndarray]:
    """A document and its vector, shape (dimensions,); a unit vector stands for an embedding that is missing."""
    content, embedding = document.content, document.embedding
    without = [name for name, value in (("content", content), ("embedding", embedding)) if value is None]
    if embedding is None or not any(embedding):
        vector = np.eye(1, dimensions, dtype=np.float32)[0]
    else:
        vector = np.asarray(embedding, np.float32)
    metadata = {name: value for name, value in document.meta.items() if name not in {*RESERVED, WITHOUT}}
    other: dict[str, Any] = {}
    if moved := {name: value for name, value in document.meta.items() if name not in metadata}:
        other["meta"] = moved
    if (content is not None and content != content.strip()) or content == "":
        other["content"] = content
    if embedding is not None and not any(embedding):
        other["embedding"] = embedding
        without.append("embedding")
    if document.blob is not None:
        other["blob"] = document.blob.to_dict()
    if document.sparse_embedding is not None:
        other["sparse_embedding"] = document.sparse_embedding.to_dict()
    metadata |= ({OTHER: other} if other else {}) | ({WITHOUT: without} if without else {})
    text = content if content is not None and content.strip() else NO_TEXT
    return aidre.Document(document.id, text, metadata=metadata), vector


def to_document(
    document_id: str, text: str, metadata: Mapping[str, Any], vector: np.ndarray | None, score: float | None = None
) -> Document:
    """The document of a row."""
    other, without = metadata.get(OTHER, {}), metadata.get(WITHOUT, ())
    meta = {name: value for name, value in metadata.items() if name not in {OTHER, WITHOUT}} | other.get("meta", {})
    content = None if "content" in without else other.get("content", text)
    embedding = None if "embedding" in without or vector is None else vector.tolist()
    blob, sparse = other.get("blob"), other.get("sparse_embedding")
    return Document(
        id=document_id,
        content=content,
        blob=None if blob is None else ByteStream.from_dict(blob),
        meta=meta,
        score=score,
        embedding=other.get("embedding", embedding),
        sparse_embedding=None if sparse is None else SparseEmbedding.from_dict(sparse),
    )
