"""A vector store in a folder: LangChain embeds, aidre stores and searches."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.vectorstores import VectorStore
from langchain_core.vectorstores.utils import maximal_marginal_relevance

import aidre

SPACE = "langchain"
"""The id of the embedding space; its vectors come from the `embedding` of the program."""


class AidreVectorStore(VectorStore):
    """A collection of the store at `path`, which is made by the first document.

    Each document is one chunk with its vector. `filter` is that of aidre, over the metadata: `{"year": {"gte": 2020}}`.
    Scores are cosine similarities. Every write is durable when it returns; several processes may write.
    """

    def __init__(self, embedding: Embeddings, path: str | Path, collection: str = "langchain") -> None:
        self._embedding = embedding
        self._database = aidre.open(path)
        self._name = collection
        self._collection = self._database.collection(collection)

    @property
    def embeddings(self) -> Embeddings:
        return self._embedding

    @property
    def collection(self) -> aidre.Collection:
        """The collection behind, for what LangChain has no verb for."""
        return self._collection

    # -- write -------------------------------------------------------------------------------------------------

    def add_texts(
        self,
        texts: Iterable[str],
        metadatas: list[dict[str, Any]] | None = None,
        *,
        ids: list[str | None] | None = None,
        **kwargs: Any,
    ) -> list[str]:
        texts = list(texts)
        if not texts:
            return []
        named = [one or str(uuid.uuid4()) for one in ids or [None] * len(texts)]
        told = metadatas or [{} for _ in texts]
        documents = [
            aidre.Document(one, text, metadata=metadata) for one, text, metadata in zip(named, texts, told, strict=True)
        ]
        vectors = np.asarray(self._embedding.embed_documents(texts), np.float32)
        if not self._collection.generation:
            space = aidre.EmbeddingSpace(SPACE, vectors.shape[1], "cosine")
            self._collection = self._database.collection(self._name, space=space)
        return self._collection.add(documents, vectors=vectors)

    def delete(self, ids: list[str] | None = None, **kwargs: Any) -> bool:
        """Without ids, all documents."""
        if ids is None:
            self._collection.delete(filter={"document_id": {"exists": True}})
        elif self._collection.generation:
            self._collection.delete(ids)
        return True

    # -- read --------------------------------------------------------------------------------------------------

    def get_by_ids(self, ids: Sequence[str], /) -> list[Document]:
        found = self._collection.get(ids)
        return [Document(id=one.id, page_content=one.text, metadata=dict(one.metadata)) for one in found if one]

    def similarity_search(self, query: str, k: int = 4, **kwargs: Any) -> list[Document]:
        return [document for document, _ in self.similarity_search_with_score(query, k, **kwargs)]

    def similarity_search_with_score(self, query: str, k: int = 4, **kwargs: Any) -> list[tuple[Document, float]]:
        hits = self._search(self._embedding.embed_query(query), k, **kwargs)
        return [(to_document(hit), hit.score) for hit in hits]

    def similarity_search_by_vector(self, embedding: list[float], k: int = 4, **kwargs: Any) -> list[Document]:
        return [to_document(hit) for hit in self._search(embedding, k, **kwargs)]

    def max_marginal_relevance_search(
        self, query: str, k: int = 4, fetch_k: int = 20, lambda_mult: float = 0.5, **kwargs: Any
    ) -> list[Document]:
        vector = self._embedding.embed_query(query)
        return self.max_marginal_relevance_search_by_vector(vector, k, fetch_k, lambda_mult, **kwargs)

    def max_marginal_relevance_search_by_vector(
        self, embedding: list[float], k: int = 4, fetch_k: int = 20, lambda_mult: float = 0.5, **kwargs: Any
    ) -> list[Document]:
        hits = self._search(embedding, max(k, fetch_k), **kwargs)
        vectors = [hit.chunk.vectors()[SPACE] for hit in hits]
        chosen = maximal_marginal_relevance(np.asarray(embedding), vectors, lambda_mult, k)
        return [to_document(hits[place]) for place in chosen]

    def _search(self, vector: Sequence[float], k: int, filter: dict[str, Any] | None = None) -> list[aidre.Hit]:
        return self._collection.search(vector=vector, k=k, filter=filter)

    def _select_relevance_score_fn(self) -> Any:
        return lambda cosine: (1 + cosine) / 2

    # -- make --------------------------------------------------------------------------------------------------

    @classmethod
    def from_texts(
        cls,
        texts: list[str],
        embedding: Embeddings,
        metadatas: list[dict[str, Any]] | None = None,
        *,
        ids: list[str] | None = None,
        path: str | Path = "aidre",
        collection: str = "langchain",
        **kwargs: Any,
    ) -> AidreVectorStore:
        store = cls(embedding, path, collection)
        store.add_texts(texts, metadatas, ids=ids)
        return store


def to_document(hit: aidre.Hit) -> Document:
    """A hit as LangChain shows it; the id is that of the document."""
    return Document(id=hit.document_id, page_content=hit.text, metadata=dict(hit.metadata))
