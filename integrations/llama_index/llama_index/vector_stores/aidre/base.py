"""A vector store in a folder: LlamaIndex embeds, aidre stores and searches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from llama_index.core.bridge.pydantic import PrivateAttr
from llama_index.core.indices.query.embedding_utils import get_top_k_mmr_embeddings
from llama_index.core.schema import BaseNode, MetadataMode
from llama_index.core.vector_stores.types import (
    BasePydanticVectorStore,
    MetadataFilters,
    VectorStoreQuery,
    VectorStoreQueryMode,
    VectorStoreQueryResult,
)
from llama_index.core.vector_stores.utils import metadata_dict_to_node, node_to_metadata_dict
from llama_index.vector_stores.aidre.filters import EVERYTHING, to_filter

import aidre

SPACE = "llama_index"
"""The id of the embedding space; its vectors come with the nodes."""
NODE, TYPE, PARENT = "_node_content", "_node_type", "ref_doc_id"
SET_BY_AIDRE = {"visibility", "content_hash", "etag", "provenance", "updated_at", "canonical", "document_id", "doc_id"}
"""Names of metadata that have another meaning; they stay in the node, and no filter finds them."""
NO_TEXT = "…"
"""Stands for a text that is blank; it has no word that a search could find."""
MMR_FACTOR = 4
"""Candidates of a diverse search, for each result."""
LEXICAL = {VectorStoreQueryMode.TEXT_SEARCH, VectorStoreQueryMode.SPARSE}


class AidreVectorStore(BasePydanticVectorStore):
    """A collection of the store at `path`, which is made by the first node.

    Each node is one row with its vector, kept as float32. Every write is one commit, durable when it returns; several
    processes may read and write. Modes of a query: default, hybrid (vector and words in one score), text_search and
    sparse (BM25), mmr.
    """

    stores_text: bool = True
    flat_metadata: bool = False
    path: str
    collection_name: str = "llama_index"
    _collection: aidre.Collection = PrivateAttr()
    _database: aidre.Database = PrivateAttr()

    def __init__(self, path: str, collection_name: str = "llama_index", **kwargs: Any) -> None:
        super().__init__(path=str(path), collection_name=collection_name, **kwargs)
        self._database = aidre.open(path)
        self._collection = self._database.collection(collection_name)

    @classmethod
    def class_name(cls) -> str:
        return "AidreVectorStore"

    @property
    def client(self) -> aidre.Collection:
        """The collection behind, for what LlamaIndex has no verb for."""
        return self._collection

    # -- write -------------------------------------------------------------------------------------------------

    def add(self, nodes: Sequence[BaseNode], **kwargs: Any) -> list[str]:
        if not nodes:
            return []
        vectors = np.asarray([node.get_embedding() for node in nodes], np.float32)
        if not self._collection.generation:
            space = aidre.EmbeddingSpace(SPACE, vectors.shape[1], "cosine", precision="float32")
            self._collection = self._database.collection(self.collection_name, space=space)
        return self._collection.add([_to_row(node) for node in nodes], vectors=vectors)

    def delete(self, ref_doc_id: str, **delete_kwargs: Any) -> None:
        """Delete the nodes of a document."""
        if self._collection.generation:
            self._collection.delete(filter={PARENT: {"eq": ref_doc_id}}, allow_unknown=True)  # none may have it

    def delete_nodes(
        self, node_ids: list[str] | None = None, filters: MetadataFilters | None = None, **delete_kwargs: Any
    ) -> None:
        if self._collection.generation and (node_ids is not None or filters is not None):
            self._collection.delete(filter=_selection(node_ids, filters))

    def clear(self) -> None:
        if self._collection.generation:
            self._collection.delete(filter=EVERYTHING)

    # -- read --------------------------------------------------------------------------------------------------

    def get_nodes(self, node_ids: list[str] | None = None, filters: MetadataFilters | None = None) -> list[BaseNode]:
        found = self._collection.scan(_selection(node_ids, filters), vectors=True)
        return [_to_node(row.text, row.metadata, row.vectors) for row in found]

    def query(self, query: VectorStoreQuery, **kwargs: Any) -> VectorStoreQueryResult:
        conditions = [to_filter(query.filters)]
        conditions.append(None if not query.node_ids else {"document_id": {"in": query.node_ids}})
        conditions.append(None if not query.doc_ids else {PARENT: {"in": query.doc_ids}})
        known = [one for one in conditions if one is not None]
        hits = self._hits(query, {"and": known} if known else None)
        if query.mode == VectorStoreQueryMode.MMR:
            hits = _diverse(hits, query)
        nodes = [_to_node(hit.text, hit.metadata, hit.chunk.vectors()) for hit in hits]
        return VectorStoreQueryResult(nodes, [hit.score for hit in hits], [hit.document_id for hit in hits])

    def _hits(self, query: VectorStoreQuery, filter: dict[str, Any] | None) -> list[aidre.Hit]:
        k, mode = query.similarity_top_k, query.mode
        if mode in LEXICAL:
            k = query.sparse_top_k or k
            return self._collection.search(_asked(query), k=k, mode="lexical", filter=filter)
        vector = np.asarray(query.query_embedding, np.float32)
        if mode == VectorStoreQueryMode.HYBRID:
            k = query.hybrid_top_k or k
            return self._collection.search(_asked(query), vector=vector, k=k, filter=filter)
        if mode not in {VectorStoreQueryMode.DEFAULT, VectorStoreQueryMode.MMR}:
            raise ValueError(f"aidre has no query mode {mode.value!r}: use default, hybrid, text_search, sparse or mmr")
        k = k * MMR_FACTOR if mode == VectorStoreQueryMode.MMR else k
        return self._collection.search(vector=vector, k=k, filter=filter)


def _asked(query: VectorStoreQuery) -> str:
    if not query.query_str or not query.query_str.strip():
        raise ValueError(f"a query in the mode {query.mode.value!r} needs query_str")
    return query.query_str


def _diverse(hits: list[aidre.Hit], query: VectorStoreQuery) -> list[aidre.Hit]:
    """The best hits that differ from each other (maximal marginal relevance)."""
    _, chosen = get_top_k_mmr_embeddings(
        list(query.query_embedding or ()),
        [hit.chunk.vectors()[SPACE].tolist() for hit in hits],
        similarity_top_k=query.similarity_top_k,
        embedding_ids=list(range(len(hits))),
        mmr_threshold=query.mmr_threshold,
    )
    return [hits[place] for place in chosen]


def _selection(node_ids: list[str] | None, filters: MetadataFilters | None) -> dict[str, Any]:
    parts = [EVERYTHING if node_ids is None else {"document_id": {"in": node_ids}}, to_filter(filters)]
    return {"and": [part for part in parts if part is not None]}


def _to_row(node: BaseNode) -> aidre.Document:
    """A node as a row: its text, its metadata, and the whole node beside them."""
    text = node.get_content(metadata_mode=MetadataMode.NONE)
    described = node_to_metadata_dict(node, remove_text=bool(text.strip()))
    metadata = {name: value for name, value in node.metadata.items() if name not in {*SET_BY_AIDRE, NODE, TYPE, PARENT}}
    metadata |= {NODE: described[NODE], TYPE: described[TYPE]}
    if node.ref_doc_id is not None:
        metadata[PARENT] = node.ref_doc_id
    return aidre.Document(node.node_id, text if text.strip() else NO_TEXT, metadata=metadata)


def _to_node(text: str, metadata: Any, vectors: Any) -> BaseNode:
    node = metadata_dict_to_node({NODE: metadata[NODE], TYPE: metadata[TYPE]})
    if text != NO_TEXT:
        node.set_content(text)
    node.embedding = vectors[SPACE].tolist() if vectors else None
    return node
